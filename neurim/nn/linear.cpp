#include "neurim/nn/linear.h"

#include "neurim/base/error.h"
#include "neurim/ops/linear.h"

namespace neurim::nn {

Linear::Linear(std::int64_t in, std::int64_t out) : Linear(in, out, Config{}) {}

Linear::Linear(std::int64_t in, std::int64_t out, const Config& c) : config(c) {
  require(in > 0 && out > 0, "Linear: features (", in, " to ", out, ") must be 1 or more");
  const Shape shape{out, in};
  weight = parameter(shape, c.init(shape));
  if (c.bias) bias = parameter({out}, c.bias_init(shape));
}

void Linear::parts(Parts& p) {
  p("weight", weight, config.init(weight.shape()))("bias", bias, config.bias_init(weight.shape()));
}

Tensor Linear::operator()(const Tensor& x) const { return linear(x, weight, bias); }

}  // namespace neurim::nn
