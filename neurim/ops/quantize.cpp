#include "neurim/ops/quantize.h"

#include "neurim/graph/onnx.h"
#include "neurim/graph/trace.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

void check_scale(const Op& op, const Type& x, const Type& scale) {
  require(broadcast(scale.shape, x.shape, op.name()) == x.shape, op.name(), ": the scale is ", scale,
          ", which does not broadcast to ", x);
}

/// Throws unless whole numbers of the dtype have the zero point among them.
void check_zero_point(const Op& op, std::int64_t zero_point, DType dtype) {
  const std::int64_t least = dtype == DType::u8 ? 0 : -(std::int64_t{1} << (bits(dtype) - 1)),
                     most = least + (std::int64_t{1} << bits(dtype)) - 1;
  require(zero_point >= least && zero_point <= most, op.name(), ": the zero point is ", zero_point, ", but ", dtype,
          " is in [", least, ',', most, ']');
}

Sample row(std::shared_ptr<const Op> op, DType dtype, const Shape& x, const Shape& scale, const Fill& fill) {
  return {std::move(op), {{dtype, x}, {DType::f32, scale}}, {fill, {0.02, 0.1}}};
}

}  // namespace

Types Quantize::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_floating(*this, in[0], "x");
  check_same_dtype(*this, in[0], in[1]);
  check_scale(*this, in[0], in[1]);
  require(dtype == DType::u8 || dtype == DType::i8, "quantize: to ", dtype, ", but takes u8 and i8");
  check_zero_point(*this, zero_point, dtype);
  return {{dtype, in[0].shape}};
}

std::vector<Sample> Quantize::samples() const {
  const auto to = [](std::int64_t zero, DType whole, const Shape& x, const Shape& scale) {
    return row(std::make_shared<Quantize>(zero, whole), DType::f32, x, scale, {-8, 8});
  };
  return {to(0, DType::u8, {2, 3, 17}, {}),    to(113, DType::u8, {2, 3, 5, 7}, {}),
          to(-9, DType::i8, {4, 35}, {}),      to(0, DType::i8, {19, 3, 2, 2}, {19, 1, 1, 1}),
          to(3, DType::i8, {2, 3, 5}, {3, 1}), to(128, DType::u8, {3, 5}, {1, 5})};
}

Types Dequantize::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  const DType dtype = in[0].dtype;
  require(dtype == DType::u8 || dtype == DType::i8 || dtype == DType::i32, "dequantize: of ", in[0],
          ", but takes u8, i8 and i32");
  check_floating(*this, in[1], "the scale");
  check_scale(*this, in[0], in[1]);
  check_zero_point(*this, zero_point, dtype);
  return {{in[1].dtype, in[0].shape}};
}

std::vector<Sample> Dequantize::samples() const {
  const auto from = [](std::int64_t zero, DType dtype, const Shape& x, const Shape& scale) {
    return row(std::make_shared<Dequantize>(zero), dtype, x, scale,
               dtype == DType::u8 ? Fill{0, 256} : Fill{-128, 128});
  };
  return {from(0, DType::u8, {2, 3, 17}, {}),    from(113, DType::u8, {2, 3, 5, 7}, {}),
          from(-9, DType::i8, {4, 35}, {}),      from(0, DType::i8, {19, 3, 2, 2}, {19, 1, 1, 1}),
          from(3, DType::i8, {2, 3, 5}, {3, 1}), from(0, DType::i32, {35}, {35})};
}

Tensor quantize(const Tensor& x, const Tensor& scale, std::int64_t zero_point, DType dtype) {
  return apply1(std::make_shared<Quantize>(zero_point, dtype), {x, scale});
}

Tensor dequantize(const Tensor& q, const Tensor& scale, std::int64_t zero_point) {
  return apply1(std::make_shared<Dequantize>(zero_point), {q, scale});
}

/// The scale as ONNX takes it, () or along one axis, and a zero point like it.
static void write_scaled(const Op& op, OnnxNode& node, DType dtype, std::int64_t zero_point) {
  const Shape& scale = node.types[1].shape;
  OnnxAttributes attributes;
  std::vector<std::int64_t> sizes;
  for (int axis = 0; axis < scale.rank(); ++axis)
    if (scale[axis] != 1) {
      sizes.push_back(scale[axis]);
      attributes = {{"axis", std::int64_t{axis} - scale.rank() + node.types[0].shape.rank()}};
    }
  require(node.types[1].dtype == DType::f32, op.name(), ": the scale is ", node.types[1],
          ", but ONNX takes f32 before opset 19");
  require(sizes.size() <= 1, op.name(), ": the scale is ", node.types[1],
          ", but ONNX takes one for all or one along an axis");
  const std::string own = scale.rank() == std::ssize(sizes)
                              ? node.in[1]
                              : node.add("Reshape", {node.in[1], node.list(sizes, "shape")});
  std::vector<std::string> in{node.in[0], own};
  if (dtype != DType::i32) {  // which ONNX counts from 0
    const Untraced untraced;
    in.push_back(node.file.constant(Tensor::full({dtype, Shape(sizes)}, static_cast<double>(zero_point)),
                                    text(node.name, "/zero")));
  } else {
    require(zero_point == 0, op.name(), ": the zero point of i32 is ", zero_point, ", but ONNX counts it from 0");
  }
  node.add(onnx_operator(op, node.file), in, attributes);
}

void Quantize::write_onnx(OnnxNode& node) const { write_scaled(*this, node, dtype, zero_point); }
void Dequantize::write_onnx(OnnxNode& node) const { write_scaled(*this, node, node.types[0].dtype, zero_point); }

void define_quantize() {
  define<Quantize>();
  define<Dequantize>();
}

}  // namespace neurim
