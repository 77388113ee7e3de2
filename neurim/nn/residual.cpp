#include "neurim/nn/residual.h"

#include "neurim/ops/add.h"
#include "neurim/ops/relu.h"

namespace neurim::nn {

namespace {

Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t groups = 1) {
  return {in, out, {.kernel = 3, .stride = stride, .pad = 1, .groups = groups, .bias = false, .init = fan_out_normal}};
}

Conv2d conv1x1(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return {in, out, {.kernel = 1, .stride = stride, .bias = false, .init = fan_out_normal}};
}

Sequential shortcut(std::int64_t in, std::int64_t out, std::int64_t stride) {
  if (stride == 1 && in == out) return {};
  return {conv1x1(in, out, stride), BatchNorm2d(out)};
}

std::int64_t width(std::int64_t channels, const Bottleneck::Config& config) {
  return channels * config.base_width / 64 * config.groups;
}

}  // namespace

BasicBlock::BasicBlock(std::int64_t in, std::int64_t channels, std::int64_t stride)
    : conv1(conv3x3(in, channels, stride)),
      conv2(conv3x3(channels, channels, 1)),
      bn1(channels),
      bn2(channels),
      downsample(shortcut(in, channels, stride)) {}

void BasicBlock::parts(Parts& p) {
  p("conv1", conv1)("bn1", bn1)("conv2", conv2)("bn2", bn2)("downsample", downsample);
}

Tensor BasicBlock::operator()(const Tensor& x) const {
  const Tensor y = relu(bn1(conv1(x)));
  return relu(bn2(conv2(y)) + downsample(x));
}

Bottleneck::Bottleneck(std::int64_t in, std::int64_t channels, std::int64_t stride)
    : Bottleneck(in, channels, stride, Config{}) {}

Bottleneck::Bottleneck(std::int64_t in, std::int64_t channels, std::int64_t stride, const Config& c)
    : conv1(conv1x1(in, width(channels, c), 1)),
      conv2(conv3x3(width(channels, c), width(channels, c), stride, c.groups)),
      conv3(conv1x1(width(channels, c), channels * kExpansion, 1)),
      bn1(width(channels, c)),
      bn2(width(channels, c)),
      bn3(channels * kExpansion),
      downsample(shortcut(in, channels * kExpansion, stride)) {}

void Bottleneck::parts(Parts& p) {
  p("conv1", conv1)("bn1", bn1)("conv2", conv2)("bn2", bn2)("conv3", conv3)("bn3", bn3);
  p("downsample", downsample);
}

Tensor Bottleneck::operator()(const Tensor& x) const {
  const Tensor y = relu(bn2(conv2(relu(bn1(conv1(x))))));
  return relu(bn3(conv3(y)) + downsample(x));
}

}  // namespace neurim::nn
