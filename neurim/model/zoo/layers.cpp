#include "neurim/model/zoo/layers.h"

#include <algorithm>

#include "neurim/ops/conv.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/mul.h"

namespace neurim::zoo {

namespace {

/// A convolution whose padding follows from the size of the image.
struct SameConv2d {
  void parts(Parts& p) { conv.parts(p); }
  Tensor operator()(const Tensor& x) const {
    const auto& config = conv.config;
    Conv2dOptions options{.stride = config.stride, .groups = config.groups};
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const std::int64_t size = x.size(static_cast<int>(axis) + 2), stride = config.stride[axis];
      const std::int64_t last = (size - 1) / stride * stride;  // the last window's begin, were all at the end
      const std::int64_t total = std::max<std::int64_t>(0, last + config.kernel[axis] - size);
      options.pad[axis] = total / 2;
      options.pad[axis + 2] = total - total / 2;
    }
    return conv2d(x, conv.weight, conv.bias, options);
  }

  nn::Conv2d conv;
};

}  // namespace

std::int64_t make_divisible(double channels, std::int64_t divisor) {
  const double half = static_cast<double>(divisor) / 2;
  const std::int64_t near = std::max(divisor, static_cast<std::int64_t>(channels + half) / divisor * divisor);
  return static_cast<double>(near) < 0.9 * channels ? near + divisor : near;
}

nn::Sequential conv_norm(std::int64_t in, std::int64_t out, const ConvNormOptions& options,
                         std::optional<nn::Layer> activation) {
  const nn::Size2d half{options.kernel[0] / 2, options.kernel[1] / 2};
  nn::Conv2d conv(in, out,
                  {.kernel = options.kernel,
                   .stride = options.stride,
                   .pad = half,
                   .groups = options.groups,
                   .bias = false,
                   .init = options.init});
  nn::Sequential layers;
  if (options.same)
    layers.add(SameConv2d{std::move(conv)});
  else
    layers.add(std::move(conv));
  layers.add(nn::BatchNorm2d(out, options.norm));
  if (activation) layers.add(std::move(*activation));
  return layers;
}

SqueezeExcitation::SqueezeExcitation(std::int64_t channels, std::int64_t squeezed, nn::Layer act, nn::Layer scale,
                                     nn::InitRule bias_init)
    : fc1(channels, squeezed, {.kernel = 1, .init = nn::fan_out_normal, .bias_init = bias_init}),
      fc2(squeezed, channels, {.kernel = 1, .init = nn::fan_out_normal, .bias_init = bias_init}),
      activation(std::move(act)),
      gate(std::move(scale)) {}

Tensor SqueezeExcitation::operator()(const Tensor& x) const {
  return x * gate(fc2(activation(fc1(global_avg_pool2d(x)))));
}

}  // namespace neurim::zoo
