// Ops of ranks that compute one layer together.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// x, of which all ranks of the group have the same -> x; each rank's gradient is a part of the sum that is its
/// gradient. (Shoeybi et al., "Megatron-LM: training multi-billion parameter language models using model parallelism",
/// 2019, there f.)
class TeamCopy final : public Op {
 public:
  std::int64_t group = 0;  ///< see GroupNumber
  std::string_view name() const override { return "team_copy"; }
  void fields(Fields& f) override { f("group", group); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::vector<Sample> samples() const override;
};

/// f32 parts of equal shape -> those of all ranks one after the other along an axis. All ranks have the same gradient,
/// of which each takes its part.
class TeamGather final : public Op {
 public:
  std::int64_t group = 0;  ///< see GroupNumber
  std::int64_t axis = 0;   ///< from 0 on
  std::string_view name() const override { return "team_gather"; }
  void fields(Fields& f) override { f("group", group)("axis", axis); }
  bool pure() const override { return false; }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::vector<Sample> samples() const override;
};

/// See TeamCopy.
Tensor team_copy(const Tensor& x, std::int64_t group);
/// See TeamGather.
Tensor team_gather(const Tensor& part, std::int64_t axis, std::int64_t group);
/// The part of rank r of R along an axis, which R divides.
Tensor team_part(const Tensor& whole, std::int64_t axis, std::int64_t group);

}  // namespace neurim
