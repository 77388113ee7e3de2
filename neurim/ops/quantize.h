// Numbers of 8 bits that stand for floating ones: a whole number times a scale, counted from a zero point (Jacob et
// al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", CVPR'18). ONNX's
// QuantizeLinear and DequantizeLinear.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// See quantize().
class Quantize final : public Op {
 public:
  std::int64_t zero_point = 0;  ///< the whole number that stands for 0
  DType dtype = DType::u8;      ///< of the result, u8 or i8

  Quantize() = default;  ///< to u8 with zero point 0
  /// Sets the attributes.
  Quantize(std::int64_t zero_point_, DType dtype_) : zero_point(zero_point_), dtype(dtype_) {}
  std::string_view name() const override { return "quantize"; }
  void fields(Fields& f) override { f("zero_point", zero_point)("dtype", dtype); }
  Formula formula() const override { return {static_cast<double>(zero_point), dtype == DType::u8 ? 0.0 : -128.0}; }
  Types infer(std::span<const Type> in) const override;
  FusionTraits fusion() const override { return kPointwise; }
  Onnx onnx() const override { return {"QuantizeLinear", 13}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

/// See dequantize().
class Dequantize final : public Op {
 public:
  std::int64_t zero_point = 0;  ///< the whole number that stands for 0

  /// Sets the attributes.
  explicit Dequantize(std::int64_t zero_point_ = 0) : zero_point(zero_point_) {}
  std::string_view name() const override { return "dequantize"; }
  void fields(Fields& f) override { f("zero_point", zero_point); }
  Formula formula() const override { return {static_cast<double>(zero_point)}; }
  Types infer(std::span<const Type> in) const override;
  /// Follows nothing: what reads its output wants it made there, of a quarter of the memory.
  FusionTraits fusion() const override { return {.pointwise = true, .rematerializable = true}; }
  Onnx onnx() const override { return {"DequantizeLinear", 13}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

/// x / scale + zero_point, rounded to the nearest whole number, ties of x / scale to even, and limited to the range of
/// `dtype`, u8 or i8; a NaN becomes the least of it. x is floating, any shape; the scale has its dtype and broadcasts
/// to it, () or one a channel, as (O,1,1,1) for the weights of a convolution. Has no gradient. Throws Error(usage) on
/// other dtypes and shapes, and where the zero point is none of `dtype`.
Tensor quantize(const Tensor& x, const Tensor& scale, std::int64_t zero_point, DType dtype);

/// (q - zero_point) * scale, in the dtype of the scale. q is u8, i8 or i32, any shape; the scale is floating and
/// broadcasts to it. Has no gradient. Throws Error(usage) on other dtypes and shapes, and where the zero point is none
/// of q's dtype.
Tensor dequantize(const Tensor& q, const Tensor& scale, std::int64_t zero_point = 0);

}  // namespace neurim
