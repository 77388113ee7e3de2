// A device that needs no hardware and behaves as a GPU does: its memory faults when the host touches it, and
// its streams work later than they are called. What runs on it correctly keeps to the device and stream
// interface.
#pragma once
#include <cstdint>

namespace neurim {

/// Registers the kind of device "test", with every reference kernel that is defined by then; later calls only
/// return the number, which is Device::kind.
///
/// Each index is a device of its own with 4 GiB of memory, filled with 0xff bytes (NaN, -1) when it is
/// allocated. A stream is a thread that executes what is queued, in order. It reads and writes host memory,
/// call lists, pointer tables and status words when a piece of work runs, not when it is queued: memory that
/// changes or ends before wait() shows. A pointer that does not lie in live memory of the stream's device is
/// a fault: what is queued after it is skipped, and wait() throws Error(failure).
std::uint8_t register_test_device();

/// While one lives, streams of the test device begin no piece of work, so that a test sees what a call has
/// done by the time it returns. wait() on a stream with work blocks until then: let go first.
class TestDeviceHold {
 public:
  TestDeviceHold();
  ~TestDeviceHold();
  TestDeviceHold(const TestDeviceHold&) = delete;
  TestDeviceHold& operator=(const TestDeviceHold&) = delete;
  void release();  ///< lets go now

 private:
  bool held_ = true;
};

}  // namespace neurim
