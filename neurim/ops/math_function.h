// Functions that few networks need: each is computed by the reference kernel alone.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// A function of each element of floating x: sin, cos, tan, asin, acos, atan, sinh, cosh, asinh, acosh, atanh, ceil, or
/// round (to the nearest whole number, ties to even). Throws Error(usage) for another name. The gradient of ceil and
/// round is zero.
Tensor math_function(const Tensor& x, const std::string& function);

/// The op of math_function. Input (x).
class MathFunction final : public Op {
 public:
  /// Sets the attribute.
  explicit MathFunction(std::string named = "sin") : function(std::move(named)) {}
  std::string function;  ///< its name

  std::string_view name() const override { return "math_function"; }
  void fields(Fields& f) override { f("function", function); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Alias alias(int, int) const override { return Alias::overwrite; }
  Onnx onnx() const override { return {.name = {}, .since = 9, .composed = true}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

/// The function of that name on numbers; null: there is none.
double (*math_function_named(std::string_view name))(double);

}  // namespace neurim
