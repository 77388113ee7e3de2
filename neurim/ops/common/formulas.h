// The formula of each pointwise op, said once. The reference kernels evaluate it in double, the vector kernels in
// float. Includes nothing: it is compiled once for each instruction set.
#pragma once

namespace neurim {

/// The attributes of a formula, from Op::formula().
template <class T>
struct FormulaNumbers {
  T a = 0, b = 0;
};

/// Calls visit(name, function) for the formula of each pointwise op; a variant of an op has a second word in its name.
/// M has the type of the numbers, T, and the elementary functions. A function takes one to three elements, and the
/// attributes where it has some. The formulas have no branches, so that a loop over them becomes vector code. Types of
/// lambdas depend on M, so that each instruction set has functions of its own.
template <class M, class Visit>
constexpr void each_formula(Visit visit) {
  using T = typename M::T;
  using N = FormulaNumbers<T>;
  constexpr T kSixth = T(1) / 6;  // multiplications cost a tenth of divisions
  constexpr T kGeluScale = T(0.79788456080286535588), kGeluCube = T(0.044715);  // sqrt(2 / pi)

  // one input
  visit("neg", [](T x) { return -x; });
  visit("abs", [](T x) { return M::abs(x); });
  visit("exp", [](T x) { return M::exp(x); });
  visit("log", [](T x) { return M::log(x); });
  visit("sqrt", [](T x) { return M::sqrt(x); });
  visit("rsqrt", [](T x) { return 1 / M::sqrt(x); });
  visit("reciprocal", [](T x) { return 1 / x; });
  visit("square", [](T x) { return x * x; });
  visit("erf", [](T x) { return M::erf(x); });
  visit("sign", [](T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : T(0); });
  visit("floor", [](T x) { return M::floor(x); });
  visit("cast", [](T x) { return x; });
  visit("cast bool", [](T x) { return x != 0 ? T(1) : T(0); });
  visit("clamp", [](T x, N limit) { return M::clamp(x, limit.a, limit.b); });
  visit("relu", [](T x) { return x < 0 ? T(0) : x; });
  visit("relu6", [](T x) { return M::clamp(x, 0, 6); });
  visit("leaky_relu", [](T x, N slope) { return x > 0 ? x : x * slope.a; });
  visit("elu", [](T x, N alpha) { return x > 0 ? x : alpha.a * M::expm1(x); });
  visit("sigmoid", [](T x) { return M::sigmoid(x); });
  visit("tanh", [](T x) { return M::tanh(x); });
  visit("gelu", [](T x) { return M::gelu(x); });
  visit("gelu tanh", [](T x) { return x / M::sigmoid_inverse(2 * kGeluScale * (x + kGeluCube * x * x * x)); });
  visit("silu", [](T x) { return x / M::sigmoid_inverse(x); });
  visit("hardsigmoid", [](T x) { return M::clamp(x + 3, 0, 6) * kSixth; });
  visit("hardswish", [](T x) { return x * (M::clamp(x + 3, 0, 6) * kSixth); });
  visit("softplus", [](T x) { return (x > 0 ? x : 0) + M::log1p(M::exp(-M::abs(x))); });
  visit("logical_not", [](T x) { return x == 0 ? T(1) : T(0); });

  // gradients: the saved value and dy
  visit("relu_grad", [](T y, T dy) { return y > 0 ? dy : 0; });
  visit("relu6_grad", [](T y, T dy) { return (y > 0) & (y < 6) ? dy : 0; });
  visit("leaky_relu_grad", [](T x, T dy, N slope) { return x > 0 ? dy : dy * slope.a; });
  visit("clamp_grad", [](T x, T dy, N limit) { return (x >= limit.a) & (x <= limit.b) ? dy : 0; });
  visit("sigmoid_grad", [](T y, T dy) { return dy * y * (1 - y); });
  visit("tanh_grad", [](T y, T dy) { return dy * (1 - y * y); });
  visit("gelu_grad", [](T x, T dy) { return dy * M::gelu_slope(x); });
  visit("gelu_grad tanh", [](T x, T dy) {
    const T s = M::sigmoid(2 * kGeluScale * (x + kGeluCube * x * x * x));
    return dy * (s + 2 * x * s * (1 - s) * kGeluScale * (1 + 3 * kGeluCube * x * x));
  });
  visit("silu_grad", [](T x, T dy) {
    const T s = M::sigmoid(x);
    return dy * s * (1 + x * (1 - s));
  });
  visit("hardswish_grad", [](T x, T dy) { return x <= -3 ? 0 : x >= 3 ? dy : dy * (x * (2 * kSixth) + T(0.5)); });

  // two inputs
  visit("add", [](T x, T y) { return x + y; });
  visit("sub", [](T x, T y) { return x - y; });
  visit("mul", [](T x, T y) { return x * y; });
  visit("div", [](T x, T y) { return x / y; });
  visit("pow", [](T x, T y) { return M::pow(x, y); });
  visit("maximum", [](T x, T y) { return (x > y) | (x != x) ? x : y; });
  visit("minimum", [](T x, T y) { return (x < y) | (x != x) ? x : y; });
  visit("less", [](T x, T y) { return x < y ? T(1) : T(0); });
  visit("less_equal", [](T x, T y) { return x <= y ? T(1) : T(0); });
  visit("greater", [](T x, T y) { return x > y ? T(1) : T(0); });
  visit("greater_equal", [](T x, T y) { return x >= y ? T(1) : T(0); });
  visit("equal", [](T x, T y) { return x == y ? T(1) : T(0); });
  visit("not_equal", [](T x, T y) { return x != y ? T(1) : T(0); });
  visit("logical_and", [](T x, T y) { return (x != 0) & (y != 0) ? T(1) : T(0); });
  visit("logical_or", [](T x, T y) { return (x != 0) | (y != 0) ? T(1) : T(0); });

  // a is the zero point, b the least number of the dtype, which a NaN becomes
  visit("quantize", [](T x, T scale, N zero) {
    const T number = M::clamp(x / scale, zero.b - zero.a, zero.b + 255 - zero.a);
    return (number == number ? M::nearest(number) : zero.b - zero.a) + zero.a;
  });
  visit("dequantize", [](T q, T scale, N zero) { return (q - zero.a) * scale; });

  // three inputs
  visit("where", [](T x, T y, T z) { return x != 0 ? y : z; });
}

}  // namespace neurim
