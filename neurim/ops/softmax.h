// e^x / sum(e^x) along an axis
#pragma once
#include "neurim/ops/common/rules.h"

namespace neurim {

/// Base of softmax, log_softmax and their gradients: floating inputs of one type, an output of that type too.
class SoftmaxOp : public Op {
 public:
  std::int64_t axis;  ///< along which the op sums; negative: from the end

  /// Sets the attributes.
  explicit SoftmaxOp(std::int64_t axis_) : axis(axis_) {}
  void fields(Fields& f) override { f("axis", axis); }
  Types infer(std::span<const Type> in) const override;
  Alias alias(int, int) const override { return Alias::overwrite; }

 protected:
  virtual std::size_t inputs() const { return 1; }  ///< how many inputs the op takes
  /// The op O along each axis of a few shapes, the first input filled with `fill`.
  template <class O>
  std::vector<Sample> samples_of(Fill fill) const {
    std::vector<Sample> rows;
    for (const std::int64_t along : {-1, 0, 1})
      rows.push_back({std::make_shared<O>(along), Types(inputs(), {DType::f32, {3, 10, 7}}), {fill}});
    for (const Shape& shape : {Shape{5}, {3, 16}, {2, 49}, {2, 255}, {1, 300}})
      rows.push_back({std::make_shared<O>(-1), Types(inputs(), {DType::f32, shape}), {fill}});
    return rows;
  }
};

/// e^x / sum(e^x); input (x).
class Softmax final : public SoftmaxOp {
 public:
  /// Sets the attributes.
  explicit Softmax(std::int64_t axis_ = -1) : SoftmaxOp(axis_) {}
  std::string_view name() const override { return "softmax"; }
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override { return {"Softmax", 13}; }
  std::vector<Sample> samples() const override { return samples_of<Softmax>({-5, 5}); }
};

/// y * (dy - sum(y * dy)); inputs (y, dy).
class SoftmaxGrad final : public SoftmaxOp {
 public:
  /// Sets the attributes.
  explicit SoftmaxGrad(std::int64_t axis_ = -1) : SoftmaxOp(axis_) {}
  std::string_view name() const override { return "softmax_grad"; }
  std::vector<Sample> samples() const override { return samples_of<SoftmaxGrad>({0, 1}); }

 protected:
  std::size_t inputs() const override { return 2; }
};

/// Softmax along `axis` of floating x, stable for large values.
Tensor softmax(const Tensor& x, std::int64_t axis = -1);

}  // namespace neurim
