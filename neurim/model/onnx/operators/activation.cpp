// Activations, and softmax.
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/ops/abs.h"
#include "neurim/ops/add.h"
#include "neurim/ops/argmax.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/div.h"
#include "neurim/ops/elu.h"
#include "neurim/ops/exp.h"
#include "neurim/ops/gelu.h"
#include "neurim/ops/hardsigmoid.h"
#include "neurim/ops/hardswish.h"
#include "neurim/ops/integer.h"
#include "neurim/ops/leaky_relu.h"
#include "neurim/ops/log_softmax.h"
#include "neurim/ops/mish.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/one_hot.h"
#include "neurim/ops/prelu.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/selu.h"
#include "neurim/ops/sigmoid.h"
#include "neurim/ops/silu.h"
#include "neurim/ops/softmax.h"
#include "neurim/ops/softplus.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/tanh.h"
#include "neurim/ops/transpose.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

using Activation = Tensor (*)(const OnnxCall& call, const Tensor& x);

Tensor zero_of(const Tensor& x) { return Tensor::scalar(0, x.dtype()); }

Tensor relu_of(const OnnxCall&, const Tensor& x) {
  return is_floating(x.dtype()) ? relu(x) : integer("maximum", {x, zero_of(x)});
}

Tensor elu_of(const OnnxCall& call, const Tensor& x) { return elu(x, call.number("alpha", 1.0)); }

/// x > 0 ? x : alpha * (exp(x / alpha) - 1), of any alpha but 0.
Tensor celu_of(const OnnxCall& call, const Tensor& x) {
  const double alpha = call.number("alpha", 1.0);
  require(alpha != 0, "alpha is 0");
  return elu(x * (1 / alpha), 1) * alpha;
}

Tensor selu_of(const OnnxCall& call, const Tensor& x) {
  const bool old = call.version() < 6;
  return elu(x, call.number("alpha", old ? 1.6732 : 1.67326319217681884765625)) *
         call.number("gamma", old ? 1.0507 : 1.05070102214813232421875);
}

Tensor thresholded_relu(const OnnxCall& call, const Tensor& x) {
  return where(greater(x, Tensor::scalar(call.number("alpha", 1.0), x.dtype())), x, zero_of(x));
}

Tensor hard_sigmoid(const OnnxCall& call, const Tensor& x) {
  const double alpha = call.number("alpha", 0.2), beta = call.number("beta", 0.5);
  // A float holds the sixth of PyTorch's hardsigmoid.
  if (static_cast<float>(alpha) == 1.0F / 6 && beta == 0.5) return hardsigmoid(x);
  return clamp(x * alpha + beta, 0, 1);
}

Tensor softsign_of(const OnnxCall&, const Tensor& x) { return x / (abs(x) + 1.0); }

/// x < -lambd: x + bias; x > lambd: x - bias; else 0.
Tensor shrink_of(const OnnxCall& call, const Tensor& x) {
  const double lambd = call.number("lambd", 0.5), bias = call.number("bias", 0.0);
  const Tensor wide = is_floating(x.dtype()) ? x : cast(x, DType::f64);
  const Tensor limit = Tensor::scalar(lambd, wide.dtype()), lower = Tensor::scalar(-lambd, wide.dtype());
  const Tensor y = where(less(wide, lower), wide + bias, where(greater(wide, limit), wide - bias, zero_of(wide)));
  return cast(y, x.dtype());
}

Tensor gelu_of(const OnnxCall& call, const Tensor& x) { return gelu(x, call.word("approximate", "none")); }

Tensor swish_of(const OnnxCall& call, const Tensor& x) {
  const double alpha = call.number("alpha", 1.0);
  return alpha == 1 ? silu(x) : x * sigmoid(x * alpha);
}

Tensor swiglu_of(const OnnxCall& call, const Tensor& gate) {
  const Tensor& value = call.tensor(1);
  require(gate.type() == value.type(), "the gate is ", gate.type(), " and the value ", value.type());
  return swish_of(call, gate) * value;
}

Tensor prelu_of(const OnnxCall& call, const Tensor& x) {
  Tensor slope = call.tensor(1);
  if (call.version() < 7 && slope.rank() == 1 && x.rank() > 1) {  // one slope for each channel
    Shape shape{slope.size(0)};
    for (int axis = 2; axis < x.rank(); ++axis) shape.push_back(1);
    slope = reshape(slope, shape);
  }
  if (is_floating(x.dtype())) {
    // One slope for each channel, as (C,1,…) or (1,C,1,…), or one for all, is what kernels take.
    const int channel = slope.rank() == x.rank() ? 1 : 0;
    const bool placed = x.rank() >= 2 && slope.rank() - channel == x.rank() - 1 && slope.numel() == x.size(1) &&
                        slope.size(channel) == x.size(1);
    if (x.rank() >= 2 && (placed || slope.numel() == 1)) return prelu(x, reshape(slope, {slope.numel()}));
    return where(less(x, zero_of(x)), x * slope, x);
  }
  return where(less(x, zero_of(x)), integer("multiply", {x, slope}), x);
}

/// Softmax and its kin over one axis; before version 13 over all axes from `axis` on.
template <class Function>
OnnxValues over_axis(const OnnxCall& call, const Function& function) {
  const Tensor& x = call.tensor(0);
  const bool flat = call.version() < 13;
  const int axis = call.axis(call.integer("axis", std::int64_t{flat ? 1 : -1}));
  if (!flat || axis == x.rank() - 1) return {function(x, axis)};
  Dim rows = 1, columns = 1;
  for (int i = 0; i < x.rank(); ++i) (i < axis ? rows : columns) *= x.size(i);
  return {reshape(function(reshape(x, {rows, columns}), 1), x.shape())};
}

Tensor hardmax_of(const Tensor& x, std::int64_t axis) {
  const std::int64_t classes = x.size(static_cast<int>(axis));
  const Tensor hot = one_hot(argmax(x, axis), classes, x.dtype());  // the classes are the last axis
  if (axis == x.rank() - 1) return hot;
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.rank()));
  std::iota(order.begin(), order.begin() + axis, 0);
  order[static_cast<std::size_t>(axis)] = x.rank() - 1;
  std::iota(order.begin() + axis + 1, order.end(), axis);
  return transpose(hot, order);
}

}  // namespace

void add_activation_operators(OnnxOperators& to) {
  const auto add = [&](std::string_view name, int since, Activation activation) {
    to.add(name, since, [=](const OnnxCall& call) { return OnnxValues{activation(call, call.tensor(0))}; });
  };
  add("Relu", 1, relu_of);
  add("LeakyRelu", 1, [](const OnnxCall& call, const Tensor& x) { return leaky_relu(x, call.number("alpha", 0.01)); });
  add("PRelu", 1, prelu_of);
  add("Elu", 1, elu_of);
  add("Celu", 12, celu_of);
  add("Selu", 1, selu_of);
  add("ThresholdedRelu", 10, thresholded_relu);
  add("HardSigmoid", 1, hard_sigmoid);
  add("HardSwish", 14, [](const OnnxCall&, const Tensor& x) { return hardswish(x); });
  add("Sigmoid", 1, [](const OnnxCall&, const Tensor& x) { return sigmoid(x); });
  add("Tanh", 1, [](const OnnxCall&, const Tensor& x) { return tanh(x); });
  add("Softplus", 1, [](const OnnxCall&, const Tensor& x) { return softplus(x); });
  add("Softsign", 1, softsign_of);
  add("Shrink", 9, shrink_of);
  add("Gelu", 20, gelu_of);
  add("Mish", 18, [](const OnnxCall&, const Tensor& x) { return mish(x); });
  add("Swish", 24, swish_of);
  add("SwiGLU", 28, swiglu_of);
  to.add("Softmax", 1, [](const OnnxCall& call) {
    return over_axis(call, [](const Tensor& x, std::int64_t axis) { return softmax(x, axis); });
  });
  to.add("LogSoftmax", 1, [](const OnnxCall& call) {
    return over_axis(call, [](const Tensor& x, std::int64_t axis) { return log_softmax(x, axis); });
  });
  to.add("Hardmax", 1, [](const OnnxCall& call) { return over_axis(call, hardmax_of); });
}

}  // namespace neurim
