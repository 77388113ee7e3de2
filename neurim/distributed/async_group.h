// Operations of a group in the background.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/distributed/process_group.h"

namespace neurim {

/// Runs operations of a group in a thread of its own, in the order in which they are given; all ranks give the same
/// ones. What several operations do one after the other goes as one.
class AsyncGroup {
 public:
  explicit AsyncGroup(std::shared_ptr<ProcessGroup> group);  ///< whose operations they are
  ~AsyncGroup();                                             ///< waits for what has begun; what has not is dropped
  AsyncGroup(const AsyncGroup&) = delete;
  AsyncGroup& operator=(const AsyncGroup&) = delete;

  /// An operation on its way.
  class Work {
   public:
    bool done() const;  ///< whether it has ended, well or not
    void wait() const;  ///< until it has ended; throws what it has thrown
   private:
    friend class AsyncGroup;
    struct State;
    std::shared_ptr<State> state_;
  };

  const std::shared_ptr<ProcessGroup>& group() const { return group_; }  ///< whose operations they are
  /// `operation` is given the group; what it uses stays until it is done.
  Work run(std::function<void(ProcessGroup&)> operation);

 private:
  void work();

  const std::shared_ptr<ProcessGroup> group_;
  std::mutex mutex_;
  std::condition_variable changed_;
  struct Queued {
    std::function<void(ProcessGroup&)> operation;
    std::shared_ptr<Work::State> state;
  };
  std::deque<Queued> queue_;
  std::vector<Queued> ended_;  // destroyed by the threads that call, which may still look at them
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace neurim
