// Normalization by the statistics of each sample alone: what layer, group and RMS normalization share, and
// the first of them.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// How x lies before such an op: in `rows` rows of `channels` runs of `inner` elements, each row normalized
/// by itself. Run c of row r has weight number r % groups * channels + c.
struct NormRows {
  Dim rows;             ///< number of rows
  std::int64_t groups,  ///< after how many rows the weights start again
      channels,         ///< runs in a row
      inner;            ///< elements of a run, which share a weight
};

/// Base: (x - mean) / sqrt(variance + eps) * weight + bias with the mean and the biased variance of each row.
class NormOp : public Op {
 public:
  double eps = 1e-5;  ///< added to the variance

  virtual std::int64_t group_count() const { return 0; }  ///< 0: weight has the shape of the last axes of x
  virtual bool centered() const { return true; }          ///< or the mean counts as 0, and there is no bias
  /// How x lies before this op.
  NormRows rows(const Shape& x, const Shape& weight) const;
  Tensors grad(const Gradient& g) const override;
  Tensors decompose(std::span<const Tensor> in) const override;

 protected:
  /// Throws unless x and weight fit, and what follows them in `in` has the type of the weight.
  void check(const Type& x, const Type& weight, std::span<const Type> more) const;
};

/// x(…,normalized), floating, weight and bias of the normalized shape -> y like x: normalization over the
/// last axes (Ba et al., "Layer normalization", 2016). An undefined weight is 1, an undefined bias 0. Both
/// share one floating dtype, which may differ from that of x.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

/// Inputs (x, weight, bias) -> y.
class LayerNorm final : public NormOp {
 public:
  /// Sets the attributes.
  explicit LayerNorm(double eps_ = 1e-5) { eps = eps_; }
  std::string_view name() const override { return "layer_norm"; }
  void fields(Fields& f) override { f("eps", eps); }
  Types infer(std::span<const Type> in) const override;
  bool precedes(const Op&) const override { return true; }
  Onnx onnx() const override { return {"LayerNormalization", 17}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

/// The gradient of any of them: inputs (dy, x, weight) -> (dx, dweight, dbias), without dbias where the mean
/// counts as 0.
class NormGrad final : public NormOp {
 public:
  std::int64_t groups = 0;  ///< group_count() of the op whose gradient it is
  bool center = true;       ///< centered() of the op whose gradient it is

  /// Sets the attributes.
  explicit NormGrad(double eps_ = 1e-5, std::int64_t groups_ = 0, bool center_ = true)
      : groups(groups_), center(center_) {
    eps = eps_;
  }
  std::string_view name() const override { return "norm_grad"; }
  void fields(Fields& f) override { f("eps", eps)("groups", groups)("center", center); }
  std::int64_t group_count() const override { return groups; }
  bool centered() const override { return center; }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override { return Op::grad(g); }
  Tensors decompose(std::span<const Tensor>) const override { return {}; }
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
