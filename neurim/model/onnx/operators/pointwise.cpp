// Arithmetic, functions, comparisons, bits.
#include <cmath>
#include <limits>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/ops/abs.h"
#include "neurim/ops/add.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/div.h"
#include "neurim/ops/erf.h"
#include "neurim/ops/exp.h"
#include "neurim/ops/floor.h"
#include "neurim/ops/integer.h"
#include "neurim/ops/log.h"
#include "neurim/ops/logical.h"
#include "neurim/ops/math_function.h"
#include "neurim/ops/maximum.h"
#include "neurim/ops/minimum.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/neg.h"
#include "neurim/ops/pow.h"
#include "neurim/ops/reciprocal.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/sign.h"
#include "neurim/ops/sqrt.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

using PointwiseOne = Tensor (*)(const Tensor&);
using PointwiseTwo = Tensor (*)(const Tensor&, const Tensor&);

bool is_whole(const Tensor& x) { return !is_floating(x.dtype()) && x.dtype() != DType::boolean; }

/// The second operand as the versions before 7 broadcast it: from axis `axis` of the first on.
Tensor aligned(const OnnxCall& call, const Tensor& a, const Tensor& b) {
  if (call.version() >= 7 || call.integer("broadcast", std::int64_t{0}) == 0) return b;
  const std::int64_t axis = call.integer("axis", std::int64_t{a.rank() - b.rank()});
  const int first = axis < 0 ? static_cast<int>(axis) + a.rank() : static_cast<int>(axis);
  require(first >= 0 && first + b.rank() <= a.rank(), "axis is ", axis, " for ", a.shape(), " and ", b.shape());
  Shape shape = b.shape();
  for (int i = first + b.rank(); i < a.rank(); ++i) shape.push_back(1);
  return shape == b.shape() ? b : reshape(b, shape);
}

/// A function of two tensors: `floating` of floating ones, `whole` (a name of ops/integer.h) of whole ones.
OnnxRule two(PointwiseTwo floating, const char* whole) {
  return [=](const OnnxCall& call) {
    const Tensor &a = call.tensor(0), b = aligned(call, a, call.tensor(1));
    return OnnxValues{is_whole(a) ? integer(whole, {a, b}) : floating(a, b)};
  };
}

OnnxRule one(PointwiseOne floating, const char* whole = nullptr) {
  return [=](const OnnxCall& call) {
    const Tensor& x = call.tensor(0);
    return OnnxValues{whole && is_whole(x) ? integer(whole, {x}) : floating(x)};
  };
}

OnnxRule function(const char* name) {
  return [=](const OnnxCall& call) { return OnnxValues{math_function(call.tensor(0), name)}; };
}

/// The same of any number of tensors, one after the other.
OnnxRule many(PointwiseTwo floating, const char* whole) {
  return [=](const OnnxCall& call) {
    require(call.inputs() > 0, "there are no inputs");
    Tensor all = call.tensor(0);
    for (int i = 1; i < call.inputs(); ++i)
      all = is_whole(all) ? integer(whole, {all, call.tensor(i)}) : floating(all, call.tensor(i));
    return OnnxValues{all};
  };
}

/// Comparisons of whole numbers of 64 bits: double does not tell all of them apart, their differences' halves do.
OnnxRule compared(PointwiseTwo relation) {
  return [=](const OnnxCall& call) {
    const Tensor &a = call.tensor(0), b = aligned(call, a, call.tensor(1));
    if (!is_whole(a) || bits(a.dtype()) < 64) return OnnxValues{relation(a, b)};
    const Tensor low = integer("minimum", {a, b});  // a < b: the minimum is a, and b differs from it
    const auto differs = [](const Tensor& x, const Tensor& y) { return cast(integer("xor", {x, y}), DType::boolean); };
    const Tensor a_larger = cast(differs(low, a), DType::i32), b_larger = cast(differs(low, b), DType::i32);
    return OnnxValues{relation(a_larger, b_larger)};
  };
}

OnnxValues equal_rule(const OnnxCall& call) {
  if (!call.in(0).is_strings()) return compared(equal)(call);
  const OnnxStrings &a = call.in(0).strings(), &b = call.in(1).strings();
  const Shape shape = broadcast(a.shape, b.shape, "Equal");
  const auto place = [&](const Shape& of, std::int64_t flat) {
    const auto stride = strides(of);
    std::int64_t at = 0;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const int own = axis - shape.rank() + of.rank();
      if (own >= 0 && of[own] != 1) at += flat % shape[axis] * stride[own];
      flat /= shape[axis];
    }
    return static_cast<std::size_t>(at);
  };
  std::vector<std::uint8_t> same(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < same.size(); ++i)
    same[i] = a.values[place(a.shape, static_cast<std::int64_t>(i))] ==
              b.values[place(b.shape, static_cast<std::int64_t>(i))];
  return {Tensor::from({DType::boolean, shape}, same.data())};
}

OnnxValues mod_rule(const OnnxCall& call) {
  const Tensor &a = call.tensor(0), &b = call.tensor(1);
  const bool of_dividend = call.integer("fmod", std::int64_t{0}) != 0;
  if (is_whole(a)) return {integer(of_dividend ? "remainder" : "modulo", {a, b})};
  const Tensor wide_a = bits(a.dtype()) < 32 ? cast(a, DType::f32) : a, wide_b = cast(b, wide_a.dtype());
  const Tensor quotient = wide_a / wide_b;
  const Tensor whole = of_dividend ? sign(quotient) * floor(abs(quotient)) : floor(quotient);
  return {cast(wide_a - whole * wide_b, a.dtype())};
}

OnnxValues pow_rule(const OnnxCall& call) {
  const Tensor &a = call.tensor(0), b = aligned(call, a, call.tensor(1));
  if (is_whole(a) && is_whole(b)) return {integer("power", {a, cast(b, a.dtype())})};
  if (is_whole(a)) return {cast(pow(cast(a, DType::f64), cast(b, DType::f64)), a.dtype())};
  return {pow(a, cast(b, a.dtype()))};
}

/// By the op that has kernels of its own, where there is one for these limits.
Tensor clipped(const Tensor& x, double low, double high) {
  if (is_floating(x.dtype()) && low == 0 && high == 6) return relu6(x);
  if (is_floating(x.dtype()) && low == 0 && std::isinf(high)) return relu(x);
  return clamp(x, low, high);
}

/// Clip: limits were attributes before version 11.
OnnxValues clip_rule(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (call.version() < 11) {
    const double low = call.number("min", -kInfinity), high = call.number("max", kInfinity);
    return {clipped(x, low, high)};
  }
  if (!is_whole(x) && call.known(1) && call.known(2)) {
    const double low = call.number(1, -kInfinity), high = call.number(2, kInfinity);
    if (low <= high) return {clipped(x, low, high)};
  }
  Tensor y = x;
  if (call.has(1)) y = is_whole(x) ? integer("maximum", {y, call.tensor(1)}) : maximum(y, call.tensor(1));
  if (call.has(2)) y = is_whole(x) ? integer("minimum", {y, call.tensor(2)}) : minimum(y, call.tensor(2));
  return {y};
}

OnnxValues is_inf_rule(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto is = [&](double value) { return equal(x, Tensor::scalar(value, x.dtype())); };
  const bool negative = call.integer("detect_negative", std::int64_t{1}) != 0,
             positive = call.integer("detect_positive", std::int64_t{1}) != 0;
  if (negative && positive) return {logical_or(is(-kInfinity), is(kInfinity))};
  if (negative || positive) return {is(negative ? -kInfinity : kInfinity)};
  return {not_equal(equal(x, x), equal(x, x))};
}

OnnxValues where_rule(const OnnxCall& call) {
  if (!call.in(1).is_strings())
    return {OnnxValue(where(call.tensor(0), call.tensor(1), call.tensor(2)), call.in(1).element())};
  const OnnxStrings &a = call.in(1).strings(), &b = call.in(2).strings();
  require(call.in(0).shape() == a.shape && a.shape == b.shape, "texts are chosen where all shapes are equal");
  const std::vector<std::int64_t> first = call.integers(0);
  OnnxStrings out = b;
  for (std::size_t i = 0; i < first.size(); ++i)
    if (first[i]) out.values[i] = a.values[i];
  return {out};
}

Tensor exclusive_or(const Tensor& a, const Tensor& b) { return not_equal(a, b); }
Tensor sign_of(const Tensor& x) {
  if (!is_whole(x)) return sign(x);
  const Tensor zero = Tensor::scalar(0, x.dtype());
  return integer("subtract", {cast(greater(x, zero), x.dtype()), cast(less(x, zero), x.dtype())});
}

void add_comparisons(OnnxOperators& to) {
  to.add("Equal", 1, equal_rule);
  to.add("Less", 1, compared(less));
  to.add("LessOrEqual", 12, compared(less_equal));
  to.add("Greater", 1, compared(greater));
  to.add("GreaterOrEqual", 12, compared(greater_equal));
  const auto logic = [&](std::string_view name, PointwiseTwo function) {
    to.add(name, 1, [=](const OnnxCall& call) {
      return OnnxValues{function(call.tensor(0), aligned(call, call.tensor(0), call.tensor(1)))};
    });
  };
  logic("And", logical_and);
  logic("Or", logical_or);
  logic("Xor", exclusive_or);
  to.add("Not", 1, one(logical_not));
  to.add("IsInf", 10, is_inf_rule);
  to.add("IsNaN", 9, [](const OnnxCall& call) { return OnnxValues{not_equal(call.tensor(0), call.tensor(0))}; });
  to.add("Where", 9, where_rule);
}

}  // namespace

void add_pointwise_operators(OnnxOperators& to) {
  to.add("Add", 1, two(add, "add"));
  to.add("Sub", 1, two([](const Tensor& a, const Tensor& b) { return a - b; }, "subtract"));
  to.add("Mul", 1, two(mul, "multiply"));
  to.add("Div", 1, two(div, "divide"));
  to.add("Max", 1, many(maximum, "maximum"));
  to.add("Min", 1, many(minimum, "minimum"));
  to.add("Sum", 1, many(add, "add"));
  to.add("Mean", 1, [](const OnnxCall& call) {
    Tensor all = call.tensor(0);
    for (int i = 1; i < call.inputs(); ++i) all = all + call.tensor(i);
    return OnnxValues{all / static_cast<double>(call.inputs())};
  });
  to.add("Mod", 10, mod_rule);
  to.add("Pow", 1, pow_rule);
  to.add("Clip", 1, clip_rule);

  to.add("Abs", 1, one(abs, "absolute"));
  to.add("Neg", 1, one(neg, "negative"));
  to.add("Sign", 9, one(sign_of));
  to.add("Sqrt", 1, one(sqrt));
  to.add("Reciprocal", 1, one(reciprocal));
  to.add("Exp", 1, one(exp));
  to.add("Log", 1, one(log));
  to.add("Erf", 9, one(erf));
  to.add("Floor", 1, one(floor));
  to.add("Ceil", 1, function("ceil"));
  to.add("Round", 11, function("round"));
  for (const auto& [name, since] : std::vector<std::pair<const char*, int>>{{"Sin", 7},
                                                                            {"Cos", 7},
                                                                            {"Tan", 7},
                                                                            {"Asin", 7},
                                                                            {"Acos", 7},
                                                                            {"Atan", 7},
                                                                            {"Sinh", 9},
                                                                            {"Cosh", 9},
                                                                            {"Asinh", 9},
                                                                            {"Acosh", 9},
                                                                            {"Atanh", 9}})
    to.add(name, since, [function = lower(name)](const OnnxCall& call) {
      return OnnxValues{math_function(call.tensor(0), function)};
    });
  add_comparisons(to);

  const auto of_bits = [&](std::string_view name, const char* whole) {
    to.add(name, 18, [=](const OnnxCall& call) { return OnnxValues{integer(whole, call.tensors())}; });
  };
  of_bits("BitwiseAnd", "and");
  of_bits("BitwiseOr", "or");
  of_bits("BitwiseXor", "xor");
  of_bits("BitwiseNot", "not");
  to.add("BitShift", 11, [](const OnnxCall& call) {
    const std::string direction = call.word("direction", "");
    require(direction == "LEFT" || direction == "RIGHT", "direction is '", direction, "', not LEFT or RIGHT");
    return OnnxValues{integer(direction == "LEFT" ? "shift_left" : "shift_right", call.tensors())};
  });
}

}  // namespace neurim
