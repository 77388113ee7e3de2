#include "neurim/distributed/sub_wire.h"

#include <algorithm>

#include "neurim/base/error.h"

namespace neurim {

namespace {

class SubWire final : public Wire {
 public:
  SubWire(std::unique_ptr<Wire> wire, std::vector<int> ranks) : wire_(std::move(wire)), ranks_(std::move(ranks)) {
    const auto own = std::find(ranks_.begin(), ranks_.end(), wire_->rank());
    NEURIM_ASSERT(own != ranks_.end());
    rank_ = static_cast<int>(own - ranks_.begin());
  }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  std::string host(int rank) const override { return wire_->host(of(rank)); }
  std::string named(int rank) const override { return wire_->named(of(rank)); }
  void exchange(const Operation& operation, int to, std::span<const std::byte> out, int from, std::span<std::byte> in,
                Deadline until) override {
    wire_->exchange(operation, of(to), out, of(from), in, until);
  }
  bool many_threads() const override { return wire_->many_threads(); }
  std::string invitation() override { fail(Fault::usage, "a part of a group is not duplicated; duplicate the group"); }
  std::unique_ptr<Wire> duplicate(const std::string& /*invitation*/) override { return nullptr; }
  void give_up(const std::string& why) noexcept override { wire_->give_up(why); }

 private:
  int of(int rank) const { return rank == kNobody ? kNobody : ranks_[static_cast<std::size_t>(rank)]; }
  const std::unique_ptr<Wire> wire_;
  const std::vector<int> ranks_;
  int rank_ = 0;
};

}  // namespace

std::unique_ptr<Wire> sub_wire(std::unique_ptr<Wire> wire, std::vector<int> ranks) {
  return std::make_unique<SubWire>(std::move(wire), std::move(ranks));
}

}  // namespace neurim
