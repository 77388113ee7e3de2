// Picking slices of a tensor by index.
#pragma once
#include "neurim/graph/op.h"
#include "neurim/ops/common/list_field.h"

namespace neurim {

/// The op of gather. Inputs (x, indices).
class Gather final : public Op {
 public:
  /// Sets the attributes.
  explicit Gather(std::int64_t along = 0) : axis(along) {}
  std::int64_t axis;  ///< may count from the back

  std::string_view name() const override { return "gather"; }
  void fields(Fields& f) override { f("axis", axis); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override { return {"Gather", 13}; }
  bool checks_data() const override { return true; }
  std::string data_fault(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

/// Inputs (dy, indices): zeros of the shape before the gather, to which each slice of dy is added at its
/// index.
class GatherGrad final : public Op {
 public:
  /// Sets the attributes.
  explicit GatherGrad(const Shape& whole = {}, std::int64_t along = 0) : shape(whole), axis(along) {}
  Shape shape;        ///< before the gather
  std::int64_t axis;  ///< may count from the back

  std::string_view name() const override { return "gather_grad"; }
  void fields(Fields& f) override {
    list_field(f, "shape", shape);
    f("axis", axis);
  }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  bool checks_data() const override { return true; }
  std::string data_fault(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

/// x (…a, n, …b), any dtype, and indices (…i), i64 or i32, give (…a, …i, …b): the slices of x along `axis`
/// that the indices name. An index counts from the back when negative; one outside [-n, n) sets
/// kStatusIndexOutOfRange.
Tensor gather(const Tensor& x, const Tensor& indices, std::int64_t axis);

}  // namespace neurim
