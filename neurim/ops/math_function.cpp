#include "neurim/ops/math_function.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "neurim/graph/onnx.h"
#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/neg.h"
#include "neurim/ops/reciprocal.h"
#include "neurim/ops/rsqrt.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sub.h"

namespace neurim {

namespace {

struct MathRow {
  std::string_view name, onnx;
  double (*function)(double);
  Tensor (*slope)(const Tensor& x, const Tensor& y);  // where y is the function of x; null: it is zero
  Fill domain;
};

Tensor one_plus(const Tensor& x) { return x + scalar_like(x, 1); }
Tensor one_minus(const Tensor& x) { return scalar_like(x, 1) - x; }

using X = const Tensor&;
constexpr std::array kMathRows{
    MathRow{
        "sin", "Sin", [](double x) { return std::sin(x); }, [](X x, X) { return math_function(x, "cos"); }, {-4, 4}},
    MathRow{"cos",
            "Cos",
            [](double x) { return std::cos(x); },
            [](X x, X) { return neg(math_function(x, "sin")); },
            {-4, 4}},
    MathRow{"tan", "Tan", [](double x) { return std::tan(x); }, [](X, X y) { return one_plus(square(y)); }, {-1, 1}},
    MathRow{"asin",
            "Asin",
            [](double x) { return std::asin(x); },
            [](X x, X) { return rsqrt(one_minus(square(x))); },
            {-0.9, 0.9}},
    MathRow{"acos",
            "Acos",
            [](double x) { return std::acos(x); },
            [](X x, X) { return neg(rsqrt(one_minus(square(x)))); },
            {-0.9, 0.9}},
    MathRow{"atan",
            "Atan",
            [](double x) { return std::atan(x); },
            [](X x, X) { return reciprocal(one_plus(square(x))); },
            {-4, 4}},
    MathRow{"sinh",
            "Sinh",
            [](double x) { return std::sinh(x); },
            [](X x, X) { return math_function(x, "cosh"); },
            {-2, 2}},
    MathRow{"cosh",
            "Cosh",
            [](double x) { return std::cosh(x); },
            [](X x, X) { return math_function(x, "sinh"); },
            {-2, 2}},
    MathRow{"asinh",
            "Asinh",
            [](double x) { return std::asinh(x); },
            [](X x, X) { return rsqrt(one_plus(square(x))); },
            {-4, 4}},
    MathRow{"acosh",
            "Acosh",
            [](double x) { return std::acosh(x); },
            [](X x, X) { return rsqrt(neg(one_minus(square(x)))); },
            {1.2, 4}},
    MathRow{"atanh",
            "Atanh",
            [](double x) { return std::atanh(x); },
            [](X x, X) { return reciprocal(one_minus(square(x))); },
            {-0.9, 0.9}},
    MathRow{"ceil", "Ceil", [](double x) { return std::ceil(x); }, nullptr, {-4, 4}},
    MathRow{"round", "Round", [](double x) { return std::nearbyint(x); }, nullptr, {-4, 4}}};

const MathRow* math_row(std::string_view name) {
  const auto* found = std::find_if(kMathRows.begin(), kMathRows.end(),
                                   [&](const MathRow& row) { return row.name == name; });
  return found == kMathRows.end() ? nullptr : found;
}

}  // namespace

double (*math_function_named(std::string_view name))(double) {
  const MathRow* row = math_row(name);
  return row ? row->function : nullptr;
}

Types MathFunction::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  check_floating(*this, in[0], "the input");
  require(math_row(function) != nullptr, name(), ": there is no function '", function, "'");
  return {in[0]};
}

Tensors MathFunction::grad(const Gradient& g) const {
  const auto slope = math_row(function)->slope;
  if (!slope) return {Tensor()};
  return {g.dout[0] * slope(g.in[0], g.out[0])};
}

void MathFunction::write_onnx(OnnxNode& node) const { node.add(math_row(function)->onnx, node.in); }

std::vector<Sample> MathFunction::samples() const {
  std::vector<Sample> rows;
  for (const MathRow& row : kMathRows)
    rows.push_back({std::make_shared<MathFunction>(std::string(row.name)), {{DType::f32, {3, 7}}}, {row.domain}});
  return rows;
}

Tensor math_function(const Tensor& x, const std::string& function) {
  return apply1(std::make_shared<MathFunction>(function), {x});
}

void define_math_function() { define<MathFunction>(); }

}  // namespace neurim
