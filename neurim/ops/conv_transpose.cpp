#include "neurim/ops/conv_transpose.h"

#include "neurim/graph/onnx.h"
#include "neurim/ops/add.h"
#include "neurim/ops/common/list_field.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/reshape.h"

namespace neurim {

namespace {

template <std::size_t N>
struct ConvTransposeRow {
  Shape x, weight;
  ConvTransposeOptions<N> options = {};
  bool bias = false;
};

template <std::size_t N>
std::vector<ConvTransposeRow<N>> conv_transpose_rows();

template <>
std::vector<ConvTransposeRow<1>> conv_transpose_rows() {
  return {
      {{2, 3, 5}, {3, 4, 3}, {}, true},
      {{1, 6, 4}, {6, 2, 4}, {.stride = {2}, .dilation = {3}, .pad = {2, 1}, .output_padding = {1}, .groups = 2}},
      {{1, 16, 6}, {16, 16, 4}, {.stride = {2}, .pad = {1, 1}}, true},
  };
}

template <>
std::vector<ConvTransposeRow<2>> conv_transpose_rows() {
  return {
      {{2, 3, 4, 5}, {3, 4, 3, 3}, {}, true},
      {{1, 4, 5, 3}, {4, 2, 2, 2}, {.stride = {2, 2}}, true},  // no window overlaps: up-sampling
      {{1, 16, 4, 4}, {16, 32, 4, 4}, {.stride = {2, 2}, .pad = {1, 1, 1, 1}}, true},
      {{2, 3, 4, 4}, {3, 5, 3, 3}, {.stride = {2, 2}, .pad = {1, 1, 1, 1}, .output_padding = {1, 1}}, true},
      {{1, 4, 3, 4},
       {4, 3, 3, 2},
       {.stride = {3, 2}, .dilation = {2, 1}, .pad = {2, 0, 2, 0}, .output_padding = {2, 1}, .groups = 2},
       true},
      {{1, 6, 4, 5}, {6, 1, 3, 3}, {.stride = {2, 2}, .pad = {0, 1, 1, 0}, .groups = 6}},  // depthwise
      {{1, 1, 1, 1}, {1, 1, 1, 1}},
      {{1, 5, 2, 2}, {5, 3, 5, 5}, {.pad = {2, 2, 2, 2}}},  // kernel larger than input
  };
}

template <>
std::vector<ConvTransposeRow<3>> conv_transpose_rows() {
  return {
      {{2, 3, 2, 3, 4}, {3, 4, 3, 3, 3}, {.stride = {2, 2, 2}, .pad = {1, 1, 1, 1, 1, 1}}, true},
      {{1, 4, 3, 2, 3},
       {4, 3, 2, 3, 1},
       {.stride = {2, 1, 3},
        .dilation = {1, 2, 1},
        .pad = {0, 1, 0, 1, 2, 0},
        .output_padding = {1, 0, 2},
        .groups = 2}},
  };
}

/// The output shape; throws Error(usage) that starts with `who`.
template <std::size_t N>
Shape transposed_shape(std::string_view who, const Shape& x, const Shape& weight, const ConvTransposeOptions<N>& o) {
  require(x.rank() == int{N} + 2 && weight.rank() == int{N} + 2, who, ": takes an input (N,C,…) and a weight ",
          "(C,O/groups,…) of ", N + 2, " axes, got ", x, " and ", weight);
  require(o.groups > 0, who, ": groups is ", o.groups, ", has to be positive");
  require(x[1] == weight[0], who, ": input ", x, " has ", x[1], " channels, weight ", weight, " expects ", weight[0]);
  require(x[1] % o.groups == 0, who, ": the ", x[1], " channels of input ", x, " with weight ", weight,
          " do not divide into ", o.groups, " groups");
  Shape out{x[0], weight[1] * o.groups};
  for (std::size_t axis = 0; axis < N; ++axis) {
    const std::string_view side = side_name<N>(axis);
    const Dim size = x[static_cast<int>(axis) + 2], kernel = weight[static_cast<int>(axis) + 2];
    const std::int64_t stride = o.stride[axis], dilation = o.dilation[axis], begin = o.pad[axis], end = o.pad[axis + N],
                       more = o.output_padding[axis];
    require(size.may_be_positive() && kernel > 0 && stride > 0 && dilation > 0, who, ": ", side, ' ', size,
            " of input ", x, ", kernel ", kernel, ", stride ", stride, " and dilation ", dilation,
            " have to be positive");
    require(begin >= 0 && end >= 0, who, ": padding ", begin, " and ", end, " of the ", side, " must not be negative");
    require(more >= 0 && more < stride, who, ": output_padding ", more, " of the ", side, " has to lie in [0, ", stride,
            "), the stride");
    out.push_back((size - 1) * stride + dilation * (kernel - 1) + 1 + more - begin - end);
    require(out[-1].may_be_positive(), who, ": padding ", begin, " and ", end, " of the ", side,
            " leaves nothing of input ", x, " with weight ", weight);
  }
  return out;
}

}  // namespace

template <std::size_t N>
void ConvTranspose<N>::fields(Fields& f) {
  list_field(f, "stride", options.stride);
  list_field(f, "dilation", options.dilation);
  list_field(f, "pad", options.pad);
  list_field(f, "output_padding", options.output_padding);
  f("groups", options.groups);
}

template <std::size_t N>
Types ConvTranspose<N>::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 3);
  check_floating(*this, in[0], "the input");
  check_same_dtype(*this, in[0], in[1]);
  const Shape out = transposed_shape(name(), in[0].shape, in[1].shape, options);
  if (in.size() == 3) {
    check_same_dtype(*this, in[0], in[2]);
    require(in[2].shape == Shape{out[1]}, name(), ": bias is ", in[2].shape, ", weight ", in[1].shape, " with groups ",
            options.groups, " expects ", Shape{out[1]});
  }
  return {{in[0].dtype, out}};
}

template <std::size_t N>
Tensors ConvTranspose<N>::decompose(std::span<const Tensor> in) const {
  const Shape out = transposed_shape(name(), in[0].shape(), in[1].shape(), options);
  const ConvOptions<N> of{options.stride, options.dilation, options.pad, options.groups};
  const Tensor y = conv_input_grad(in[0], in[1], out, of);
  if (in.size() == 2) return {y};
  Shape channels{out[1]};
  for (std::size_t axis = 0; axis < N; ++axis) channels.push_back(1);
  return {y + reshape(in[2], channels)};
}

template <std::size_t N>
std::int64_t ConvTranspose<N>::multiply_adds(std::span<const Type> in) const {
  return in[0].shape.numel() * row_size(in[1].shape);
}

template <std::size_t N>
std::vector<Sample> ConvTranspose<N>::samples() const {
  std::vector<Sample> all;
  for (const ConvTransposeRow<N>& row : conv_transpose_rows<N>()) {
    auto op = std::make_shared<ConvTranspose>();
    op->options = row.options;
    Types in{{DType::f32, row.x}, {DType::f32, row.weight}};
    if (row.bias) in.push_back({DType::f32, {row.weight[1] * row.options.groups}});
    all.push_back({op, in});
  }
  return all;
}

template <std::size_t N>
Tensor conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const ConvTransposeOptions<N>& options) {
  auto op = std::make_shared<ConvTranspose<N>>();
  op->options = options;
  return apply1(op, bias ? Tensors{x, weight, bias} : Tensors{x, weight});
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose1dOptions& options) {
  return conv_transpose(x, weight, bias, options);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  return conv_transpose(x, weight, bias, options);
}

Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose3dOptions& options) {
  return conv_transpose(x, weight, bias, options);
}

template <std::size_t N>
void ConvTranspose<N>::write_onnx(OnnxNode& node) const {
  OnnxAttributes attributes = onnx_attributes(*this);
  const Shape& weight = node.types[1].shape;
  attributes.emplace_back("kernel_shape", std::vector<std::int64_t>(weight.begin() + 2, weight.end()));
  node.add(onnx_operator(*this, node.file), node.in, attributes);
}

void define_conv_transpose() {
  define<ConvTranspose<1>>();
  define<ConvTranspose<2>>();
  define<ConvTranspose<3>>();
}

#define NEURIM_INSTANTIATE(N)      \
  template class ConvTranspose<N>; \
  template Tensor conv_transpose(const Tensor&, const Tensor&, const Tensor&, const ConvTransposeOptions<N>&)
NEURIM_INSTANTIATE(1);
NEURIM_INSTANTIATE(2);
NEURIM_INSTANTIATE(3);
#undef NEURIM_INSTANTIATE

}  // namespace neurim
