#include "neurim/ops/elu.h"

#include "neurim/ops/add.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/where.h"

namespace neurim {

Tensors Elu::grad(const Gradient& g) const {
  const Tensor &x = g.in[0], &y = g.out[0], &dy = g.dout[0];
  return {where(greater(x, scalar_like(x, 0)), dy, dy * (y + alpha))};
}

std::vector<Sample> Elu::samples() const {
  const Type x{DType::f32, {2, 3, 17}};
  return {{std::make_shared<Elu>(), {x}, {domain()}}, {std::make_shared<Elu>(0.4), {x}, {domain()}}};
}

Tensor elu(const Tensor& x, double alpha) { return apply1(std::make_shared<Elu>(alpha), {x}); }

void define_elu() { define<Elu>(); }

}  // namespace neurim
