// Pointwise ops: their formulas (ops/common/formulas.h), evaluated in double, or in long double of 64-bit integers.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <string>

#include "neurim/backend/reference/view.h"
#include "neurim/ops/common/formulas.h"

namespace neurim::reference {

namespace {

constexpr std::size_t kMostInputs = 3;

/// The elementary functions of the formulas.
template <class Number>
struct Elementary {
  using T = Number;
  static T abs(T x) { return std::abs(x); }
  static T exp(T x) { return std::exp(x); }
  static T expm1(T x) { return std::expm1(x); }
  static T log(T x) { return std::log(x); }
  static T log1p(T x) { return std::log1p(x); }
  static T sqrt(T x) { return std::sqrt(x); }
  static T pow(T x, T y) { return std::pow(x, y); }
  static T floor(T x) { return std::floor(x); }
  static T nearest(T x) { return std::nearbyint(x); }
  static T erf(T x) { return std::erf(x); }
  static T tanh(T x) { return std::tanh(x); }
  static T sigmoid_inverse(T x) { return 1 + std::exp(-x); }
  static T sigmoid(T x) { return 1 / sigmoid_inverse(x); }
  static T clamp(T x, T low, T high) { return x < low ? low : x > high ? high : x; }
  static T gelu(T x) { return T(0.5) * x * std::erfc(-x / std::numbers::sqrt2_v<T>); }
  static T gelu_slope(T x) {
    constexpr T kDensity = std::numbers::inv_sqrtpi_v<T> /
                           std::numbers::sqrt2_v<T>;  // of the normal distribution, at 0
    return T(0.5) * std::erfc(-x / std::numbers::sqrt2_v<T>) + x * std::exp(T(-0.5) * x * x) * kDensity;
  }
};

/// The value of an output element from the elements of the inputs in its place.
template <class T>
using Scalar = T (*)(const T* x, FormulaNumbers<T> numbers);

template <class F, class T>
T evaluate(const T* x, FormulaNumbers<T> numbers) {
  constexpr F f{};
  constexpr T zero{};
  if constexpr (requires { f(zero); })
    return f(x[0]);
  else if constexpr (requires { f(zero, numbers); })
    return f(x[0], numbers);
  else if constexpr (requires { f(zero, zero); })
    return f(x[0], x[1]);
  else if constexpr (requires { f(zero, zero, numbers); })
    return f(x[0], x[1], numbers);
  else
    return f(x[0], x[1], x[2]);
}

/// By the names of the formulas.
template <class T>
const std::map<std::string, Scalar<T>, std::less<>>& functions() {
  static const auto* all = [] {
    auto* made = new std::map<std::string, Scalar<T>, std::less<>>;
    each_formula<Elementary<T>>([&]<class F>(const char* name, F) { made->emplace(name, evaluate<F, T>); });
    return made;
  }();
  return *all;
}

template <class T>
void pointwise_in(T, const Op& op, std::span<const View> in, const View& out) {
  const Formula formula = op.formula();
  const Scalar<T> function = functions<T>().find(formula_name(op))->second;
  const FormulaNumbers<T> numbers{static_cast<T>(formula.a), static_cast<T>(formula.b)};
  const Shape& shape = out.shape();
  std::array<BroadcastIndex, kMostInputs> place;
  for (std::size_t k = 0; k < in.size(); ++k) place[k] = {in[k].shape(), shape};
  std::array<T, kMostInputs> x{};
  for (std::int64_t i = 0, n = out.numel(); i < n; ++i) {
    for (std::size_t k = 0; k < in.size(); ++k) x[k] = in[k].load<T>(in[k].shape() == shape ? i : place[k](i));
    out.store(i, function(x.data(), numbers));
  }
}

void pointwise(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  in_wide_enough(in, out, [&](auto zero) { pointwise_in(zero, op, in, out[0]); });
}

}  // namespace

}  // namespace neurim::reference

namespace neurim {

void reference_pointwise() {
  for (const auto& [name, function] : reference::functions<double>())
    if (name.find(' ') == std::string::npos) reference::define_reference(name, reference::pointwise);
}

}  // namespace neurim
