// What kernels of ops that speak with other ranks have in common.
#pragma once
#include "neurim/distributed/async_group.h"
#include "neurim/graph/kernel.h"

namespace neurim {

/// A group of which ops know the number, and the error of its first operation that failed.
struct KnownGroup;

/// The group of that number; throws Error(usage) where there is none.
ProcessGroup& group_of(std::int64_t number);

/// Calls of a group in a kernel: what they throw makes the plan fail, and is remembered for group_failure().
class GroupCall {
 public:
  explicit GroupCall(std::int64_t number);
  void run(const Args& args, const std::function<void(ProcessGroup& group)>& call) const noexcept;
  /// Begins it in the group's queue; where there is none, runs it. What it throws comes with end().
  void begin(const Args& args, std::int64_t number, std::function<void(ProcessGroup& group)> call) const noexcept;
  /// Waits for it.
  void end(const Args& args, std::int64_t number) const noexcept;

 private:
  void guarded(const Args& args, const std::function<void()>& call) const noexcept;
  void wait(const AsyncGroup::Work& work) const;
  std::shared_ptr<KnownGroup> known_;
};

/// For a kernel that copies memory: proposes that each output has the layout of the input of its number.
bool propose_layouts_of_inputs(KernelRequest& request);

/// The kernels of ops that speak with other ranks, for a device that runs kernels of the CPU in its own memory; the CPU
/// has them.
void add_group_kernels(std::uint8_t device);

// Of all_reduce, and of shards.h and team_ops.h: the ops, and their kernels.
void define_shards();
void define_team_ops();
void add_shard_kernels(std::uint8_t device);
void add_team_kernels(std::uint8_t device);

}  // namespace neurim
