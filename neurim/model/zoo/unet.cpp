#include "neurim/model/zoo/unet.h"

#include <cmath>

#include "neurim/base/error.h"
#include "neurim/nn/activations.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/dropout.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/slice.h"

namespace neurim {

namespace {

/// The paper's, for ReLU: He et al., ICCV'15.
nn::Init by_inputs(const Shape& weight) { return nn::kaiming_normal(weight); }
/// The same for transposed 2x2 convolutions that do not overlap: each result has one place as its input.
nn::Init by_channels(const Shape& weight) { return nn::normal(0, std::sqrt(2 / static_cast<double>(weight[0]))); }

nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel, bool pad) {
  return {in, out, {.kernel = kernel, .pad = pad ? kernel / 2 : 0, .init = by_inputs, .bias_init = nn::zeros}};
}

nn::Sequential two(std::int64_t in, std::int64_t out, bool pad) {
  return {conv(in, out, 3, pad), nn::ReLU(), conv(out, out, 3, pad), nn::ReLU()};
}

/// Whether a side is even before each maximum, and something is left of it in the end.
bool fits(std::int64_t side, const UNet::Config& config) {
  const std::int64_t lost = config.pad ? 0 : 4;  // by two convolutions
  for (int level = 0; level < config.depth; ++level) {
    side -= lost;
    if (side <= 0 || side % 2 != 0) return false;
    side /= 2;
  }
  for (int level = 0; level < config.depth; ++level) {
    side = 2 * (side - lost);
    if (side <= 0) return false;
  }
  return side > lost;
}

std::int64_t fitting(std::int64_t side, const UNet::Config& config) {
  while (!fits(side, config)) ++side;
  return side;
}

/// The middle of x(N,C,H,W).
Tensor middle(const Tensor& x, std::int64_t height, std::int64_t width) {
  const std::int64_t top = (x.size(2) - height) / 2, left = (x.size(3) - width) / 2;
  return top || left ? slice(x, {top, left}, {top + height, left + width}, {2, 3}) : x;
}

}  // namespace

UNet::UNet(std::int64_t in_chans, std::int64_t num_classes) : UNet(in_chans, num_classes, Config{}) {}

UNet::UNet(std::int64_t in_chans, std::int64_t num_classes, const Config& c)
    : config(c), last(conv(c.channels, num_classes, 1, false)) {
  require(c.channels > 0 && c.depth >= 0 && c.depth < 16, "UNet: channels (", c.channels,
          ") must be 1 or more, depth (", c.depth, ") 0 to 15");
  std::int64_t channels = c.channels;
  down.push_back(two(in_chans, channels, c.pad));
  for (int level = 0; level < c.depth; ++level, channels *= 2) down.push_back(two(channels, 2 * channels, c.pad));
  for (int level = 0; level < c.depth; ++level, channels /= 2) {
    rise.emplace_back(channels, channels / 2,
                      nn::ConvTranspose2d::Config{.kernel = 2, .stride = 2, .init = by_channels});
    up.push_back(two(channels, channels / 2, c.pad));
  }
}

void UNet::parts(Parts& p) { p("down", down)("rise", rise)("up", up)("last", last); }

Tensor UNet::operator()(const Tensor& x) const {
  require(x.rank() == 4, "UNet: takes x(N,C,H,W), got ", x.shape());
  require(fits(x.size(2), config) && fits(x.size(3), config), "UNet: an image of ", x.size(2), 'x', x.size(3),
          " cannot be halved ", config.depth, " times; ", fitting(x.size(2), config), 'x', fitting(x.size(3), config),
          " can");
  Tensors levels;
  Tensor y = in_part("down.0", [&] { return down[0](x); });
  for (std::size_t level = 1; level < down.size(); ++level) {
    levels.push_back(y);
    y = down[level](max_pool2d(y));
  }
  y = dropout(y, config.dropout);
  for (std::size_t i = 0; i < up.size(); ++i) {
    const Tensor risen = rise[i](y), &before = levels[levels.size() - 1 - i];
    y = up[i](concat({middle(before, risen.size(2), risen.size(3)), risen}, 1));
  }
  return last(y);
}

}  // namespace neurim
