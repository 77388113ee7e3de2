// What a group has done last, and when.
#pragma once
#include <chrono>
#include <deque>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "neurim/distributed/wire.h"

namespace neurim {

/// Remembers the last 256 operations of a group; where HOROVOD_TIMELINE names a file, rank 0 writes all of them into it
/// in the format of chrome://tracing. For any thread.
class FlightRecorder {
 public:
  explicit FlightRecorder(int rank);

  /// An operation begins; the number is for its end.
  std::uint64_t begin(const Operation& operation);
  void end(std::uint64_t number, bool failed);
  /// CSV with a line for each operation, the last one last: its number, name and bytes, when it began (seconds since
  /// the group was made), how long it took, and "done", "failed" or "under way".
  std::string csv() const;
  /// The time of the operations of the thread that has made this, which waits for them.
  double seconds() const;
  double seconds_behind() const;  ///< of all other threads
  /// Of the operation that is under way: its name; "": there is none.
  std::string under_way(double& seconds) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    Operation operation;
    double begin = 0, seconds = 0;
    const char* state = "under way";
    std::uint64_t number = 0;
  };
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  const Clock::time_point start_ = Clock::now();
  const std::thread::id thread_ = std::this_thread::get_id();
  std::uint64_t begun_ = 0;
  mutable std::mutex mutex_;
  std::deque<Entry> last_;
  double seconds_ = 0, seconds_behind_ = 0;
  std::ofstream timeline_;
  bool first_ = true;  // nothing is in the timeline
};

}  // namespace neurim
