// Ops that work element by element: each is a function of doubles.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <string_view>

#include "neurim/backend/reference/view.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/elu.h"
#include "neurim/ops/gelu.h"
#include "neurim/ops/leaky_relu.h"
#include "neurim/ops/quantize.h"

namespace neurim::reference {

namespace {

constexpr std::size_t kMostInputs = 3;

/// The value of an output element from the elements of the inputs at its place.
using Scalar = double (*)(const Op& op, const double* x);

template <class O>
const O& as(const Op& op) {
  return static_cast<const O&>(op);
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

constexpr double kGeluScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
constexpr double kGeluCube = 0.044715;

double gelu_of(double x, bool by_tanh) {
  if (by_tanh) return 0.5 * x * (1 + std::tanh(kGeluScale * (x + kGeluCube * x * x * x)));
  return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
}

double gelu_slope(double x, bool by_tanh) {
  if (by_tanh) {
    const double t = std::tanh(kGeluScale * (x + kGeluCube * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kGeluScale * (1 + 3 * kGeluCube * x * x);
  }
  return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * std::exp(-0.5 * x * x) * 0.5 * kGeluScale;
}

void pointwise(Scalar function, const Op& op, std::span<const View> in, std::span<const View> out) {
  const Shape& shape = out[0].shape();
  std::array<BroadcastIndex, kMostInputs> place;
  for (std::size_t k = 0; k < in.size(); ++k) place[k] = {in[k].shape(), shape};
  std::array<double, kMostInputs> x{};
  for (std::int64_t i = 0, n = out[0].numel(); i < n; ++i) {
    for (std::size_t k = 0; k < in.size(); ++k) x[k] = in[k][in[k].shape() == shape ? i : place[k](i)];
    out[0].set(i, function(op, x.data()));
  }
}

/// Defines the reference kernel of one op by its function, a lambda without captures.
template <class Function>
void define(std::string_view op, Function) {
  define_reference(op, [](const Op& self, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
    pointwise(Function(), self, in, out);
  });
}

}  // namespace

}  // namespace neurim::reference

namespace neurim {

void reference_pointwise() {
  using namespace reference;
  // one input
  define("neg", [](const Op&, const double* x) { return -x[0]; });
  define("abs", [](const Op&, const double* x) { return std::abs(x[0]); });
  define("exp", [](const Op&, const double* x) { return std::exp(x[0]); });
  define("log", [](const Op&, const double* x) { return std::log(x[0]); });
  define("sqrt", [](const Op&, const double* x) { return std::sqrt(x[0]); });
  define("rsqrt", [](const Op&, const double* x) { return 1 / std::sqrt(x[0]); });
  define("reciprocal", [](const Op&, const double* x) { return 1 / x[0]; });
  define("square", [](const Op&, const double* x) { return x[0] * x[0]; });
  define("erf", [](const Op&, const double* x) { return std::erf(x[0]); });
  define("sign", [](const Op&, const double* x) { return double(x[0] > 0) - double(x[0] < 0); });
  define("floor", [](const Op&, const double* x) { return std::floor(x[0]); });
  define("cast", [](const Op&, const double* x) { return x[0]; });
  define("clamp", [](const Op& op, const double* x) {
    const double low = as<Clamp>(op).low, high = as<Clamp>(op).high;
    return x[0] < low ? low : x[0] > high ? high : x[0];
  });
  define("relu", [](const Op&, const double* x) { return x[0] < 0 ? 0 : x[0]; });
  define("relu6", [](const Op&, const double* x) { return x[0] < 0 ? 0 : x[0] > 6 ? 6 : x[0]; });
  define("leaky_relu", [](const Op& op, const double* x) { return x[0] > 0 ? x[0] : x[0] * as<LeakyRelu>(op).slope; });
  define("elu", [](const Op& op, const double* x) { return x[0] > 0 ? x[0] : as<Elu>(op).alpha * std::expm1(x[0]); });
  define("sigmoid", [](const Op&, const double* x) { return sigmoid_of(x[0]); });
  define("tanh", [](const Op&, const double* x) { return std::tanh(x[0]); });
  define("gelu", [](const Op& op, const double* x) { return gelu_of(x[0], as<Gelu>(op).approximate == "tanh"); });
  define("silu", [](const Op&, const double* x) { return x[0] * sigmoid_of(x[0]); });
  define("hardsigmoid", [](const Op&, const double* x) { return std::clamp(x[0] + 3, 0.0, 6.0) / 6; });
  define("hardswish", [](const Op&, const double* x) { return x[0] * std::clamp(x[0] + 3, 0.0, 6.0) / 6; });
  define("softplus",
         [](const Op&, const double* x) { return std::max(x[0], 0.0) + std::log1p(std::exp(-std::abs(x[0]))); });
  define("logical_not", [](const Op&, const double* x) { return double(x[0] == 0); });

  // gradients: the saved value and dy
  define("relu_grad", [](const Op&, const double* x) { return x[0] > 0 ? x[1] : 0; });
  define("relu6_grad", [](const Op&, const double* x) { return x[0] > 0 && x[0] < 6 ? x[1] : 0; });
  define("leaky_relu_grad",
         [](const Op& op, const double* x) { return x[0] > 0 ? x[1] : x[1] * as<LeakyReluGrad>(op).slope; });
  define("clamp_grad", [](const Op& op, const double* x) {
    return x[0] >= as<ClampGrad>(op).low && x[0] <= as<ClampGrad>(op).high ? x[1] : 0;
  });
  define("sigmoid_grad", [](const Op&, const double* x) { return x[1] * x[0] * (1 - x[0]); });
  define("tanh_grad", [](const Op&, const double* x) { return x[1] * (1 - x[0] * x[0]); });
  define("gelu_grad",
         [](const Op& op, const double* x) { return x[1] * gelu_slope(x[0], as<GeluGrad>(op).approximate == "tanh"); });
  define("silu_grad", [](const Op&, const double* x) {
    const double s = sigmoid_of(x[0]);
    return x[1] * s * (1 + x[0] * (1 - s));
  });
  define("hardswish_grad", [](const Op&, const double* x) {
    return x[0] <= -3 ? 0 : x[0] >= 3 ? x[1] : x[1] * (x[0] / 3 + 0.5);
  });

  // two inputs
  define("add", [](const Op&, const double* x) { return x[0] + x[1]; });
  define("sub", [](const Op&, const double* x) { return x[0] - x[1]; });
  define("mul", [](const Op&, const double* x) { return x[0] * x[1]; });
  define("div", [](const Op&, const double* x) { return x[0] / x[1]; });
  define("pow", [](const Op&, const double* x) { return std::pow(x[0], x[1]); });
  define("maximum", [](const Op&, const double* x) { return x[0] > x[1] || std::isnan(x[0]) ? x[0] : x[1]; });
  define("minimum", [](const Op&, const double* x) { return x[0] < x[1] || std::isnan(x[0]) ? x[0] : x[1]; });
  define("less", [](const Op&, const double* x) { return double(x[0] < x[1]); });
  define("less_equal", [](const Op&, const double* x) { return double(x[0] <= x[1]); });
  define("greater", [](const Op&, const double* x) { return double(x[0] > x[1]); });
  define("greater_equal", [](const Op&, const double* x) { return double(x[0] >= x[1]); });
  define("equal", [](const Op&, const double* x) { return double(x[0] == x[1]); });
  define("not_equal", [](const Op&, const double* x) { return double(x[0] != x[1]); });
  define("logical_and", [](const Op&, const double* x) { return double(x[0] != 0 && x[1] != 0); });
  define("logical_or", [](const Op&, const double* x) { return double(x[0] != 0 || x[1] != 0); });

  define("quantize", [](const Op& op, const double* x) {
    const double number = std::nearbyint(x[0] / x[1]) + static_cast<double>(as<Quantize>(op).zero_point);
    return std::isnan(number) ? -std::numeric_limits<double>::infinity() : number;
  });
  define("dequantize", [](const Op& op, const double* x) {
    return (x[0] - static_cast<double>(as<Dequantize>(op).zero_point)) * x[1];
  });

  // three inputs
  define("where", [](const Op&, const double* x) { return x[0] != 0 ? x[1] : x[2]; });
}

}  // namespace neurim
