// Shape and type rules that many ops share.
#pragma once
#include <optional>

#include "neurim/base/error.h"
#include "neurim/graph/op.h"

namespace neurim {

/// Throws Error(usage) "NAME: takes N inputs, got M" unless the count is in [least, most].
void check_count(const Op& op, std::span<const Type> in, std::size_t least, std::size_t most);
/// Throws unless the input is floating.
void check_floating(const Op& op, const Type& in, std::string_view what);
/// Throws unless the input is a floating scalar.
void check_floating_scalar(const Op& op, const Type& in, std::string_view what);
/// Throws unless the two dtypes are equal, naming both.
void check_same_dtype(const Op& op, const Type& a, const Type& b);
/// Throws if the input is bool.
void check_number(const Op& op, const Type& in, std::string_view what);

/// For Op::data_fault: the first of these whole numbers outside [low, high) that is not `ignored`, "WHAT at (3) is 12,
/// which is not in [0,10)"; "" where there is none.
std::string outside(std::string_view what, const Tensor& numbers, std::int64_t low, std::int64_t high,
                    std::optional<std::int64_t> ignored = {});

/// How many values stand after each index of the first axis: of a weight, the terms of one sum.
Dim row_size(const Shape& shape);

/// Base of ops with one input and an output of the same type, element by element.
class UnaryOp : public Op {
 public:
  Types infer(std::span<const Type> in) const override;
  FusionTraits fusion() const override { return kPointwise; }
  Alias alias(int, int) const override { return Alias::overwrite; }
  /// This op with its attributes as they are, on a few shapes filled from domain().
  std::vector<Sample> samples() const override;

 protected:
  virtual bool takes_integers() const { return false; }  ///< or floating input alone
  virtual Fill domain() const { return {}; }             ///< where samples evaluate the op
};

/// Base of the gradients of unary ops: inputs (the saved x or y, dy) and output dx, all of one floating type.
class UnaryGradOp : public Op {
 public:
  Types infer(std::span<const Type> in) const override;
  FusionTraits fusion() const override { return kPointwise; }
  Alias alias(int, int) const override { return Alias::overwrite; }
  std::vector<Sample> samples() const override;

 protected:
  virtual Fill domain() const { return {}; }  ///< of the saved value
};

/// Base of ops with two inputs of one number type that broadcast (NumPy's rule), element by element.
class BinaryOp : public Op {
 public:
  Types infer(std::span<const Type> in) const override;
  FusionTraits fusion() const override { return kPointwise; }
  Alias alias(int, int) const override { return Alias::overwrite; }
  /// This op on equal and on broadcast shapes, filled from left() and right(), and on integers.
  std::vector<Sample> samples() const override;

 protected:
  virtual Fill left() const { return {}; }   ///< where samples take the first input from
  virtual Fill right() const { return {}; }  ///< where samples take the second input from
};

/// Base of reductions of one number input over some axes to an output of the same dtype.
class ReduceOp : public Op {
 public:
  std::vector<std::int64_t> axes;  ///< negative ones count from the end; empty: all
  bool keepdims = false;           ///< whether reduced axes stay, with size 1

  ReduceOp() = default;  ///< over all axes
  /// Sets the attributes.
  ReduceOp(std::vector<std::int64_t> axes_, bool keepdims_) : axes(std::move(axes_)), keepdims(keepdims_) {}
  void fields(Fields& f) override { f("axes", axes)("keepdims", keepdims); }
  Types infer(std::span<const Type> in) const override;
  /// For each axis of an input of this rank, whether it is reduced. Throws on axes outside the rank or
  /// repeated.
  std::array<bool, Shape::kMaxRank> reduced(int rank) const;
  /// The input's shape with every reduced axis of size 1, whatever keepdims says.
  Shape kept(const Shape& shape) const;

 protected:
  /// As an ONNX reduction whose axes are an input from opset `since` on and an attribute before.
  void write_reduction(OnnxNode& node, std::string_view type, std::int64_t since) const;
  /// A value of the output's shape, with the reduced axes of x there again, so that it broadcasts against x.
  Tensor restored(const Tensor& reduced_value, const Shape& x) const;
  /// The op O over one, several and all axes, with and without keepdims.
  template <class O>
  static std::vector<Sample> samples_of(Fill fill = {}) {
    std::vector<Sample> rows;
    const Type x{DType::f32, {2, 3, 4, 5}};
    for (const bool keep : {false, true})
      for (const std::vector<std::int64_t>& over : {std::vector<std::int64_t>{}, {1}, {-1}, {0, 2, 3}, {2, 3}, {3, 0}})
        rows.push_back({std::make_shared<O>(over, keep), {x}, {fill}});
    return rows;
  }
};

/// Sums `gradient` over the axes along which `shape` was broadcast: the gradient of a broadcast operand.
Tensor unbroadcast(const Tensor& gradient, const Shape& shape);

/// A constant of one element with the dtype of `like`, for arithmetic with a number.
Tensor scalar_like(const Tensor& like, double value);

}  // namespace neurim
