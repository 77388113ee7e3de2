// A group whose ranks may have different numbers of batches.
#pragma once
#include "neurim/distributed/process_group.h"

namespace neurim {

/// Before each operation ranks say what they are about to do, which costs a short message, so that one that has called
/// join() takes part in the sums of the others, with zeros, until all have. As Horovod's join.
class JoinableGroup final : public ProcessGroup {
 public:
  explicit JoinableGroup(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {}

  /// This rank has no more batches: sums of the others go on, with zeros of this rank; other operations of theirs throw
  /// Error(usage) on all ranks. Returns when all ranks have joined: the last one to do so.
  int join();

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::string backend() const override { return group_->backend(); }
  void all_reduce(std::span<float> values, Reduction reduction, DType sent) override;
  void all_reduce(std::span<double> values, Reduction reduction) override;
  void reduce_scatter(std::span<float> values, std::span<const std::size_t> bounds, DType sent) override;
  void all_gather(std::span<float> values, std::span<const std::size_t> bounds, DType sent) override;
  std::vector<std::string> all_gather(std::string_view bytes) override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  std::vector<std::string> all_to_all(const std::vector<std::string>& bytes) override;
  void send(std::span<const std::byte> bytes, int to) override { group_->send(bytes, to); }
  void receive(std::span<std::byte> bytes, int from) override { group_->receive(bytes, from); }
  std::shared_ptr<ProcessGroup> duplicate() override;
  std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>& ranks) override;
  void abandon(const std::string& why) override { group_->abandon(why); }
  std::string last_operations() const override { return group_->last_operations(); }

 private:
  void announce(const std::string& operation);
  const std::shared_ptr<ProcessGroup> group_;
};

}  // namespace neurim
