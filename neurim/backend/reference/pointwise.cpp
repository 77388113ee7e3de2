// Pointwise ops: their formulas (ops/common/formulas.h), evaluated in double.
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
using Numbers = FormulaNumbers<double>;

/// The elementary functions of the formulas.
struct Doubles {
  using T = double;
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
  static T gelu(T x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }
  static T gelu_slope(T x) {
    constexpr T kDensity = std::numbers::inv_sqrtpi / std::numbers::sqrt2;  // of the normal distribution, at 0
    return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * std::exp(-0.5 * x * x) * kDensity;
  }
};

/// The value of an output element from the elements of the inputs in its place.
using Scalar = double (*)(const double* x, Numbers numbers);

template <class F>
double evaluate(const double* x, Numbers numbers) {
  constexpr F f{};
  if constexpr (requires { f(0.); })
    return f(x[0]);
  else if constexpr (requires { f(0., numbers); })
    return f(x[0], numbers);
  else if constexpr (requires { f(0., 0.); })
    return f(x[0], x[1]);
  else if constexpr (requires { f(0., 0., numbers); })
    return f(x[0], x[1], numbers);
  else
    return f(x[0], x[1], x[2]);
}

/// By the names of the formulas.
const std::map<std::string, Scalar, std::less<>>& functions() {
  static const auto* all = [] {
    auto* made = new std::map<std::string, Scalar, std::less<>>;
    each_formula<Doubles>([&]<class F>(const char* name, F) { made->emplace(name, evaluate<F>); });
    return made;
  }();
  return *all;
}

void pointwise(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const Formula formula = op.formula();
  const Scalar function = functions().find(formula_name(op))->second;
  const Numbers numbers{formula.a, formula.b};
  const Shape& shape = out[0].shape();
  std::array<BroadcastIndex, kMostInputs> place;
  for (std::size_t k = 0; k < in.size(); ++k) place[k] = {in[k].shape(), shape};
  std::array<double, kMostInputs> x{};
  for (std::int64_t i = 0, n = out[0].numel(); i < n; ++i) {
    for (std::size_t k = 0; k < in.size(); ++k) x[k] = in[k][in[k].shape() == shape ? i : place[k](i)];
    out[0].set(i, function(x.data(), numbers));
  }
}

}  // namespace

}  // namespace neurim::reference

namespace neurim {

void reference_pointwise() {
  for (const auto& [name, function] : reference::functions())
    if (name.find(' ') == std::string::npos) reference::define_reference(name, reference::pointwise);
}

}  // namespace neurim
