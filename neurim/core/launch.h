// A prepared piece of work, and a call of it: what a stream executes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace neurim {

/// The data of one call. Pointers are device pointers. `scratch` belongs to the call, `workspace` to the thread that
/// runs a task (Launch::workspace). `stream` is the native stream of the device, or null. A kernel that finds bad data
/// or a device fault sets bits in `*status` and does not throw.
struct Args {
  std::span<void* const> in, out;   ///< the arguments, in the order of the op's inputs and outputs
  void* scratch = nullptr;          ///< shared by all tasks of a launch
  void* workspace = nullptr;        ///< of one thread
  void* stream = nullptr;           ///< the device's queue; null on the CPU
  std::uint32_t* status = nullptr;  ///< bits of Status
};

/// Bits of Args::status.
enum Status : std::uint32_t {
  kStatusIndexOutOfRange = 1,  ///< a label or an index outside its range
  kStatusDeviceFault = 2,
  kStatusOutOfMemory = 4,  ///< a library that a kernel calls could not allocate
};

/// A kernel prepared for one request. Its tasks may run at the same time and on any thread. The cut into tasks is fixed
/// when the kernel is prepared, so that results never depend on the number of threads. A reduction phase of
/// `reduction_tasks` tasks, numbered from `tasks` on, begins when all tasks of the first phase have ended; it combines
/// their results in a fixed order. An empty launch means that the kernel declined.
struct Launch {
  /// One task; calls of it run in parallel.
  void (*run)(const void* self, const Args& args, int task) noexcept = nullptr;
  std::shared_ptr<const void> self = nullptr;  ///< the prepared kernel, `self` of run
  int tasks = 1;                               ///< of the first phase
  int reduction_tasks = 0;                     ///< of the second phase, which begins when the first is done
  int max_concurrency = 0;                     ///< tasks that may run at the same time; 0: any number
  /// Bytes of Args::workspace, of launches with max_concurrency. All launches of a plan share a thread's workspace,
  /// which so stays in its cache.
  std::size_t workspace = 0;
  /// Whether there is anything to run.
  explicit operator bool() const { return run != nullptr; }
  /// Bytes from one thread's workspace to the next one's, in whole cache lines, and of all of them.
  std::size_t workspace_step() const { return (workspace + 63) / 64 * 64; }
  /// Of all threads that may run it.
  std::size_t workspace_bytes() const { return workspace_step() * static_cast<std::size_t>(max_concurrency); }
};

/// One entry of a program: a launch and its pointers in the instance's flat table. From `first` on these are `in`
/// inputs, `out` outputs, the scratch and the workspace of the first thread; that of each next thread is
/// `workspace_step` bytes further.
struct Call {
  Launch launch;                  ///< what runs
  std::uint32_t first = 0;        ///< index of its first pointer
  std::uint16_t in = 0, out = 0;  ///< numbers of its arguments
  bool commits = false;  ///< writes state: skipped once a call before it has set the status, so that a failed step
                         ///< changes nothing
  std::size_t workspace_step = 0;  ///< bytes between the workspaces of two threads
};

}  // namespace neurim
