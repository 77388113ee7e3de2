// A part of a tensor: start, end and step along each axis.
#pragma once
#include "neurim/graph/op.h"
#include "neurim/ops/common/list_field.h"

namespace neurim {

/// What a slice takes from a tensor of one shape: element i along an axis is element start + i * step of the
/// tensor.
struct SliceRange {
  std::array<Dim, Shape::kMaxRank> start{};          ///< the first element along each axis
  std::array<std::int64_t, Shape::kMaxRank> step{};  ///< from one element to the next, in elements along the axis
  Shape shape;                                       ///< of the slice
};

/// As the inputs of ONNX's Slice: one entry of each per sliced axis. Starts and ends may count from the back
/// and are clamped; `axes` empty: the first ones; `steps` empty: ones. A negative step walks backwards,
/// excluding the end.
struct SliceOptions {
  std::vector<Dim> starts,         ///< the first element
      ends;                        ///< after the last one
  std::vector<std::int64_t> axes,  ///< which are sliced; may count from the back; empty: the first ones
      steps;                       ///< from one element to the next; empty: ones
  void fields(Fields& f) { f("starts", starts)("ends", ends)("axes", axes)("steps", steps); }
  /// Throws Error(usage) with `who` on a bad axis, a step of zero or unequal counts, and where the result depends on a
  /// symbolic size in another way than by an expression: as that of three elements of `time` does.
  SliceRange range(const Shape& shape, std::string_view who) const;
};

/// The op of slice. Input (x).
class Slice final : public Op {
 public:
  /// Sets the attributes.
  explicit Slice(SliceOptions part = {}) : options(std::move(part)) {}
  SliceOptions options;  ///< of the slice

  std::string_view name() const override { return "slice"; }
  FusionTraits fusion() const override { return {.data_movement = true}; }
  void fields(Fields& f) override { options.fields(f); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Alias alias(int out, int in) const override;
  std::int64_t view_begin(std::span<const Type> in) const override;
  Onnx onnx() const override { return {.name = "Slice", .since = 13}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

/// dy (the sliced shape) put back in its place in zeros of the shape before the slice.
class SliceGrad final : public Op {
 public:
  /// Sets the attributes.
  explicit SliceGrad(const Shape& whole = {}, SliceOptions part = {}) : shape(whole), options(std::move(part)) {}
  Shape shape;           ///< before the slice
  SliceOptions options;  ///< of the slice

  std::string_view name() const override { return "slice_grad"; }
  void fields(Fields& f) override {
    list_field(f, "shape", shape);
    options.fields(f);
  }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::vector<Sample> samples() const override;
};

/// x[start:end:step] along each of `axes`, any dtype, with the meaning of SliceOptions.
Tensor slice(const Tensor& x, std::vector<Dim> starts, std::vector<Dim> ends, std::vector<std::int64_t> axes = {},
             std::vector<std::int64_t> steps = {});

}  // namespace neurim
