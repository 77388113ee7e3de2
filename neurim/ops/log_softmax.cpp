#include "neurim/ops/log_softmax.h"

namespace neurim {

Tensors LogSoftmax::grad(const Gradient& g) const {
  return {apply1(std::make_shared<LogSoftmaxGrad>(axis), {g.out[0], g.dout[0]})};
}

Tensor log_softmax(const Tensor& x, std::int64_t axis) { return apply1(std::make_shared<LogSoftmax>(axis), {x}); }

void define_log_softmax() {
  define<LogSoftmax>();
  define<LogSoftmaxGrad>();
}

}  // namespace neurim
