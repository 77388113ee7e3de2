#include "neurim/ops/gelu.h"

#include <cmath>
#include <numbers>

#include "neurim/base/error.h"
#include "neurim/graph/onnx.h"

namespace neurim {

Types Gelu::infer(std::span<const Type> in) const {
  require(approximate == "none" || approximate == "tanh", "gelu: approximate is '", approximate,
          "', but has to be 'none' or 'tanh'");
  return UnaryOp::infer(in);
}

Tensors Gelu::grad(const Gradient& g) const {
  return {apply1(std::make_shared<GeluGrad>(approximate), {g.in[0], g.dout[0]})};
}

std::vector<Sample> Gelu::samples() const {
  const Type x{DType::f32, {2, 3, 17}};
  return {{std::make_shared<Gelu>("none"), {x}, {domain()}}, {std::make_shared<Gelu>("tanh"), {x}, {domain()}}};
}

std::vector<Sample> GeluGrad::samples() const {
  const Type x{DType::f32, {2, 3, 17}};
  return {{std::make_shared<GeluGrad>("none"), {x, x}, {domain(), {}}},
          {std::make_shared<GeluGrad>("tanh"), {x, x}, {domain(), {}}}};
}

Tensor gelu(const Tensor& x, std::string approximate) {
  return apply1(std::make_shared<Gelu>(std::move(approximate)), {x});
}

/// x/2 * (1 + erf(x / sqrt(2))), or the approximation by tanh, in opsets that have no Gelu.
void Gelu::write_onnx(OnnxNode& node) const {
  if (node.file.opset() >= onnx().since) return Op::write_onnx(node);
  const std::string& x = node.in[0];
  std::string bent;
  if (approximate == "tanh") {
    const std::string scaled = node.add("Mul", {node.add("Mul", {x, x}), node.scalar(0.044715)});
    const std::string inner = node.add("Mul", {x, node.add("Add", {scaled, node.scalar(1)})});
    bent = node.add("Tanh", {node.add("Mul", {inner, node.scalar(std::sqrt(2 / std::numbers::pi))})});
  } else {
    bent = node.add("Erf", {node.add("Mul", {x, node.scalar(1 / std::numbers::sqrt2)})});
  }
  const std::string half = node.add("Mul", {x, node.scalar(0.5)});
  node.add("Mul", {half, node.add("Add", {bent, node.scalar(1)})});
}

void define_gelu() {
  define<Gelu>();
  define<GeluGrad>();
}

}  // namespace neurim
