#include "neurim/ops/softmax.h"

#include "neurim/base/error.h"

namespace neurim {

Types SoftmaxOp::infer(std::span<const Type> in) const {
  check_count(*this, in, inputs(), inputs());
  check_floating(*this, in[0], "the input");
  for (const Type& type : in) require(type == in[0], name(), ": inputs are ", in[0], " and ", type);
  normal_axis(axis, in[0].shape.rank(), name());
  return {in[0]};
}

Tensors Softmax::grad(const Gradient& g) const {
  return {apply1(std::make_shared<SoftmaxGrad>(axis), {g.out[0], g.dout[0]})};
}

Tensor softmax(const Tensor& x, std::int64_t axis) { return apply1(std::make_shared<Softmax>(axis), {x}); }

void define_softmax() {
  define<Softmax>();
  define<SoftmaxGrad>();
}

}  // namespace neurim
