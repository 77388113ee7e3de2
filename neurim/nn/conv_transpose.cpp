#include "neurim/nn/conv_transpose.h"

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/ops/conv_transpose.h"

namespace neurim::nn {

template <std::size_t N>
ConvTranspose<N>::ConvTranspose(std::int64_t in, std::int64_t out) : ConvTranspose(in, out, Config{}) {}

template <std::size_t N>
ConvTranspose<N>::ConvTranspose(std::int64_t in, std::int64_t out, const Config& c) : config(c) {
  const std::string who = text("ConvTranspose", N, "d");
  const auto& kernel = c.kernel.each;
  require(in > 0 && out > 0 && c.groups > 0 && *std::min_element(kernel.begin(), kernel.end()) > 0, who, ": channels (",
          in, " to ", out, "), groups (", c.groups, ") and kernel ", Shape(kernel), " must be 1 or more");
  require(in % c.groups == 0 && out % c.groups == 0, who, ": ", c.groups, " groups do not fit: ", in, " input and ",
          out, " output channels must both be multiples of groups");
  Shape shape{in, out / c.groups};
  for (const std::int64_t size : kernel) shape.push_back(size);
  weight = parameter(shape, c.init(shape));
  if (c.bias) bias = parameter({out}, fan_in_uniform(shape));
}

template <std::size_t N>
void ConvTranspose<N>::parts(Parts& p) {
  p("weight", weight, config.init(weight.shape()))("bias", bias, fan_in_uniform(weight.shape()));
}

template <std::size_t N>
Tensor ConvTranspose<N>::operator()(const Tensor& x) const {
  return conv_transpose(x, weight, bias,
                        ConvTransposeOptions<N>{.stride = config.stride,
                                                .dilation = config.dilation,
                                                .pad = both_ends(config.pad),
                                                .output_padding = config.output_padding,
                                                .groups = config.groups});
}

template struct ConvTranspose<1>;
template struct ConvTranspose<2>;
template struct ConvTranspose<3>;

}  // namespace neurim::nn
