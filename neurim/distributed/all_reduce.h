// The sum over the processes of a job, as an op.
#pragma once
#include <functional>

#include "neurim/distributed/process_group.h"
#include "neurim/graph/op.h"

namespace neurim {

/// Runs calls of a group in their turn, and returns when they have ended.
using InTurn = std::function<void(const std::function<void(ProcessGroup& group)>& call)>;

/// Makes the group known to ops; their attribute is the number that this returns. It stays as long as the process.
/// `in_turn`: by which other threads use the group too.
std::int64_t group_number(std::shared_ptr<ProcessGroup> group, InTurn in_turn = {});

/// The error of the first operation of that group that failed within a plan; "": none has.
std::string group_failure(std::int64_t group);

/// Inputs: one or more floating tensors -> the same, summed over the ranks of the group, in one operation; of several
/// ranks in f32 alone.
class AllReduce final : public Op {
 public:
  std::int64_t group = 0;   ///< see group_number(); 0: this process alone
  DType sent = DType::f32;  ///< see ProcessGroup::all_reduce
  std::string_view name() const override { return "all_reduce"; }
  void fields(Fields& f) override { f("group", group)("sent", sent); }
  bool pure() const override { return false; }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::vector<Sample> samples() const override;
};

/// The sum of each tensor, of any shape, over the ranks of the group. All ranks call it with the same types. Where it
/// fails, a plan changes nothing and throws Error(failure); group_failure says why.
Tensors all_reduce(const Tensors& tensors, std::int64_t group, DType sent = DType::f32);

}  // namespace neurim
