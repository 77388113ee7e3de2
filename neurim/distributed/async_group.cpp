#include "neurim/distributed/async_group.h"

#include <optional>

namespace neurim {

struct AsyncGroup::Work::State {
  mutable std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  std::optional<Error> error;

  void end(std::optional<Error> with) {
    const std::lock_guard lock(mutex);
    done = true, error = std::move(with);
    ended.notify_all();
  }
};

bool AsyncGroup::Work::done() const {
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

void AsyncGroup::Work::wait() const {
  std::unique_lock lock(state_->mutex);
  state_->ended.wait(lock, [&] { return state_->done; });
  if (state_->error) throw *state_->error;
}

AsyncGroup::AsyncGroup(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)), thread_([this] { work(); }) {}

AsyncGroup::~AsyncGroup() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

AsyncGroup::Work AsyncGroup::run(std::function<void(ProcessGroup&)> operation) {
  Work work;
  work.state_ = std::make_shared<Work::State>();
  std::vector<Queued> ended;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(operation), work.state_});
    ended.swap(ended_);
  }
  changed_.notify_all();
  return work;
}

void AsyncGroup::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_ || !queue_.empty(); });
    if (ends_) {
      for (const Queued& one : queue_) one.state->end(Error(Fault::failure, "the group has ended"));
      return;
    }
    Queued one = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    std::optional<Error> error;
    try {
      one.operation(*group_);
    } catch (const Error& thrown) {
      error = thrown;
    } catch (const std::exception& thrown) {
      error = Error(Fault::failure, thrown.what());
    }
    one.state->end(std::move(error));
    lock.lock();
    ended_.push_back(std::move(one));
  }
}

}  // namespace neurim
