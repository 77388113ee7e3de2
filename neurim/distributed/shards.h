// Optimizer states that are spread over the ranks: each steps its own weights.
#pragma once
#include "neurim/distributed/process_group.h"
#include "neurim/graph/op.h"
#include "neurim/optim/optimizer.h"

namespace neurim {

/// Which rank steps each weight: the largest ones first, each to the rank with the fewest bytes so far.
std::vector<int> owners_of(const Tensors& weights, int ranks);

/// Inputs: f32 tensors -> a f32 scalar, 0, and of the inputs that this rank owns the sums over the ranks of the group.
class ReduceScatter final : public Op {
 public:
  std::int64_t group = 0;            ///< see GroupNumber
  DType sent = DType::f32;           ///< see ProcessGroup::all_reduce
  std::vector<std::int64_t> owners;  ///< the rank of each input
  std::string_view name() const override { return "reduce_scatter"; }
  void fields(Fields& f) override { f("group", group)("sent", sent)("owners", owners); }
  bool pure() const override { return false; }
  Types infer(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
};

/// Inputs: f32 tensors -> the same, each as its owner has it.
class AllGather final : public Op {
 public:
  std::int64_t group = 0;            ///< see GroupNumber
  std::vector<std::int64_t> owners;  ///< the rank of each input
  std::string_view name() const override { return "all_gather"; }
  void fields(Fields& f) override { f("group", group)("owners", owners); }
  bool pure() const override { return false; }
  Types infer(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
};

/// Sums the gradients of all ranks as ReduceGradients does. Of stage 1 each rank has all sums, of stage 2 those of its
/// own weights alone; after the step it gets the other weights from their owners. (Rajbhandari et al., "ZeRO: memory
/// optimizations toward training trillion parameter models", SC'20.) The optimizer keeps the state of the owned ones:
/// see Optimizer::keep.
class ShardGradients final : public GradientTransform {
 public:
  ShardGradients(std::int64_t group, int stage, std::vector<int> owners, DType sent);
  bool apply(Gradients& gradients, double samples) override;
  void after(const Tensors& weights) override;

 private:
  std::int64_t group_;
  int stage_;
  std::vector<int> owners_;  // of all weights
  DType sent_;
};

/// Says that ranks of a group have the gradients of different weights, so that norms are of all of them.
class SpreadGradients final : public GradientTransform {
 public:
  /// `copies`: how many ranks have the gradient of each weight.
  SpreadGradients(std::int64_t group, std::vector<double> copies) : group_(group), copies_(std::move(copies)) {}
  bool apply(Gradients& gradients, double samples) override;

 private:
  std::int64_t group_;
  std::vector<double> copies_;
};

}  // namespace neurim
