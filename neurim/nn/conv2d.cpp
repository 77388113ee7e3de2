#include "neurim/nn/conv2d.h"

#include "neurim/base/error.h"
#include "neurim/ops/conv2d.h"

namespace neurim::nn {

Conv2d::Conv2d(std::int64_t in, std::int64_t out) : Conv2d(in, out, Config{}) {}

Conv2d::Conv2d(std::int64_t in, std::int64_t out, const Config& c) : config(c) {
  require(in > 0 && out > 0 && c.groups > 0 && c.kernel.height > 0 && c.kernel.width > 0,
          "Conv2d: channels (", in, " to ", out, "), groups (", c.groups, ") and kernel (", c.kernel.height,
          "x", c.kernel.width, ") must be 1 or more");
  require(in % c.groups == 0 && out % c.groups == 0, "Conv2d: ", c.groups, " groups do not fit: ", in,
          " input and ", out, " output channels must both be multiples of groups");
  const Shape shape{out, in / c.groups, c.kernel.height, c.kernel.width};
  weight = parameter(shape, c.init(shape));
  if (c.bias) bias = parameter({out}, c.bias_init(shape));
}

void Conv2d::parts(Parts& p) {
  p("weight", weight, config.init(weight.shape()))("bias", bias, config.bias_init(weight.shape()));
}

Tensor Conv2d::operator()(const Tensor& x) const {
  return conv2d(x, weight, bias,
                {.stride = config.stride,
                 .dilation = config.dilation,
                 .pad = both_ends(config.pad),
                 .groups = config.groups});
}

}  // namespace neurim::nn
