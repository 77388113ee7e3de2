#include "neurim/ops/conv2d.h"

#include "neurim/ops/list_field.h"
#include "neurim/ops/pool2d.h"
#include "neurim/ops/rules.h"
#include "neurim/ops/sum.h"

namespace neurim {

namespace {

void visit(Fields& f, Conv2dOptions& options) {
  list_field(f, "stride", options.stride);
  list_field(f, "dilation", options.dilation);
  list_field(f, "pad", options.pad);
  f("groups", options.groups);
}

/// The output shape of a convolution; throws Error(usage) that starts with `who`.
Shape convolved_shape(std::string_view who, const Shape& x, const Shape& weight, const Conv2dOptions& o) {
  require(x.rank() == 4, who, ": takes an input (N,C,H,W), got ", x);
  require(weight.rank() == 4, who, ": takes a weight (O,C/groups,kh,kw), got ", weight);
  require(o.groups > 0, who, ": groups is ", o.groups, ", has to be positive");
  require(x[1] == weight[1] * o.groups, who, ": input ", x, " has ", x[1], " channels, weight ", weight,
          " with groups ", o.groups, " expects ", weight[1] * o.groups);
  require(weight[0] % o.groups == 0, who, ": the ", weight[0], " output channels of weight ", weight,
          " do not divide into ", o.groups, " groups");
  Shape out{x[0], weight[0], 0, 0};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::string_view side = axis == 0 ? "height" : "width";
    const int image_axis = static_cast<int>(axis) + 2;
    require(weight[image_axis] > 0 && o.stride[axis] > 0 && o.dilation[axis] > 0, who, ": kernel ",
            weight[image_axis], ", stride ", o.stride[axis], " and dilation ", o.dilation[axis], " of the ",
            side, " have to be positive");
    require(o.pad[axis] >= 0 && o.pad[axis + 2] >= 0, who, ": padding ", o.pad[axis], " and ",
            o.pad[axis + 2], " of the ", side, " must not be negative");
    out[image_axis] = window_count(x[image_axis], weight[image_axis], o.stride[axis], o.dilation[axis],
                                   o.pad[axis], o.pad[axis + 2]);
    require(out[image_axis] > 0, who, ": a kernel of ", side, ' ', weight[image_axis], " with dilation ",
            o.dilation[axis], " does not fit into input ", x, " with padding ", o.pad[axis], " and ",
            o.pad[axis + 2]);
  }
  return out;
}

/// Throws unless dy has the shape that the convolution would give.
void check_dy(std::string_view who, const Shape& dy, const Shape& x, const Shape& weight,
              const Conv2dOptions& options) {
  const Shape expected = convolved_shape(who, x, weight, options);
  require(dy == expected, who, ": dy is ", dy, ", but input ", x, " with weight ", weight, " gives ",
          expected);
}

/// A convolution that the samples of all three ops share.
struct Row {
  Shape x, weight;
  Conv2dOptions options = {};
  bool bias = false;
};

std::vector<Row> rows() {
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
      {{1, 16, 9, 9}, {32, 16, 3, 3}, {.stride = {2, 2}, .pad = {1, 1, 1, 1}}, true},
      {{1, 6, 8, 8}, {3, 6, 3, 3}, {.stride = {2, 2}}},  // the last row and column unused
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
      {{1, 3, 3, 2}, {4, 3, 5, 5}, {.pad = {2, 2, 2, 2}}},  // kernel larger than input
      {{3, 17, 4, 4}, {6, 17, 4, 4}},                       // kernel as large as input
      {{1, 3, 5, 9}, {4, 3, 1, 7}, {.pad = {0, 3, 0, 3}}},
      {{1, 3, 9, 5}, {4, 3, 7, 1}, {.stride = {3, 1}, .pad = {3, 0, 3, 0}}},
      {{1, 3, 8, 8}, {16, 3, 4, 4}, {.stride = {4, 4}}, true},  // patches
      {{16, 2, 5, 6}, {5, 2, 3, 3}, {.pad = {1, 1, 1, 1}}, true},  // images by 16
  };
}

}  // namespace

void Conv2d::fields(Fields& f) { visit(f, options); }
void Conv2dInputGrad::fields(Fields& f) {
  visit(f, options);
  list_field(f, "input_shape", input_shape);
}
void Conv2dWeightGrad::fields(Fields& f) {
  visit(f, options);
  list_field(f, "weight_shape", weight_shape);
}

Types Conv2d::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 3);
  check_floating(*this, in[0], "the input");
  check_same_dtype(*this, in[0], in[1]);
  const Shape out = convolved_shape(name(), in[0].shape, in[1].shape, options);
  if (in.size() == 3) {
    check_same_dtype(*this, in[0], in[2]);
    require(in[2].shape == Shape{out[1]}, name(), ": bias is ", in[2].shape, ", weight ", in[1].shape,
            " expects ", Shape{out[1]});
  }
  return {{in[0].dtype, out}};
}

Types Conv2dInputGrad::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_floating(*this, in[0], "dy");
  check_same_dtype(*this, in[0], in[1]);
  check_dy(name(), in[0].shape, input_shape, in[1].shape, options);
  return {{in[0].dtype, input_shape}};
}

Types Conv2dWeightGrad::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_floating(*this, in[0], "dy");
  check_same_dtype(*this, in[0], in[1]);
  check_dy(name(), in[0].shape, in[1].shape, weight_shape, options);
  return {{in[0].dtype, weight_shape}};
}

Tensors Conv2d::grad(const Gradient& g) const {
  const Tensor &x = g.in[0], &weight = g.in[1], &dy = g.dout[0];
  Tensors d(g.in.size());
  if (g.wanted[0]) d[0] = conv2d_input_grad(dy, weight, x.shape(), options);
  if (g.wanted[1]) d[1] = conv2d_weight_grad(dy, x, weight.shape(), options);
  if (d.size() == 3 && g.wanted[2]) d[2] = sum(dy, {0, 2, 3});
  return d;
}

// A convolution is bilinear in input and weight: each of the three ops is the other two's gradient.
Tensors Conv2dInputGrad::grad(const Gradient& g) const {
  const Tensor &dy = g.in[0], &weight = g.in[1], &ddx = g.dout[0];
  Tensors d(2);
  if (g.wanted[0]) d[0] = conv2d(ddx, weight, {}, options);
  if (g.wanted[1]) d[1] = conv2d_weight_grad(dy, ddx, weight.shape(), options);
  return d;
}

Tensors Conv2dWeightGrad::grad(const Gradient& g) const {
  const Tensor &dy = g.in[0], &x = g.in[1], &ddweight = g.dout[0];
  Tensors d(2);
  if (g.wanted[0]) d[0] = conv2d(x, ddweight, {}, options);
  if (g.wanted[1]) d[1] = conv2d_input_grad(dy, ddweight, x.shape(), options);
  return d;
}

std::vector<Sample> Conv2d::samples() const {
  std::vector<Sample> all;
  for (const Row& row : rows()) {
    auto op = std::make_shared<Conv2d>();
    op->options = row.options;
    Types in{{DType::f32, row.x}, {DType::f32, row.weight}};
    if (row.bias) in.push_back({DType::f32, {row.weight[0]}});
    all.push_back({op, in});
  }
  return all;
}

std::vector<Sample> Conv2dInputGrad::samples() const {
  std::vector<Sample> all;
  for (const Row& row : rows()) {
    auto op = std::make_shared<Conv2dInputGrad>();
    op->options = row.options;
    op->input_shape = row.x;
    const Shape dy = convolved_shape(name(), row.x, row.weight, row.options);
    all.push_back({op, {{DType::f32, dy}, {DType::f32, row.weight}}});
  }
  return all;
}

std::vector<Sample> Conv2dWeightGrad::samples() const {
  std::vector<Sample> all;
  for (const Row& row : rows()) {
    auto op = std::make_shared<Conv2dWeightGrad>();
    op->options = row.options;
    op->weight_shape = row.weight;
    const Shape dy = convolved_shape(name(), row.x, row.weight, row.options);
    all.push_back({op, {{DType::f32, dy}, {DType::f32, row.x}}});
  }
  return all;
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
  auto op = std::make_shared<Conv2d>();
  op->options = options;
  return apply1(op, bias ? Tensors{x, weight, bias} : Tensors{x, weight});
}

Tensor conv2d_input_grad(const Tensor& dy, const Tensor& weight, const Shape& input_shape,
                         const Conv2dOptions& options) {
  auto op = std::make_shared<Conv2dInputGrad>();
  op->options = options;
  op->input_shape = input_shape;
  return apply1(op, {dy, weight});
}

Tensor conv2d_weight_grad(const Tensor& dy, const Tensor& x, const Shape& weight_shape,
                          const Conv2dOptions& options) {
  auto op = std::make_shared<Conv2dWeightGrad>();
  op->options = options;
  op->weight_shape = weight_shape;
  return apply1(op, {dy, x});
}

void define_conv2d() {
  define<Conv2d>();
  define<Conv2dInputGrad>();
  define<Conv2dWeightGrad>();
}

}  // namespace neurim
