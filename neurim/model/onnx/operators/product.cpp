// Matrix products, convolutions and what is made of them.
#include "neurim/model/onnx/operators/product.h"

#include <cmath>
#include <optional>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/graph/trace.h"
#include "neurim/graph/value.h"
#include "neurim/model/onnx/narrow.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/model/onnx/operators/window.h"
#include "neurim/ops/abs.h"
#include "neurim/ops/add.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/conv_transpose.h"
#include "neurim/ops/deform_conv.h"
#include "neurim/ops/det.h"
#include "neurim/ops/div.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/pad.h"
#include "neurim/ops/quantize.h"
#include "neurim/ops/reduce_max.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/silu.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/sum.h"
#include "neurim/ops/transpose.h"

namespace neurim {

namespace {

/// Whether the weight (K,N) of a product is stored, so that it is that of a fully connected layer, which has kernels
/// of its own. Eagerly its transpose would be made at every call.
bool is_layer(const Tensor& x, const Tensor& weight) {
  return tracing() && !weight.traced() && weight.rank() == 2 && x.rank() >= 1 && is_floating(x.dtype()) &&
         x.dtype() == weight.dtype() && weight.numel() > 0;
}

/// x times a factor in the dtype of x.
Tensor times_factor(const Tensor& x, double factor) {
  if (factor == 1) return x;
  return is_floating(x.dtype()) ? x * factor : cast(cast(x, DType::f64) * factor, x.dtype());
}

Shape before_matrix(const Shape& shape) { return Shape(std::span(shape.begin(), shape.end() - 2)); }

Tensor with_batch(const Tensor& x, const Shape& batch) {
  if (before_matrix(x.shape()) == batch) return x;
  Shape whole = batch;
  whole.push_back(x.size(-2));
  whole.push_back(x.size(-1));
  return broadcast_to(x, whole);
}

}  // namespace

Tensor onnx_product(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  if (!transpose_a && is_layer(a, b)) return linear(a, transpose_b ? b : transpose(b, {1, 0}));
  if (!is_floating(a.dtype()) || a.rank() < 2 || b.rank() < 2) return matmul(a, b, transpose_a, transpose_b);
  // Kernels take matrices of equal batches.
  if (b.rank() == 2 && a.rank() > 2 && !transpose_a && a.shape().numel() != 0) {
    Shape whole = a.shape();
    whole[-1] = b.size(transpose_b ? -2 : -1);
    const Dim inner = a.size(-1);
    return reshape(matmul(reshape(a, {a.numel() / inner, inner}), b, false, transpose_b), whole);
  }
  const Shape batch = broadcast(before_matrix(a.shape()), before_matrix(b.shape()), "MatMul");
  return matmul(with_batch(a, batch), with_batch(b, batch), transpose_a, transpose_b);
}

namespace {

OnnxValues matmul_rule(const OnnxCall& call) { return {onnx_product(call.tensor(0), call.tensor(1))}; }

/// What is added to each row of (M,N), as (N); undefined where rows differ.
Tensor bias_of_rows(const Tensor& c, Dim columns) {
  if (c.rank() > 2 || (c.rank() == 2 && c.size(0) != 1)) return {};
  const Dim size = c.rank() == 0 ? Dim(1) : c.size(-1);
  const Tensor row = c.rank() == 1 ? c : reshape(c, {size});
  return size == columns ? row : broadcast_to(row, {columns});
}

OnnxValues gemm_rule(const OnnxCall& call) {
  const Tensor &a = call.tensor(0), &b = call.tensor(1);
  const bool transpose_a = call.integer("transA", std::int64_t{0}) != 0,
             transpose_b = call.integer("transB", std::int64_t{0}) != 0;
  const double alpha = call.number("alpha", 1.0), beta = call.number("beta", 1.0);
  require(a.rank() == 2 && b.rank() == 2, "A is ", a.shape(), " and B ", b.shape(), ", where matrices are wanted");
  const Tensor c = call.has(2) && beta != 0 ? times_factor(call.tensor(2), beta) : Tensor();
  if (!transpose_a && is_layer(a, b)) {
    const Tensor bias = c ? bias_of_rows(c, b.size(transpose_b ? 0 : 1)) : Tensor();
    if (!c || bias) return {linear(a, times_factor(transpose_b ? b : transpose(b, {1, 0}), alpha), bias)};
  }
  const Tensor y = times_factor(matmul(a, b, transpose_a, transpose_b), alpha);
  return {c ? y + c : y};
}

/// Runs `body` at once where it reads no traced value, so that its result is known.
template <class Body>
Tensor known_if(bool known, Body body) {
  if (!known) return body();
  const Untraced untraced;
  const Tensor result = body();
  result.value()->constant = true;
  return result;
}

/// Whole numbers less their zero point, in f32. A zero point of one axis is one for each row of the product's left
/// operand (`rows`), or for each column of the right one.
Tensor less_zero(const Tensor& whole, const Tensor& zero, bool rows) {
  return known_if(!whole.traced() && (!zero || !zero.traced()), [&] {
    // There are kernels that make f32 of bytes this way.
    const bool byte = whole.dtype() == DType::u8 || whole.dtype() == DType::i8;
    const Tensor x = byte ? dequantize(whole, Tensor::scalar(1, DType::f32, whole.device())) : cast(whole, DType::f32);
    if (!zero) return x;
    Tensor z = cast(zero, DType::f32);
    if (z.rank() == 1 && z.size(0) == 1) z = reshape(z, Shape{});
    if (z.rank() == 1 && rows) z = reshape(z, {z.size(0), 1});
    return x - z;
  });
}

/// How many products of this factor along an axis with whole numbers of at most 255 are added up exactly in f32.
std::int64_t exact_terms(const Tensor& factor, int axis) {
  constexpr double kWhole = 1 << 24, kByte = 255;  // f32 has all whole numbers up to the first
  if (factor.traced()) return static_cast<std::int64_t>(kWhole / (kByte * kByte));
  const std::int64_t count = std::max<std::int64_t>(factor.size(axis), 1);
  if (factor.numel() == 0) return count;
  const Untraced untraced;
  const Tensor sizes = abs(factor);
  if (kByte * reduce_max(sum(sizes, {axis})).item() <= kWhole) return count;
  return static_cast<std::int64_t>(kWhole / (kByte * std::max(reduce_max(sizes).item(), 1.0)));
}

/// The sum of the products of terms [first, last), of at most so many at a time, as i32.
template <class Product>
Tensor exact_sum(std::int64_t count, std::int64_t terms, Product product) {
  Tensor sum;
  for (std::int64_t first = 0; first < count || !sum; first += terms) {
    const Tensor part = cast(product(first, std::min(first + terms, count)), DType::i32);
    sum = sum ? sum + part : part;
  }
  return sum;
}

/// Terms [first, last) along an axis.
Tensor terms_of(const Tensor& x, int axis, std::int64_t first, std::int64_t last) {
  if (first == 0 && x.size(axis) == last) return x;
  return slice(x, {first}, {last}, {axis});
}

OnnxValues matmul_integer_rule(const OnnxCall& call) {
  const Tensor a = less_zero(call.tensor(0), call.optional(2), true),
               b = less_zero(call.tensor(1), call.optional(3), false);
  const int inner = b.rank() == 1 ? -1 : -2;
  return {exact_sum(a.size(-1), exact_terms(b, inner), [&](std::int64_t first, std::int64_t last) {
    return onnx_product(terms_of(a, -1, first, last), terms_of(b, inner, first, last));
  })};
}

/// What of a scale and a zero point is the same: one number, as ().
Tensor as_scalar(const Tensor& x) { return x.rank() > 0 && x.shape().numel() == 1 ? reshape(x, Shape{}) : x; }

/// The one number that all zero points are, if they are one and known.
std::optional<std::int64_t> common_zero(const OnnxCall& call, int input) {
  if (!call.has(input)) return 0;
  if (!call.known(input) || is_narrow(call.in(input).element())) return std::nullopt;
  const std::vector<std::int64_t> all = call.integers(input);
  const bool same = !all.empty() && std::all_of(all.begin(), all.end(), [&](std::int64_t z) { return z == all[0]; });
  return same ? std::optional(all[0]) : std::nullopt;
}

/// (q - zero) * scale in f32, of input `input` with `scale` and the input after that of the scale.
Tensor real_of(const OnnxCall& call, int input, const Tensor& scale, int zero_input) {
  const Tensor& q = call.tensor(input);
  const std::optional<std::int64_t> zero = common_zero(call, zero_input);
  if (zero && !is_narrow(call.in(input).element())) return dequantize(q, scale, *zero);
  Tensor z = as_scalar(cast(call.tensor(zero_input), DType::f32));
  if (z.rank() > 0) z = reshape(z, scale.shape());
  return (cast(q, DType::f32) - z) * scale;
}

/// y / scale + zero, as the element type of the zero point.
OnnxValue quantized_result(const OnnxCall& call, const Tensor& y, const Tensor& scale, int zero_input) {
  const OnnxValue& zero = call.in(zero_input);
  if (!is_narrow(zero.element())) {
    if (!call.known(zero_input)) call.integers(zero_input);  // throws what makes the model run eagerly
    const std::optional<std::int64_t> same = common_zero(call, zero_input);
    require(same.has_value(), "the zero points of the output differ, which is not supported");
    return quantize(y, scale, *same, zero.tensor().dtype());
  }
  if (y.traced()) throw OnnxNeedsData(text(call.op(), " rounds to ", zero.element()));
  std::vector<float> values = (y / scale).values<float>();
  for (float& value : values)
    value = static_cast<float>(from_narrow(zero.element(), to_narrow(zero.element(), static_cast<double>(value))));
  return {Tensor::from(y.shape(), values), zero.element()};
}

OnnxValues qlinear_matmul_rule(const OnnxCall& call) {
  const auto scale = [&](int input, bool rows) {
    const Tensor s = as_scalar(cast(call.tensor(input), DType::f32));
    return s.rank() == 1 && rows ? reshape(s, {s.size(0), 1}) : s;
  };
  const Tensor a = real_of(call, 0, scale(1, true), 2), b = real_of(call, 3, scale(4, false), 5);
  return {quantized_result(call, onnx_product(a, b), scale(6, true), 7)};
}

std::vector<std::int64_t> kernel_of(const Tensor& weight) {
  require(weight.rank() >= 3, "the weight is ", weight.shape(), ", where (O,C,k…) is wanted");
  return {weight.shape().begin() + 2, weight.shape().end()};
}

OnnxWindow conv_window(const OnnxCall& call, const Tensor& x, const Tensor& weight) {
  OnnxWindow window = window_of(call, x.shape(), kernel_of(weight));
  pad_automatically(window, x.shape());
  return window;
}

Tensor convolved(const OnnxCall& call, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const OnnxWindow window = conv_window(call, x, weight);
  return for_axes(window.axes(), [&]<std::size_t N>() {
    return conv<N>(x, weight, bias,
                   {.stride = array_of<N>(window.strides),
                    .dilation = array_of<N>(window.dilations),
                    .pad = array_of<2 * N>(window.pads),
                    .groups = call.integer("group", std::int64_t{1})});
  });
}

OnnxValues conv_rule(const OnnxCall& call) {
  return {convolved(call, call.tensor(0), call.tensor(1), call.optional(2))};
}

OnnxValues qlinear_conv_rule(const OnnxCall& call) {
  const Tensor x_scale = as_scalar(cast(call.tensor(1), DType::f32)),
               w_scale = as_scalar(cast(call.tensor(4), DType::f32));
  Shape channels{call.tensor(3).size(0)};
  while (channels.rank() < call.tensor(3).rank()) channels.push_back(1);
  const Tensor x = real_of(call, 0, x_scale, 2),
               w = real_of(call, 3, w_scale.rank() > 0 ? reshape(w_scale, channels) : w_scale, 5);
  const Tensor bias = call.has(8) ? dequantize(call.tensor(8), x_scale * w_scale) : Tensor();
  return {quantized_result(call, convolved(call, x, w, bias), as_scalar(cast(call.tensor(6), DType::f32)), 7)};
}

/// What each tap of a window meets in x(N,C,…), whose border is padded: (N,C,taps,places).
Tensor columns_of(const Tensor& x, const OnnxWindow& window) {
  const std::size_t axes = window.axes();
  std::vector<std::int64_t> pads(2 * axes + 4), along = spatial_axes(x.shape());
  std::copy_n(window.pads.begin(), axes, pads.begin() + 2);
  std::copy_n(window.pads.begin() + static_cast<std::ptrdiff_t>(axes), axes,
              pads.begin() + 4 + static_cast<std::ptrdiff_t>(axes));
  const Tensor padded = pad(x, pads);
  std::vector<Dim> spans;  // from the first window's place to after the last one's
  Dim places = 1;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const Dim windows = (padded.size(static_cast<int>(axis) + 2) - window.extent(axis)) / window.strides[axis] + 1;
    spans.push_back((windows - 1) * window.strides[axis] + 1);
    places *= windows;
  }
  std::int64_t taps = 1;
  for (const std::int64_t size : window.kernel) taps *= size;
  Tensors parts;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    std::vector<Dim> starts(axes), ends(axes);
    std::int64_t left = tap;
    for (std::size_t axis = axes; axis-- > 0;) {
      starts[axis] = left % window.kernel[axis] * window.dilations[axis];
      ends[axis] = starts[axis] + spans[axis];
      left /= window.kernel[axis];
    }
    parts.push_back(reshape(slice(padded, starts, ends, along, window.strides), {x.size(0), x.size(1), 1, places}));
  }
  return parts.size() == 1 ? parts[0] : concat(parts, 2);
}

OnnxValues conv_integer_rule(const OnnxCall& call) {
  const Tensor &x = call.tensor(0), &w = call.tensor(1);
  const OnnxWindow window = conv_window(call, x, w);
  const std::int64_t groups = call.integer("group", std::int64_t{1}), outputs = w.size(0);
  require(groups > 0 && outputs % groups == 0 && x.size(1) == w.size(1) * groups, "x is ", x.shape(), " and w ",
          w.shape(), ", which do not divide into ", groups, " groups");
  const std::int64_t count = w.numel() / std::max<std::int64_t>(outputs, 1);  // terms of a sum
  // Rows of the weight have zero points of their own.
  const Tensor rows = less_zero(
      w.traced() ? reshape(w, {outputs, count}) : known_if(true, [&] { return reshape(w, {outputs, count}); }),
      call.optional(3), true);
  const Tensor factor = known_if(!rows.traced(), [&] { return reshape(rows, {groups, outputs / groups, count}); });
  const Tensor seen = columns_of(less_zero(x, call.optional(2), false), window);
  const Tensor columns = reshape(seen, {x.size(0), groups, count, seen.size(3)});
  const Tensor y = exact_sum(count, exact_terms(factor, 2), [&](std::int64_t first, std::int64_t last) {
    return onnx_product(terms_of(factor, 2, first, last), terms_of(columns, 2, first, last));
  });
  Shape shape{x.size(0), outputs};
  for (std::size_t axis = 0; axis < window.axes(); ++axis) {
    const Dim padded = x.size(static_cast<int>(axis) + 2) + window.pads[axis] + window.pads[axis + window.axes()];
    shape.push_back((padded - window.extent(axis)) / window.strides[axis] + 1);
  }
  return {reshape(y, shape)};
}

/// The padding of a transposed convolution, and what is added to its size at the ends: as attributes say, or so that
/// it gives the size that they say.
std::vector<std::int64_t> transposed_ends(const OnnxCall& call, const Shape& x, OnnxWindow& window) {
  const std::size_t axes = window.axes();
  std::vector<std::int64_t> more = each_of(call, "output_padding", axes, 0), sizes = numbers_of(call, "output_shape");
  if (sizes.size() == axes + 2) sizes.erase(sizes.begin(), sizes.begin() + 2);  // with (N,C), as some files have it
  require(sizes.empty() || sizes.size() == axes, "output_shape has ", sizes.size(), " numbers, where ", axes,
          " are wanted");
  const bool same = window.auto_pad == "SAME_UPPER" || window.auto_pad == "SAME_LOWER";
  if (window.auto_pad == "VALID") std::fill(window.pads.begin(), window.pads.end(), 0);
  for (std::size_t axis = 0; axis < axes && (same || !sizes.empty()); ++axis) {
    const std::int64_t size = x[static_cast<int>(axis) + 2], stride = window.strides[axis],
                       wanted = sizes.empty() ? size * stride : sizes[axis],
                       total = (size - 1) * stride + window.extent(axis) + more[axis] - wanted;
    pad_axis(window, axis, std::max<std::int64_t>(total, 0));
    more[axis] += std::max<std::int64_t>(-total, 0);
  }
  return more;
}

OnnxValues conv_transpose_rule(const OnnxCall& call) {
  const Tensor &x = call.tensor(0), &weight = call.tensor(1);
  const Tensor bias = call.optional(2);
  OnnxWindow window = window_of(call, x.shape(), kernel_of(weight));
  const std::vector<std::int64_t> more = transposed_ends(call, x.shape(), window);
  const std::size_t axes = window.axes();
  bool plain = std::all_of(window.pads.begin(), window.pads.end(), [](std::int64_t pad) { return pad >= 0; });
  for (std::size_t axis = 0; axis < axes; ++axis) plain = plain && more[axis] >= 0 && more[axis] < window.strides[axis];
  const Tensor y = for_axes(axes, [&]<std::size_t N>() {
    ConvTransposeOptions<N> options{.stride = array_of<N>(window.strides),
                                    .dilation = array_of<N>(window.dilations),
                                    .groups = call.integer("group", std::int64_t{1})};
    if (plain) options.pad = array_of<2 * N>(window.pads), options.output_padding = array_of<N>(more);
    return conv_transpose<N>(x, weight, plain ? bias : Tensor(), options);
  });
  if (plain) return {y};
  std::vector<std::int64_t> ends(2 * axes + 4);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    ends[axis + 2] = -window.pads[axis];
    ends[axes + axis + 4] = more[axis] - window.pads[axis + axes];
  }
  const Tensor moved = pad(y, ends);
  if (!bias) return {moved};
  Shape channels{bias.size(0)};
  while (channels.rank() < moved.rank() - 1) channels.push_back(1);
  return {moved + reshape(bias, channels)};
}

OnnxValues deform_conv_rule(const OnnxCall& call) {
  const Tensor &x = call.tensor(0), &weight = call.tensor(1);
  const OnnxWindow window = window_of(call, x.shape(), kernel_of(weight));
  return {deform_conv(x, weight, call.tensor(2), call.optional(3), call.optional(4),
                      {.stride = window.strides,
                       .dilation = window.dilations,
                       .pad = window.pads,
                       .groups = call.integer("group", std::int64_t{1}),
                       .offset_groups = call.integer("offset_group", std::int64_t{1})})};
}

OnnxValues causal_conv_rule(const OnnxCall& call) {
  const Tensor &x = call.tensor(0), &weight = call.tensor(1);
  require(x.rank() == 3 && weight.rank() == 3 && weight.size(1) == 1, "the input is ", x.shape(), " and the weight ",
          weight.shape(), ", where (N,C,L) and (C,1,k) are wanted");
  const std::int64_t channels = x.size(1), before = std::int64_t{weight.size(2)} - 1;
  const std::string activation = call.word("activation", "none");
  require(activation == "none" || activation == "silu" || activation == "swish", "activation is '", activation,
          "', which is not supported");
  const Tensor seen = call.has(3) ? concat({call.tensor(3), x}, 2) : pad(x, {0, 0, before, 0, 0, 0});
  Tensor y = call.has(3) ? conv1d(seen, weight, call.optional(2), {.groups = channels})
                         : conv1d(x, weight, call.optional(2), {.pad = {before, 0}, .groups = channels});
  if (activation != "none") y = silu(y);
  return {y, slice(seen, {x.size(2)}, {x.size(2) + before}, {2})};
}

}  // namespace

void add_product_operators(OnnxOperators& to) {
  to.add("MatMul", 1, matmul_rule);
  to.add("Gemm", 1, gemm_rule);
  to.add("MatMulInteger", 10, matmul_integer_rule);
  to.add("QLinearMatMul", 10, qlinear_matmul_rule);
  to.add("Conv", 1, conv_rule);
  to.add("ConvInteger", 10, conv_integer_rule);
  to.add("QLinearConv", 10, qlinear_conv_rule);
  to.add("ConvTranspose", 1, conv_transpose_rule);
  to.add("DeformConv", 19, deform_conv_rule);
  to.add("Einsum", 12,
         [](const OnnxCall& call) { return OnnxValues{onnx_einsum(call.word("equation", ""), call.tensors())}; });
  to.add("Det", 11, [](const OnnxCall& call) { return OnnxValues{det(call.tensor(0))}; });
  to.add("CausalConvWithState", 27, causal_conv_rule);
}

}  // namespace neurim
