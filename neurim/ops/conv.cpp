#include "neurim/ops/conv.h"

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/list_field.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/sum.h"
#include "neurim/ops/transpose.h"

namespace neurim {

namespace {

template <std::size_t N>
void visit(Fields& f, ConvOptions<N>& options) {
  list_field(f, "stride", options.stride);
  list_field(f, "dilation", options.dilation);
  list_field(f, "pad", options.pad);
  f("groups", options.groups);
}

/// The output shape of a convolution; throws Error(usage) that starts with `who`.
template <std::size_t N>
Shape convolved_shape(std::string_view who, const Shape& x, const Shape& weight, const ConvOptions<N>& o) {
  constexpr std::string_view kInput = N == 1 ? "(N,C,L)" : N == 2 ? "(N,C,H,W)" : "(N,C,D,H,W)";
  constexpr std::string_view kWeight = N == 1   ? "(O,C/groups,k)"
                                       : N == 2 ? "(O,C/groups,kh,kw)"
                                                : "(O,C/groups,kd,kh,kw)";
  require(x.rank() == int{N} + 2, who, ": takes an input ", kInput, ", got ", x);
  require(weight.rank() == int{N} + 2, who, ": takes a weight ", kWeight, ", got ", weight);
  require(o.groups > 0, who, ": groups is ", o.groups, ", has to be positive");
  require(x[1] == weight[1] * o.groups, who, ": input ", x, " has ", x[1], " channels, weight ", weight,
          " with groups ", o.groups, " expects ", weight[1] * o.groups);
  require(weight[0] % o.groups == 0, who, ": the ", weight[0], " output channels of weight ", weight,
          " do not divide into ", o.groups, " groups");
  Shape out{x[0], weight[0]};
  for (std::size_t axis = 0; axis < N; ++axis) {
    const std::string_view side = side_name<N>(axis);
    const Dim size = x[static_cast<int>(axis) + 2], kernel = weight[static_cast<int>(axis) + 2];
    const std::int64_t begin = o.pad[axis], end = o.pad[axis + N];
    require(kernel > 0 && o.stride[axis] > 0 && o.dilation[axis] > 0, who, ": kernel ", kernel, ", stride ",
            o.stride[axis], " and dilation ", o.dilation[axis], " of the ", side, " have to be positive");
    require(begin >= 0 && end >= 0, who, ": padding ", begin, " and ", end, " of the ", side, " must not be negative");
    out.push_back(window_count(size, kernel, o.stride[axis], o.dilation[axis], begin, end));
    require(out[-1].may_be_positive(), who, ": a kernel of ", side, ' ', kernel, " with dilation ", o.dilation[axis],
            " does not fit into input ", x, " with padding ", begin, " and ", end);
  }
  return out;
}

/// Throws unless dy has the shape that the convolution would give.
template <std::size_t N>
void check_dy(std::string_view who, const Shape& dy, const Shape& x, const Shape& weight,
              const ConvOptions<N>& options) {
  const Shape expected = convolved_shape(who, x, weight, options);
  require(dy == expected, who, ": dy is ", dy, ", but input ", x, " with weight ", weight, " gives ", expected);
}

/// A convolution that the samples of all three ops share.
template <std::size_t N>
struct ConvRow {
  Shape x, weight;
  ConvOptions<N> options = {};
  bool bias = false;
};

template <std::size_t N>
std::vector<ConvRow<N>> conv_rows();

template <>
std::vector<ConvRow<1>> conv_rows() {
  return {
      {{2, 3, 8}, {4, 3, 3}, {.pad = {1, 1}}, true},
      {{1, 1, 1}, {1, 1, 1}},
      {{2, 16, 9}, {32, 16, 3}, {.stride = {2}, .pad = {1, 1}}, true},
      {{1, 32, 12}, {32, 1, 5}, {.pad = {2, 2}, .groups = 32}, true},  // depthwise
      {{1, 6, 11}, {4, 3, 2}, {.stride = {2}, .dilation = {3}, .pad = {0, 2}, .groups = 2}},
      {{3, 17, 4}, {6, 17, 4}},                                  // kernel as large as input
      {{1, 2, 9}, {3, 2, 3}, {.dilation = {2}, .pad = {4, 0}}},  // causal
  };
}

template <>
std::vector<ConvRow<3>> conv_rows() {
  return {
      {{2, 3, 4, 5, 6}, {4, 3, 3, 3, 3}, {.pad = {1, 1, 1, 1, 1, 1}}, true},
      {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}},
      {{2, 16, 3, 4, 5}, {32, 16, 1, 1, 1}, {}, true},
      {{1, 16, 5, 6, 4}, {16, 16, 3, 3, 3}, {.stride = {2, 2, 2}, .pad = {1, 1, 1, 1, 1, 1}}},
      {{1, 16, 3, 5, 4}, {16, 1, 3, 3, 3}, {.pad = {1, 1, 1, 1, 1, 1}, .groups = 16}, true},  // depthwise
      {{1, 4, 4, 7, 9},
       {6, 2, 2, 3, 2},
       {.stride = {1, 2, 3}, .dilation = {2, 1, 3}, .pad = {0, 1, 2, 1, 0, 3}, .groups = 2},
       true},
      {{2, 5, 3, 3, 3}, {6, 5, 3, 3, 3}},                               // kernel as large as input
      {{1, 8, 6, 4, 4}, {8, 8, 3, 1, 1}, {.pad = {1, 0, 0, 1, 0, 0}}},  // over depth alone
  };
}

template <>
std::vector<ConvRow<2>> conv_rows() {
  return {
      {{2, 3, 8, 8}, {4, 3, 3, 3}, {.pad = {1, 1, 1, 1}}, true},
      {{1, 1, 5, 5}, {1, 1, 3, 3}},
      {{1, 1, 1, 1}, {1, 1, 1, 1}, {}, true},
      {{2, 16, 7, 7}, {32, 16, 1, 1}},
      {{1, 32, 6, 6}, {16, 32, 1, 1}, {.stride = {2, 2}}, true},
      {{1, 17, 5, 5}, {3, 17, 1, 1}, {.pad = {1, 1, 1, 1}}},
      {{1, 3, 15, 15}, {6, 3, 7, 7}, {.stride = {2, 2}, .pad = {3, 3, 3, 3}}, true},
      {{1, 6, 9, 7}, {17, 6, 5, 5}, {.pad = {2, 2, 2, 2}}},
      {{1, 16, 6, 6}, {16, 16, 3, 3}, {.pad = {1, 1, 1, 1}}},
      {{3, 16, 7, 6}, {32, 16, 3, 3}, {.pad = {1, 1, 1, 1}}, true},  // enough tiles for Winograd
      {{1, 16, 9, 9}, {32, 16, 3, 3}, {.stride = {2, 2}, .pad = {1, 1, 1, 1}}, true},
      {{1, 6, 8, 8}, {3, 6, 3, 3}, {.stride = {2, 2}}},                           // the last row and column unused
      {{1, 17, 6, 5}, {17, 1, 3, 3}, {.pad = {1, 1, 1, 1}, .groups = 17}, true},  // depthwise
      {{2, 16, 8, 8}, {16, 1, 3, 3}, {.stride = {2, 2}, .pad = {1, 1, 1, 1}, .groups = 16}},
      {{1, 32, 7, 7}, {32, 1, 5, 5}, {.stride = {2, 2}, .pad = {2, 2, 2, 2}, .groups = 32}, true},
      {{1, 6, 5, 5}, {12, 1, 3, 3}, {.pad = {1, 1, 1, 1}, .groups = 6}},  // two outputs a channel
      {{1, 16, 7, 7}, {16, 1, 3, 3}, {.dilation = {2, 2}, .pad = {2, 2, 2, 2}, .groups = 16}},
      {{1, 16, 6, 6}, {32, 4, 3, 3}, {.pad = {1, 1, 1, 1}, .groups = 4}, true},
      {{1, 6, 5, 5}, {6, 2, 1, 1}, {.groups = 3}},
      {{1, 3, 9, 9}, {6, 3, 3, 3}, {.dilation = {2, 2}, .pad = {2, 2, 2, 2}}},
      {{1, 6, 9, 10}, {4, 6, 3, 2}, {.stride = {2, 1}, .dilation = {2, 3}}, true},
      {{1, 3, 6, 7}, {4, 3, 3, 3}, {.pad = {0, 1, 2, 3}}},
      {{1, 3, 8, 8}, {6, 3, 3, 3}, {.stride = {2, 2}, .pad = {0, 0, 1, 1}}, true},  // "same" of TensorFlow
      {{1, 3, 3, 2}, {4, 3, 5, 5}, {.pad = {2, 2, 2, 2}}},                          // kernel larger than input
      {{3, 17, 4, 4}, {6, 17, 4, 4}},                                               // kernel as large as input
      {{1, 3, 5, 9}, {4, 3, 1, 7}, {.pad = {0, 3, 0, 3}}},
      {{1, 3, 9, 5}, {4, 3, 7, 1}, {.stride = {3, 1}, .pad = {3, 0, 3, 0}}},
      {{1, 3, 8, 8}, {16, 3, 4, 4}, {.stride = {4, 4}}, true},     // patches
      {{1, 3, 25, 18}, {16, 3, 12, 9}, {.stride = {12, 9}}},       // large ones, the last row unused
      {{16, 2, 5, 6}, {5, 2, 3, 3}, {.pad = {1, 1, 1, 1}}, true},  // images by 16
  };
}

/// Whether the windows are large patches side by side of an image of few channels, which the lanes of convolution
/// kernels find too few of.
template <std::size_t N>
bool large_patches(const Shape& weight, const ConvOptions<N>& o) {
  constexpr std::int64_t kFew = 4, kLarge = 8;
  if (weight[1] > kFew || o.groups != 1 || o.dilation != each_axis<N>(1) || o.pad != std::array<std::int64_t, 2 * N>{})
    return false;
  for (std::size_t axis = 0; axis < N; ++axis)
    if (o.stride[axis] != weight[static_cast<int>(axis) + 2] || o.stride[axis] < kLarge) return false;
  return true;
}

/// The weight gradient from patches as rows: dw(O,C*k…) = dy(O,N*P) rows(N*P,C*k…), for P patches an image.
template <std::size_t N>
Tensor weight_grad_of_patches(const Tensor& dy, const Tensor& x, const Shape& weight) {
  std::vector<Dim> sizes{x.size(0), x.size(1)}, used = sizes;
  std::vector<std::int64_t> perm{0}, inner{1}, channels_first{1, 0};
  for (int axis = 2; axis < weight.rank(); ++axis) {
    sizes.insert(sizes.end(), {dy.size(axis), weight[axis]});
    used.push_back(dy.size(axis) * weight[axis]);
    perm.push_back(2 * axis - 2), inner.push_back(2 * axis - 1), channels_first.push_back(axis);
  }
  perm.insert(perm.end(), inner.begin(), inner.end());
  const Dim patches = dy.numel() / dy.size(1);
  const Tensor seen = Shape(used) == x.shape() ? x : slice(x, std::vector<Dim>(used.size()), used);
  const Tensor rows = reshape(transpose(reshape(seen, Shape(sizes)), perm), {patches, weight.numel() / weight[0]});
  return reshape(matmul(reshape(transpose(dy, channels_first), {weight[0], patches}), rows), weight);
}

}  // namespace

template <std::size_t N>
void Conv<N>::fields(Fields& f) {
  visit(f, options);
}
template <std::size_t N>
void ConvInputGrad<N>::fields(Fields& f) {
  visit(f, options);
  list_field(f, "input_shape", input_shape);
}
template <std::size_t N>
void ConvWeightGrad<N>::fields(Fields& f) {
  visit(f, options);
  list_field(f, "weight_shape", weight_shape);
}

template <std::size_t N>
Types Conv<N>::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 3);
  check_floating(*this, in[0], "the input");
  check_same_dtype(*this, in[0], in[1]);
  const Shape out = convolved_shape(name(), in[0].shape, in[1].shape, options);
  if (in.size() == 3) {
    check_same_dtype(*this, in[0], in[2]);
    require(in[2].shape == Shape{out[1]}, name(), ": bias is ", in[2].shape, ", weight ", in[1].shape, " expects ",
            Shape{out[1]});
  }
  return {{in[0].dtype, out}};
}

template <std::size_t N>
Types ConvInputGrad<N>::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_floating(*this, in[0], "dy");
  check_same_dtype(*this, in[0], in[1]);
  check_dy(name(), in[0].shape, input_shape, in[1].shape, options);
  return {{in[0].dtype, input_shape}};
}

template <std::size_t N>
Types ConvWeightGrad<N>::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_floating(*this, in[0], "dy");
  check_same_dtype(*this, in[0], in[1]);
  check_dy(name(), in[0].shape, in[1].shape, weight_shape, options);
  return {{in[0].dtype, weight_shape}};
}

template <std::size_t N>
Tensor conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions<N>& options) {
  auto op = std::make_shared<Conv<N>>();
  op->options = options;
  return apply1(op, bias ? Tensors{x, weight, bias} : Tensors{x, weight});
}

template <std::size_t N>
Tensor conv_input_grad(const Tensor& dy, const Tensor& weight, const Shape& input_shape,
                       const ConvOptions<N>& options) {
  auto op = std::make_shared<ConvInputGrad<N>>();
  op->options = options;
  op->input_shape = input_shape;
  return apply1(op, {dy, weight});
}

template <std::size_t N>
Tensor conv_weight_grad(const Tensor& dy, const Tensor& x, const Shape& weight_shape, const ConvOptions<N>& options) {
  if (large_patches(weight_shape, options)) return weight_grad_of_patches<N>(dy, x, weight_shape);
  auto op = std::make_shared<ConvWeightGrad<N>>();
  op->options = options;
  op->weight_shape = weight_shape;
  return apply1(op, {dy, x});
}

template <std::size_t N>
Tensors Conv<N>::grad(const Gradient& g) const {
  const Tensor &x = g.in[0], &weight = g.in[1], &dy = g.dout[0];
  Tensors d(g.in.size());
  if (g.wanted[0]) d[0] = conv_input_grad(dy, weight, x.shape(), options);
  if (g.wanted[1]) d[1] = conv_weight_grad(dy, x, weight.shape(), options);
  if (d.size() == 3 && g.wanted[2]) {
    std::vector<std::int64_t> axes{0};
    for (std::int64_t axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
    d[2] = sum(dy, axes);
  }
  return d;
}

// A convolution is bilinear in input and weight: each of the three ops is the other two's gradient.
template <std::size_t N>
Tensors ConvInputGrad<N>::grad(const Gradient& g) const {
  const Tensor &dy = g.in[0], &weight = g.in[1], &ddx = g.dout[0];
  Tensors d(2);
  if (g.wanted[0]) d[0] = conv(ddx, weight, {}, options);
  if (g.wanted[1]) d[1] = conv_weight_grad(dy, ddx, weight.shape(), options);
  return d;
}

template <std::size_t N>
Tensors ConvWeightGrad<N>::grad(const Gradient& g) const {
  const Tensor &dy = g.in[0], &x = g.in[1], &ddweight = g.dout[0];
  Tensors d(2);
  if (g.wanted[0]) d[0] = conv(x, ddweight, {}, options);
  if (g.wanted[1]) d[1] = conv_input_grad(dy, ddweight, x.shape(), options);
  return d;
}

// Each term of each sum has a part in all three.
template <std::size_t N>
std::int64_t Conv<N>::multiply_adds(std::span<const Type> in) const {
  return infer(in)[0].shape.numel() * row_size(in[1].shape);
}
template <std::size_t N>
std::int64_t ConvInputGrad<N>::multiply_adds(std::span<const Type> in) const {
  return in[0].shape.numel() * row_size(in[1].shape);
}
template <std::size_t N>
std::int64_t ConvWeightGrad<N>::multiply_adds(std::span<const Type> in) const {
  return in[0].shape.numel() * row_size(weight_shape);
}

template <std::size_t N>
std::vector<Sample> Conv<N>::samples() const {
  std::vector<Sample> all;
  for (const ConvRow<N>& row : conv_rows<N>()) {
    auto op = std::make_shared<Conv>();
    op->options = row.options;
    Types in{{DType::f32, row.x}, {DType::f32, row.weight}};
    if (row.bias) in.push_back({DType::f32, {row.weight[0]}});
    all.push_back({op, in});
  }
  return all;
}

template <std::size_t N>
std::vector<Sample> ConvInputGrad<N>::samples() const {
  std::vector<Sample> all;
  for (const ConvRow<N>& row : conv_rows<N>()) {
    auto op = std::make_shared<ConvInputGrad>();
    op->options = row.options;
    op->input_shape = row.x;
    const Shape dy = convolved_shape(name(), row.x, row.weight, row.options);
    all.push_back({op, {{DType::f32, dy}, {DType::f32, row.weight}}});
  }
  return all;
}

template <std::size_t N>
std::vector<Sample> ConvWeightGrad<N>::samples() const {
  std::vector<Sample> all;
  for (const ConvRow<N>& row : conv_rows<N>()) {
    auto op = std::make_shared<ConvWeightGrad>();
    op->options = row.options;
    op->weight_shape = row.weight;
    const Shape dy = convolved_shape(name(), row.x, row.weight, row.options);
    all.push_back({op, {{DType::f32, dy}, {DType::f32, row.x}}});
  }
  return all;
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dOptions& options) {
  return conv(x, weight, bias, options);
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
  return conv(x, weight, bias, options);
}

Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv3dOptions& options) {
  return conv(x, weight, bias, options);
}

namespace {

template <std::size_t N>
void define_all() {
  define<Conv<N>>();
  define<ConvInputGrad<N>>();
  define<ConvWeightGrad<N>>();
}

}  // namespace

template <std::size_t N>
void Conv<N>::write_onnx(OnnxNode& node) const {
  OnnxAttributes attributes = onnx_attributes(*this);
  const Shape& weight = node.types[1].shape;
  attributes.emplace_back("kernel_shape", std::vector<std::int64_t>(weight.begin() + 2, weight.end()));
  node.add(onnx_operator(*this, node.file), node.in, attributes);
}

void define_conv() {
  define_all<1>();
  define_all<2>();
  define_all<3>();
}

#define NEURIM_INSTANTIATE(N)                                                                         \
  template class Conv<N>;                                                                             \
  template class ConvInputGrad<N>;                                                                    \
  template class ConvWeightGrad<N>;                                                                   \
  template Tensor conv(const Tensor&, const Tensor&, const Tensor&, const ConvOptions<N>&);           \
  template Tensor conv_input_grad(const Tensor&, const Tensor&, const Shape&, const ConvOptions<N>&); \
  template Tensor conv_weight_grad(const Tensor&, const Tensor&, const Shape&, const ConvOptions<N>&)
NEURIM_INSTANTIATE(1);
NEURIM_INSTANTIATE(2);
NEURIM_INSTANTIATE(3);
#undef NEURIM_INSTANTIATE

}  // namespace neurim
