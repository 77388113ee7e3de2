// What kernels of ops that speak with other ranks have in common.
#pragma once
#include "neurim/distributed/process_group.h"
#include "neurim/graph/kernel.h"

namespace neurim {

/// A group of which ops know the number, and the error of its last operation that failed.
struct KnownGroup;

/// The group of that number; throws Error(usage) where there is none.
ProcessGroup& group_of(std::int64_t number);

/// Calls of a group in a kernel: what they throw makes the plan fail, and is remembered for group_failure().
class GroupCall {
 public:
  explicit GroupCall(std::int64_t number);
  void run(const Args& args, const std::function<void(ProcessGroup& group)>& call) const noexcept;

 private:
  KnownGroup* known_;
};

void define_shards();    ///< the ops of shards.h
void define_team_ops();  ///< those of team_ops.h

}  // namespace neurim
