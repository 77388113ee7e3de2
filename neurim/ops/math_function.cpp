#include "neurim/ops/math_function.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

struct MathRow {
  std::string_view name, onnx;
  double (*function)(double);
  Fill domain;
};

constexpr std::array kMathRows{MathRow{"sin", "Sin", [](double x) { return std::sin(x); }, {-4, 4}},
                               MathRow{"cos", "Cos", [](double x) { return std::cos(x); }, {-4, 4}},
                               MathRow{"tan", "Tan", [](double x) { return std::tan(x); }, {-1, 1}},
                               MathRow{"asin", "Asin", [](double x) { return std::asin(x); }, {-1, 1}},
                               MathRow{"acos", "Acos", [](double x) { return std::acos(x); }, {-1, 1}},
                               MathRow{"atan", "Atan", [](double x) { return std::atan(x); }, {-4, 4}},
                               MathRow{"sinh", "Sinh", [](double x) { return std::sinh(x); }, {-2, 2}},
                               MathRow{"cosh", "Cosh", [](double x) { return std::cosh(x); }, {-2, 2}},
                               MathRow{"asinh", "Asinh", [](double x) { return std::asinh(x); }, {-4, 4}},
                               MathRow{"acosh", "Acosh", [](double x) { return std::acosh(x); }, {1, 4}},
                               MathRow{"atanh", "Atanh", [](double x) { return std::atanh(x); }, {-0.9, 0.9}},
                               MathRow{"ceil", "Ceil", [](double x) { return std::ceil(x); }, {-4, 4}},
                               MathRow{"round", "Round", [](double x) { return std::nearbyint(x); }, {-4, 4}}};

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
