#include "neurim/ops/leaky_relu.h"

#include "neurim/graph/onnx.h"

namespace neurim {

Tensors LeakyRelu::grad(const Gradient& g) const {
  return {apply1(std::make_shared<LeakyReluGrad>(slope), {g.in[0], g.dout[0]})};
}

std::vector<Sample> LeakyRelu::samples() const {
  const Type x{DType::f32, {2, 3, 17}};
  return {{std::make_shared<LeakyRelu>(), {x}}, {std::make_shared<LeakyRelu>(0.3), {x}}};
}

Tensor leaky_relu(const Tensor& x, double slope) { return apply1(std::make_shared<LeakyRelu>(slope), {x}); }

void LeakyRelu::write_onnx(OnnxNode& node) const { node.add("LeakyRelu", node.in, {{"alpha", slope}}); }

void define_leaky_relu() {
  define<LeakyRelu>();
  define<LeakyReluGrad>();
}

}  // namespace neurim
