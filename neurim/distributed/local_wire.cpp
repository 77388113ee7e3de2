#include "neurim/distributed/local_wire.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/distributed/message_group.h"
#include "neurim/hardware/machine.h"

namespace neurim {

namespace {

struct Message {
  Operation operation;
  std::vector<std::byte> bytes;
};

/// The messages between the ranks.
struct Post {
  std::mutex mutex;
  std::condition_variable came;
  std::map<std::pair<int, int>, std::deque<Message>> messages;  // by sender and receiver
  std::optional<std::string> report;                            // why a rank has given up
  std::map<std::string, std::shared_ptr<Post>> duplicates;      // by invitations
};

class LocalWire final : public Wire {
 public:
  LocalWire(int rank, int size, std::shared_ptr<Post> post) : rank_(rank), size_(size), post_(std::move(post)) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string host(int rank) const override { return text(host_name(), ", thread ", rank); }

  void exchange(const Operation& operation, int to, std::span<const std::byte> out, int from, std::span<std::byte> in,
                Deadline until) override {
    std::unique_lock lock(post_->mutex);
    if (to != kNobody) {
      post_->messages[{rank_, to}].push_back({operation, {out.begin(), out.end()}});
      post_->came.notify_all();
    }
    if (from == kNobody) return;
    std::deque<Message>& box = post_->messages[{from, rank_}];
    if (!post_->came.wait_until(lock, until, [&] { return !box.empty() || post_->report; }))
      fail(Fault::failure, named(from), ": nothing came in time");
    if (box.empty()) fail(Fault::failure, *post_->report);
    const Message message = std::move(box.front());
    box.pop_front();
    const Frame frame{.operation = message.operation, .size = message.bytes.size()};
    frame.check(operation, in.size(), named(from));
    std::ranges::copy(message.bytes, in.begin());
  }

  std::string invitation() override {
    const std::lock_guard lock(post_->mutex);
    std::string name = text(post_->duplicates.size());
    post_->duplicates[name] = std::make_shared<Post>();
    return name;
  }
  std::unique_ptr<Wire> duplicate(const std::string& invitation) override {
    const std::lock_guard lock(post_->mutex);
    return std::make_unique<LocalWire>(rank_, size_, post_->duplicates.at(invitation));
  }

  void give_up(const std::string& why) noexcept override {
    const std::lock_guard lock(post_->mutex);
    if (!post_->report) post_->report = why;
    post_->came.notify_all();
    for (const auto& [name, other] : post_->duplicates) {
      const std::lock_guard lock_of_other(other->mutex);
      if (!other->report) other->report = why;
      other->came.notify_all();
    }
  }

 private:
  const int rank_, size_;
  const std::shared_ptr<Post> post_;
};

}  // namespace

std::vector<std::unique_ptr<Wire>> local_wires(int ranks) {
  const auto post = std::make_shared<Post>();
  std::vector<std::unique_ptr<Wire>> wires;
  for (int rank = 0; rank < ranks; ++rank) wires.push_back(std::make_unique<LocalWire>(rank, ranks, post));
  return wires;
}

void as_local_ranks(int ranks, const std::function<void(std::shared_ptr<ProcessGroup> group)>& body, double timeout) {
  require(ranks >= 1, "there are ", ranks, " ranks; it takes one at least");
  std::vector<std::unique_ptr<Wire>> wires = local_wires(ranks);
  std::mutex mutex;
  std::exception_ptr first;  // that a rank has thrown
  std::vector<std::thread> threads;
  for (std::unique_ptr<Wire>& wire : wires)
    threads.emplace_back([&, wire = std::move(wire)]() mutable {
      Wire& own = *wire;
      const std::string name = own.named(own.rank());
      const auto group = std::make_shared<MessageGroup>(std::move(wire), "threads",
                                                        std::chrono::milliseconds(static_cast<int>(timeout * 1000)));
      try {
        body(group);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        own.give_up(text(name, ": ", error.what()));
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace neurim
