#include "neurim/model/zoo/layers.h"

#include <algorithm>

#include "neurim/ops/avg_pool2d.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mul.h"

namespace neurim::zoo {

namespace {

/// (size,in): row i holds the weights of window i of an axis.
Tensor window_means(std::int64_t size, std::int64_t in, const Tensor& like) {
  std::vector<float> weights(static_cast<std::size_t>(size * in));
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t begin = i * in / size, end = ((i + 1) * in + size - 1) / size;
    std::fill(weights.begin() + i * in + begin, weights.begin() + i * in + end,
              1.0f / static_cast<float>(end - begin));
  }
  return cast(Tensor::from({size, in}, weights, like.device()), like.dtype());
}

}  // namespace

std::int64_t make_divisible(double channels, std::int64_t divisor) {
  const double half = static_cast<double>(divisor) / 2;
  const std::int64_t near = std::max(divisor, static_cast<std::int64_t>(channels + half) / divisor * divisor);
  return static_cast<double>(near) < 0.9 * channels ? near + divisor : near;
}

nn::Sequential conv_norm(std::int64_t in, std::int64_t out, const ConvNormOptions& options,
                         std::optional<nn::Layer> activation) {
  const nn::Size2d half{options.kernel.height / 2, options.kernel.width / 2};
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

Tensor adaptive_avg_pool2d(const Tensor& x, std::int64_t size) {
  const std::int64_t height = x.size(2), width = x.size(3);
  if (height == size && width == size) return x;
  if (height % size == 0 && width % size == 0)
    return avg_pool2d(x, {.kernel = {height / size, width / size}});
  return matmul(matmul(window_means(size, height, x), x), window_means(size, width, x), false, true);
}

}  // namespace neurim::zoo
