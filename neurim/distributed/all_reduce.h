// The sum over the processes of a job, as an op.
#pragma once
#include "neurim/distributed/async_group.h"
#include "neurim/graph/op.h"

namespace neurim {

/// Makes a group known to ops, whose attribute is its number, as long as this or a copy is there. Plans that were made
/// with it go on with the group.
class GroupNumber {
 public:
  GroupNumber() = default;                                    ///< 0: of this process alone
  explicit GroupNumber(std::shared_ptr<ProcessGroup> group);  ///< its operations run at once
  /// Operations of plans take their turn in this queue, and all_reduce_begin goes on beside other ops.
  explicit GroupNumber(const std::shared_ptr<AsyncGroup>& queue);
  /// The number.
  operator std::int64_t() const { return number_ ? *number_ : 0; }  // NOLINT(google-explicit-constructor): it is one

 private:
  std::shared_ptr<const std::int64_t> number_;
};

/// The error of the first operation of that group that failed within a plan; "": none has.
std::string group_failure(std::int64_t group);

/// How long plans have waited for operations in the queue of that group, seconds.
double group_waited(std::int64_t group);

/// Inputs: one or more floating tensors -> the same, summed over the ranks of the group, in one operation; of several
/// ranks in f32 alone.
class AllReduce final : public Op {
 public:
  std::int64_t group = 0;   ///< see GroupNumber; 0: this process alone
  DType sent = DType::f32;  ///< see ProcessGroup::all_reduce
  std::string_view name() const override { return "all_reduce"; }
  void fields(Fields& f) override { f("group", group)("sent", sent); }
  bool pure() const override { return false; }
  bool checks_data() const override { return true; }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::vector<Sample> samples() const override;
};

/// What all_reduce does in two ops, the second of which reads the outputs of the first. In between they are added up
/// beside other ops, where the group has a queue: see GroupNumber. Inputs and outputs as of AllReduce.
class AllReduceBegin final : public Op {
 public:
  std::int64_t group = 0;   ///< see GroupNumber
  std::int64_t number = 0;  ///< which AllReduceEnd belongs to it: no other begin has it
  DType sent = DType::f32;  ///< see ProcessGroup::all_reduce
  std::string_view name() const override { return "all_reduce_begin"; }
  void fields(Fields& f) override { f("group", group)("number", number)("sent", sent); }
  bool pure() const override { return false; }
  bool begins_early() const override { return true; }
  Alias alias(int out, int in) const override { return out == in ? Alias::overwrite : Alias::none; }
  Types infer(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
};

/// Waits for what AllReduceBegin has begun. Its outputs -> the sums.
class AllReduceEnd final : public Op {
 public:
  std::int64_t group = 0;   ///< see GroupNumber
  std::int64_t number = 0;  ///< that of AllReduceBegin
  std::string_view name() const override { return "all_reduce_end"; }
  void fields(Fields& f) override { f("group", group)("number", number); }
  bool pure() const override { return false; }
  bool checks_data() const override { return true; }
  Alias alias(int out, int in) const override { return out == in ? Alias::overwrite : Alias::none; }
  Types infer(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
};

/// The sum of each tensor, of any shape, over the ranks of the group. All ranks call it with the same types. Where it
/// fails, a plan changes nothing and throws Error(failure); group_failure says why.
Tensors all_reduce(const Tensors& tensors, std::int64_t group, DType sent = DType::f32);

/// Sums that go on beside other ops.
struct BegunSums {
  Tensors tensors;                     ///< what all_reduce_end takes: nobody else reads them
  std::int64_t group = 0, number = 0;  ///< of the group, and of these sums in this process
};
/// The same beside other ops, until all_reduce_end. See AllReduceBegin.
BegunSums all_reduce_begin(const Tensors& tensors, std::int64_t group, DType sent = DType::f32);
/// The sums of what has been begun.
Tensors all_reduce_end(const BegunSums& begun);

}  // namespace neurim
