#include "neurim/model/onnx/rules.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>

#include "neurim/graph/trace.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/gelu.h"
#include "neurim/ops/group_norm.h"
#include "neurim/ops/interpolate.h"
#include "neurim/ops/iota.h"
#include "neurim/ops/layer_norm.h"
#include "neurim/ops/leaky_relu.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/one_hot.h"
#include "neurim/ops/pad.h"
#include "neurim/ops/quantize.h"
#include "neurim/ops/recurrent.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"

namespace neurim {

namespace {

using List = std::vector<std::int64_t>;

template <class O>
const O& as(const Op& op) {
  return static_cast<const O&>(op);
}

/// Attributes under the names that ONNX has for them.
class Translate final : public Fields {
 public:
  OnnxAttributes out;
  Fields& operator()(std::string_view name, std::int64_t& value) override { return add(name, value); }
  Fields& operator()(std::string_view name, double& value) override { return add(name, value); }
  Fields& operator()(std::string_view name, bool& value) override {
    return add(name, static_cast<std::int64_t>(value));
  }
  Fields& operator()(std::string_view name, std::string& value) override { return add(name, value); }
  Fields& operator()(std::string_view name, DType& value) override { return add(name, std::int64_t{onnx_type(value)}); }
  Fields& operator()(std::string_view name, List& value) override { return add(name, value); }
  Fields& operator()(std::string_view, std::vector<double>&) override {
    NEURIM_ASSERT(!"no ONNX operator that an op maps to has such an attribute");
    return *this;
  }

 private:
  template <class T>
  Fields& add(std::string_view name, const T& value) {
    static const auto& others = *new std::map<std::string_view, std::string_view>{
        {"stride", "strides"}, {"dilation", "dilations"},  {"pad", "pads"}, {"groups", "group"},
        {"eps", "epsilon"},    {"kernel", "kernel_shape"}, {"k", "bias"}};
    const auto at = others.find(name);
    out.emplace_back(at == others.end() ? name : at->second, value);
    return *this;
  }
};

OnnxAttributes translated(const Op& op) {
  Translate translate;
  fields(op, translate);
  return std::move(translate.out);
}

std::string_view operator_name(const OnnxContext& s) {
  const Onnx onnx = s.op.onnx();
  require(onnx.since <= s.file.opset(), s.op.name(), ' ', attributes(s.op), ": ONNX has it since opset ", onnx.since,
          ", not in ", s.file.opset(), "; export with that opset");
  return onnx.name;
}

void one_to_one(OnnxContext& s) { s.node(operator_name(s), s.in, translated(s.op)); }

void identity(OnnxContext& s) { s.node("Identity", s.in); }

void conv(OnnxContext& s) {
  OnnxAttributes attributes = translated(s.op);
  const Shape& weight = s.types[1].shape;
  attributes.emplace_back("kernel_shape", List(weight.begin() + 2, weight.end()));
  s.node(operator_name(s), s.in, attributes);
}

/// The padding with which rounding down gives as many windows as `ceil_mode` does: ONNX's own ceil_mode
/// counts differently in different opsets and runtimes.
template <std::size_t N>
std::array<std::int64_t, 2 * N> widened(const PoolOptions<N>& o, const Shape& x, const Shape& y) {
  std::array<std::int64_t, 2 * N> pad = o.pad;
  for (std::size_t axis = 0; axis < N; ++axis) {
    const int image_axis = static_cast<int>(axis) + 2;
    const std::int64_t end_of_last = (y[image_axis] - 1) * o.stride[axis] + o.dilation[axis] * (o.kernel[axis] - 1) + 1;
    pad[axis + N] = std::max(pad[axis + N], end_of_last - o.pad[axis] - x[image_axis]);
  }
  return pad;
}

/// The attributes that both poolings have; dilations of 1 are left out, as old opsets know no others.
template <std::size_t N>
OnnxAttributes window(const PoolOptions<N>& o) {
  OnnxAttributes attributes{{"kernel_shape", List(o.kernel.begin(), o.kernel.end())},
                            {"strides", List(o.stride.begin(), o.stride.end())},
                            {"pads", List(o.pad.begin(), o.pad.end())}};
  if (o.dilation != each_axis<N>(1)) attributes.emplace_back("dilations", List(o.dilation.begin(), o.dilation.end()));
  return attributes;
}

template <std::size_t N>
void max_pool(OnnxContext& s) {
  PoolOptions<N> options = resolved(as<MaxPool<N>>(s.op).options);
  options.pad = widened(options, s.types[0].shape, s.out.shape);
  s.node(operator_name(s), s.in, window(options));
}

template <std::size_t N>
void avg_pool(OnnxContext& s) {
  PoolOptions<N> options = resolved(as<AvgPool<N>>(s.op).options);
  const std::array<std::int64_t, 2 * N> given = options.pad;
  options.pad = widened(options, s.types[0].shape, s.out.shape);
  const std::string_view type = operator_name(s);
  std::string x = s.in[0];
  bool count_pad = options.count_include_pad;
  if (count_pad && options.pad != given) {  // the given padding counts in the divisor, what was added does not
    for (std::size_t side = 0; side < 2 * N; ++side) options.pad[side] -= given[side];
    List pads(2 * N + 4);
    std::copy_n(given.begin(), N, pads.begin() + 2);
    std::copy_n(given.begin() + N, N, pads.end() - N);
    if (given != std::array<std::int64_t, 2 * N>{}) x = s.node("Pad", {x, s.list(pads, "pads")});
    count_pad = false;
  }
  OnnxAttributes attributes = window(options);
  attributes.emplace_back("count_include_pad", std::int64_t{count_pad});
  s.node(type, {x}, attributes);
}

/// The last two axes exchanged.
std::string transposed(OnnxContext& s, const std::string& matrix, int rank) {
  List perm(static_cast<std::size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm.end()[-1], perm.end()[-2]);
  return s.node("Transpose", {matrix}, {{"perm", perm}});
}

void linear(OnnxContext& s) {
  if (s.types[0].shape.rank() == 2) {
    s.node("Gemm", s.in, {{"transB", std::int64_t{1}}});
    return;
  }
  const std::string product = s.node("MatMul", {s.in[0], transposed(s, s.in[1], 2)});
  if (s.in.size() == 3) s.node("Add", {product, s.in[2]});
}

void matmul(OnnxContext& s) {
  const auto& op = as<Matmul>(s.op);
  const auto side = [&](std::size_t i, bool transpose) {
    return transpose ? transposed(s, s.in[i], s.types[i].shape.rank()) : s.in[i];
  };
  const std::string a = side(0, op.transpose_a), b = side(1, op.transpose_b);
  s.node("MatMul", {a, b});
}

/// A reduction whose axes are an input from opset `since` on and an attribute before.
void reduce(OnnxContext& s, std::string_view type, std::int64_t since) {
  const auto& op = dynamic_cast<const ReduceOp&>(s.op);
  OnnxAttributes attributes{{"keepdims", std::int64_t{op.keepdims}}};
  std::vector<std::string> in = s.in;
  if (!op.axes.empty() && s.file.opset() >= since) in.push_back(s.list(op.axes, "axes"));
  if (!op.axes.empty() && s.file.opset() < since) attributes.emplace_back("axes", op.axes);
  s.node(type, in, attributes);
}

void reshape(OnnxContext& s) {
  OnnxSizes sizes = s.out_sizes;
  const auto varying = [](const OnnxSize& size) { return size.per_image; };
  const bool empty = std::any_of(sizes.begin(), sizes.end(),
                                 [](const OnnxSize& size) { return size.count == 0 && !size.per_image; });
  // One size that follows from the others needs no computing of the batch size; but ONNX forbids it beside 0.
  if (!empty && std::count_if(sizes.begin(), sizes.end(), varying) == 1)
    *std::find_if(sizes.begin(), sizes.end(), varying) = {-1, false};
  OnnxAttributes attributes;
  if (empty) attributes.emplace_back("allowzero", std::int64_t{1});
  s.node("Reshape", {s.in[0], s.list(sizes, "shape")}, attributes);
}

void broadcast_to(OnnxContext& s) { s.node("Expand", {s.in[0], s.list(s.out_sizes, "shape")}); }

void slice(OnnxContext& s) {
  const SliceOptions &options = as<Slice>(s.op).options, &larger = as<Slice>(s.larger).options;
  if (options.starts.empty()) return identity(s);
  List axes = options.axes;
  if (axes.empty()) {
    axes.resize(options.starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::vector<std::string> in{s.in[0], s.list(onnx_sizes(options.starts, larger.starts, "slice: starts"), "starts"),
                              s.list(onnx_sizes(options.ends, larger.ends, "slice: ends"), "ends"),
                              s.list(axes, "axes")};
  if (!options.steps.empty()) in.push_back(s.list(options.steps, "steps"));
  s.node("Slice", in);
}

void pad(OnnxContext& s) {
  const auto& op = as<Pad>(s.op);
  if (op.pads.empty()) return identity(s);
  const std::string pads = s.list(op.pads, "pads");
  s.node("Pad", {s.in[0], pads, s.scalar(op.value)});
}

void transpose(OnnxContext& s) { s.types[0].shape.empty() ? identity(s) : one_to_one(s); }

/// Not ONNX's OneHot, which lets indices count from the back and which few runtimes have in every dtype.
void one_hot(OnnxContext& s) {
  const auto& op = as<OneHot>(s.op);
  const Tensor classes = [&] {
    const Untraced untraced;
    return iota(op.classes, s.types[0].dtype);
  }();
  const std::string column = s.node("Unsqueeze", {s.in[0], s.list(List{-1}, "axis")});
  const std::string hit = s.node("Equal", {column, s.file.constant(classes, text(s.name, "/classes"))});
  s.node("Cast", {hit}, {{"to", std::int64_t{onnx_type(op.dtype)}}});
}

void iota(OnnxContext& s) {
  const Untraced untraced;
  s.node("Identity", {s.file.constant(apply1(s.op.shared_from_this(), {}), text(s.name, "/values"))});
}

void cast(OnnxContext& s) { s.node("Cast", s.in, {{"to", std::int64_t{onnx_type(s.out.dtype)}}}); }

void clamp(OnnxContext& s) {
  const auto& op = as<Clamp>(s.op);
  const std::string low = std::isinf(op.low) ? "" : s.scalar(op.low),
                    high = std::isinf(op.high) ? "" : s.scalar(op.high);
  s.node("Clip", {s.in[0], low, high});
}

/// The scale as ONNX takes it, () or along one axis, and a zero point like it.
void quantize(OnnxContext& s) {
  const Shape& scale = s.types[1].shape;
  const bool forward = s.op.name() == "quantize";
  OnnxAttributes attributes;
  List sizes;
  for (int axis = 0; axis < scale.rank(); ++axis)
    if (scale[axis] != 1)
      sizes.push_back(scale[axis]),
          attributes = {{"axis", std::int64_t{axis} - scale.rank() + s.types[0].shape.rank()}};
  require(s.types[1].dtype == DType::f32, s.op.name(), ": the scale is ", s.types[1],
          ", but ONNX takes f32 before opset 19");
  require(sizes.size() <= 1, s.op.name(), ": the scale is ", s.types[1],
          ", but ONNX takes one for all or one along an axis");
  const std::string own = scale.rank() == std::ssize(sizes) ? s.in[1]
                                                            : s.node("Reshape", {s.in[1], s.list(sizes, "shape")});
  const std::int64_t zero = forward ? as<Quantize>(s.op).zero_point : as<Dequantize>(s.op).zero_point;
  const DType dtype = forward ? as<Quantize>(s.op).dtype : s.types[0].dtype;
  std::vector<std::string> in{s.in[0], own};
  if (dtype != DType::i32) {  // which ONNX counts from 0
    const Untraced untraced;
    in.push_back(
        s.file.constant(Tensor::full({dtype, Shape(sizes)}, static_cast<double>(zero)), text(s.name, "/zero")));
  } else {
    require(zero == 0, s.op.name(), ": the zero point of i32 is ", zero, ", but ONNX counts it from 0");
  }
  s.node(operator_name(s), in, attributes);
}

void relu6(OnnxContext& s) { s.node("Clip", {s.in[0], s.scalar(0), s.scalar(6)}); }

void leaky_relu(OnnxContext& s) { s.node("LeakyRelu", s.in, {{"alpha", as<LeakyRelu>(s.op).slope}}); }

void hardsigmoid(OnnxContext& s) { s.node("HardSigmoid", s.in, {{"alpha", 1.0 / 6}, {"beta", 0.5}}); }

void silu(OnnxContext& s) { s.node("Mul", {s.in[0], s.node("Sigmoid", s.in)}); }

void rsqrt(OnnxContext& s) { s.node("Reciprocal", {s.node("Sqrt", s.in)}); }

void square(OnnxContext& s) { s.node("Mul", {s.in[0], s.in[0]}); }

void not_equal(OnnxContext& s) { s.node("Not", {s.node("Equal", s.in)}); }

/// x/2 * (1 + erf(x / sqrt(2))), or the approximation of gelu.h.
void gelu(OnnxContext& s) {
  if (s.file.opset() >= s.op.onnx().since) return one_to_one(s);
  const std::string& x = s.in[0];
  std::string bent;
  if (as<Gelu>(s.op).approximate == "tanh") {
    const std::string scaled = s.node("Mul", {s.node("Mul", {x, x}), s.scalar(0.044715)});
    const std::string inner = s.node("Mul", {x, s.node("Add", {scaled, s.scalar(1)})});
    bent = s.node("Tanh", {s.node("Mul", {inner, s.scalar(std::sqrt(2 / std::numbers::pi))})});
  } else {
    bent = s.node("Erf", {s.node("Mul", {x, s.scalar(1 / std::numbers::sqrt2)})});
  }
  const std::string half = s.node("Mul", {x, s.scalar(0.5)});
  s.node("Mul", {half, s.node("Add", {bent, s.scalar(1)})});
}

/// The inputs in the dtype of the first: ONNX's normalizations take one dtype, ours a wider weight too.
std::vector<std::string> of_one_dtype(OnnxContext& s) {
  std::vector<std::string> in = s.in;
  for (std::size_t i = 1; i < in.size(); ++i)
    if (s.types[i].dtype != s.types[0].dtype)
      in[i] = s.node("Cast", {in[i]}, {{"to", std::int64_t{onnx_type(s.types[0].dtype)}}});
  return in;
}

void layer_norm(OnnxContext& s) {
  const std::int64_t axis = -s.types[1].shape.rank();
  const std::vector<std::string> in = of_one_dtype(s);
  s.node(operator_name(s), in, {{"axis", axis}, {"epsilon", as<LayerNorm>(s.op).eps}});
}

void group_norm(OnnxContext& s) {
  const auto& op = as<GroupNorm>(s.op);
  const std::vector<std::string> in = of_one_dtype(s);
  s.node(operator_name(s), in, {{"num_groups", op.groups}, {"epsilon", op.eps}});
}

void instance_norm(OnnxContext& s) {
  const std::vector<std::string> in = of_one_dtype(s);
  s.node(operator_name(s), in, translated(s.op));
}

void interpolate(OnnxContext& s) {
  const InterpolateOptions& o = as<Interpolate>(s.op).options;
  const bool nearest = o.mode.starts_with("nearest"), exact = o.mode == "nearest-exact";
  OnnxAttributes attributes{{"mode", nearest ? "nearest" : o.mode == "bicubic" ? "cubic" : "linear"}};
  attributes.emplace_back("coordinate_transformation_mode", o.align_corners     ? "align_corners"
                                                            : nearest && !exact ? "asymmetric"
                                                                                : "half_pixel");
  if (nearest) attributes.emplace_back("nearest_mode", exact ? "round_prefer_ceil" : "floor");
  if (o.scale_factor.empty()) {
    s.node("Resize", {s.in[0], "", "", s.list(s.out_sizes, "sizes")}, attributes);
    return;
  }
  std::vector<float> scales(static_cast<std::size_t>(s.out.shape.rank()), 1);
  for (std::size_t axis = 2; axis < scales.size(); ++axis)
    scales[axis] = static_cast<float>(o.scale_factor[o.scale_factor.size() == 1 ? 0 : axis - 2]);
  const Tensor list = Tensor::from({static_cast<std::int64_t>(scales.size())}, scales);
  s.node("Resize", {s.in[0], "", s.file.constant(list, text(s.name, "/scales"))}, attributes);
}

void border_pad(OnnxContext& s) {
  const auto& op = as<BorderPad>(s.op);
  const std::string mode = op.mode == "replicate" ? "edge" : op.mode == "circular" ? "wrap" : op.mode;
  s.node(operator_name(s), {s.in[0], s.list(op.pads, "pads")}, {{"mode", mode}});
}

/// One direction of one layer. ONNX stacks directions along an axis of their own, which every operand has
/// here with size 1, and orders the gates i, o, f, g and z, r, n.
void recurrent(OnnxContext& s) {
  const auto& op = as<Recurrent>(s.op);
  const RecurrentOptions& o = op.options;
  require(!o.projection || !o.state, op.name(),
          ": ONNX has no form of a projection that begins with given states; leave the states or the "
          "projection out");
  const std::int64_t gates = gate_count(op.cell), hidden = s.types[1].shape[0] / gates;
  const auto sorted = [&](const std::string& stack, const List& order, const List& columns) {
    List split{static_cast<std::int64_t>(order.size()), hidden}, joined{1, split[0] * hidden};
    split.insert(split.end(), columns.begin(), columns.end());
    joined.insert(joined.end(), columns.begin(), columns.end());
    const std::string parts = s.node("Reshape", {stack, s.list(split, "split")});
    const std::string moved = s.node("Gather", {parts, s.list(order, "order")}, {{"axis", std::int64_t{0}}});
    return s.node("Reshape", {moved, s.list(joined, "joined")});
  };
  const List order = op.cell == Cell::lstm ? List{0, 3, 1, 2} : op.cell == Cell::gru ? List{1, 0, 2} : List{0};
  const auto with_direction = [&](const std::string& x) {
    return s.node("Unsqueeze", {x, s.list(List{0}, "direction")});
  };
  const auto without_direction = [&](const std::string& y, std::int64_t axis) {
    return s.node("Squeeze", {y, s.list(List{axis}, "direction")});
  };

  std::size_t next = 3;
  std::string bias, hr, peephole, lengths, h0, c0, weight_hh = s.in[2];
  if (o.bias) {
    List both = order;
    for (const std::int64_t gate : order) both.push_back(gates + gate);
    bias = sorted(s.node("Concat", {s.in[next], s.in[next + 1]}, {{"axis", std::int64_t{0}}}), both, {});
    next += 2;
  }
  if (o.projection) {  // without it the same network hears its inner outputs through both matrices at once
    weight_hh = s.node("MatMul", {weight_hh, s.in[next]});
    hr = transposed(s, s.in[next++], 2);
  }
  if (o.peephole) peephole = sorted(s.in[next++], {0, 2, 1}, {});
  if (o.state) h0 = with_direction(s.in[next++]);
  if (o.state && op.cell == Cell::lstm) c0 = with_direction(s.in[next++]);
  if (o.lengths) lengths = s.node("Cast", {s.in[next]}, {{"to", std::int64_t{onnx_type(DType::i32)}}});

  OnnxAttributes attributes{{"hidden_size", hidden}, {"direction", std::string(o.reverse ? "reverse" : "forward")}};
  if (op.cell == Cell::gru) attributes.emplace_back("linear_before_reset", std::int64_t{o.reset_after});
  if (op.cell == Cell::rnn)
    attributes.emplace_back("activations", std::vector<std::string>{o.nonlinearity == "relu" ? "Relu" : "Tanh"});
  std::vector<std::string> in{s.in[0],
                              sorted(s.in[1], order, {s.types[1].shape[1]}),
                              sorted(weight_hh, order, {o.projection ? hidden : s.types[2].shape[1]}),
                              bias,
                              lengths,
                              h0};
  if (op.cell == Cell::lstm) in.insert(in.end(), {c0, peephole});
  const std::vector<std::string> out = s.file.node(operator_name(s), in, attributes, text(s.name, '/', op.onnx().name),
                                                   op.cell == Cell::lstm ? 3 : 2);
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::string result = without_direction(out[i], i == 0);
    if (o.projection && i < 2) result = s.node("MatMul", {result, hr});
    s.results.push_back(result);
  }
}

const std::map<std::string_view, OnnxRule>& rules() {
  static const auto& table = *new std::map<std::string_view, OnnxRule>{
      {"avg_pool1d", {avg_pool<1>}},
      {"avg_pool2d", {avg_pool<2>}},
      {"avg_pool3d", {avg_pool<3>}},
      {"border_pad", {border_pad}},
      {"broadcast_to", {broadcast_to, true}},
      {"cast", {cast}},
      {"clamp", {clamp}},
      {"conv1d", {conv}},
      {"conv2d", {conv}},
      {"conv3d", {conv}},
      {"conv_transpose1d", {conv}},
      {"conv_transpose2d", {conv}},
      {"conv_transpose3d", {conv}},
      {"dequantize", {quantize}},
      {"gelu", {gelu}},
      {"group_norm", {group_norm}},
      {"gru", {recurrent}},
      {"hardsigmoid", {hardsigmoid}},
      {"instance_norm", {instance_norm}},
      {"interpolate", {interpolate}},
      {"iota", {iota}},
      {"layer_norm", {layer_norm}},
      {"leaky_relu", {leaky_relu}},
      {"linear", {linear}},
      {"lstm", {recurrent}},
      {"matmul", {matmul}},
      {"max_pool1d", {max_pool<1>}},
      {"max_pool2d", {max_pool<2>}},
      {"max_pool3d", {max_pool<3>}},
      {"mean", {[](OnnxContext& s) { reduce(s, "ReduceMean", 18); }}},
      {"not_equal", {not_equal}},
      {"one_hot", {one_hot}},
      {"pad", {pad}},
      {"quantize", {quantize}},
      {"reduce_max", {[](OnnxContext& s) { reduce(s, "ReduceMax", 18); }}},
      {"reduce_min", {[](OnnxContext& s) { reduce(s, "ReduceMin", 18); }}},
      {"relu6", {relu6}},
      {"reshape", {reshape, true}},
      {"rnn", {recurrent}},
      {"rsqrt", {rsqrt}},
      {"silu", {silu}},
      {"slice", {slice, true}},
      {"square", {square}},
      {"sum", {[](OnnxContext& s) { reduce(s, "ReduceSum", 13); }}},
      {"transpose", {transpose}},
  };
  return table;
}

}  // namespace

OnnxSizes onnx_sizes(std::span<const std::int64_t> smaller, std::span<const std::int64_t> larger,
                     std::string_view who) {
  const auto [low, high] = kOnnxBatches;
  require(smaller.size() == larger.size(), who, ": ", smaller.size(), " or ", larger.size(),
          " sizes, depending on the batch size");
  OnnxSizes sizes;
  for (std::size_t i = 0; i < smaller.size(); ++i) {
    const bool constant = smaller[i] == larger[i],
               multiple = smaller[i] % low == 0 && larger[i] % high == 0 && smaller[i] / low == larger[i] / high;
    require(constant || multiple, who, ": a size is ", smaller[i], " for ", low, " images and ", larger[i], " for ",
            high, ", not a multiple of the batch size; export with dynamic_batch = false");
    sizes.push_back(constant ? OnnxSize{smaller[i], false} : OnnxSize{smaller[i] / low, true});
  }
  return sizes;
}

OnnxRule onnx_rule(const Op& op) {
  if (const auto at = rules().find(op.name()); at != rules().end()) return at->second;
  return op.onnx().name.empty() ? OnnxRule{} : OnnxRule{one_to_one};
}

}  // namespace neurim
