#include "neurim/ops/gelu.h"

#include "neurim/base/error.h"

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

void define_gelu() {
  define<Gelu>();
  define<GeluGrad>();
}

}  // namespace neurim
