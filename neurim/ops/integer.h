// Arithmetic of whole numbers that is exact in all their bits.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// A function of whole numbers of one dtype, element by element; shapes broadcast by NumPy's rule. Results wrap as
/// two's complements do. One input: not, negative, absolute. Two: add, subtract, multiply, divide (towards zero; by 0
/// it gives 0), modulo (of the sign of the divisor), remainder (of the sign of the dividend), power (of a negative
/// exponent towards zero), minimum, maximum, and, or, xor, shift_left, shift_right (by as many bits as there are, or
/// more: 0). Throws Error(usage) for another name and for floating inputs. Has no gradient.
Tensor integer(const std::string& function, const Tensors& in);

/// The op of integer. Inputs (x) or (a, b).
class Integer final : public Op {
 public:
  /// Sets the attribute.
  explicit Integer(std::string named = "add") : function(std::move(named)) {}
  std::string function;  ///< its name

  std::string_view name() const override { return "integer"; }
  void fields(Fields& f) override { f("function", function); }
  Types infer(std::span<const Type> in) const override;
  Onnx onnx() const override;
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

/// How many inputs the function of that name takes: 1 or 2; 0: there is none.
int integer_inputs(std::string_view function);

}  // namespace neurim
