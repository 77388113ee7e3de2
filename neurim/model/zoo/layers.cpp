#include "neurim/model/zoo/layers.h"

#include <algorithm>

#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/mul.h"

namespace neurim::zoo {

std::int64_t make_divisible(double channels, std::int64_t divisor) {
  const double half = static_cast<double>(divisor) / 2;
  const std::int64_t near = std::max(divisor, static_cast<std::int64_t>(channels + half) / divisor * divisor);
  return static_cast<double>(near) < 0.9 * channels ? near + divisor : near;
}

nn::Sequential conv_norm(std::int64_t in, std::int64_t out, const ConvNormOptions& options,
                         std::optional<nn::Layer> activation) {
  const nn::Size2d half{options.kernel[0] / 2, options.kernel[1] / 2};
  nn::Sequential layers;
  layers.add(nn::Conv2d(in, out,
                        {.kernel = options.kernel,
                         .stride = options.stride,
                         .pad = half,
                         .groups = options.groups,
                         .bias = false,
                         .init = options.init}));
  layers.add(nn::BatchNorm2d(out, options.norm));
  if (activation) layers.add(std::move(*activation));
  return layers;
}

SqueezeExcitation::SqueezeExcitation(std::int64_t channels, std::int64_t squeezed, nn::Layer act,
                                     nn::Layer scale, nn::InitRule bias_init)
    : fc1(channels, squeezed, {.kernel = 1, .init = nn::fan_out_normal, .bias_init = bias_init}),
      fc2(squeezed, channels, {.kernel = 1, .init = nn::fan_out_normal, .bias_init = bias_init}),
      activation(std::move(act)),
      gate(std::move(scale)) {}

Tensor SqueezeExcitation::operator()(const Tensor& x) const {
  return x * gate(fc2(activation(fc1(global_avg_pool2d(x)))));
}

}  // namespace neurim::zoo
