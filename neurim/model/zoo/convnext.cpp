// Liu et al., "A ConvNet for the 2020s", CVPR'22, as torchvision has it.
#include "neurim/model/zoo/entry.h"
#include "neurim/model/zoo/layers.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/norm.h"
#include "neurim/ops/add.h"
#include "neurim/ops/dropout.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/transpose.h"

namespace neurim::zoo {

namespace {

constexpr double kLayerScale = 1e-6;

nn::Init fiftieth(const Shape&) { return nn::trunc_normal(0, 0.02); }

/// x(N,C,H,W) -> (N,H,W,C), for layers that work on the last axis, and back.
Tensor channels_last(const Tensor& x) { return transpose(x, {0, 2, 3, 1}); }
Tensor channels_first(const Tensor& x) { return transpose(x, {0, 3, 1, 2}); }

nn::LayerNorm layer_norm(std::int64_t channels) { return {{channels}, {.eps = 1e-6}}; }

/// Over the channels of each pixel of x(N,C,H,W).
struct LayerNorm2d {
  explicit LayerNorm2d(std::int64_t channels) : norm(layer_norm(channels)) {}
  void parts(Parts& p) { norm.parts(p); }
  Tensor operator()(const Tensor& x) const { return channels_first(norm(channels_last(x))); }

  nn::LayerNorm norm;
};

nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                std::int64_t groups) {
  return {in,
          out,
          {.kernel = kernel,
           .stride = stride,
           .pad = pad,
           .groups = groups,
           .init = fiftieth,
           .bias_init = nn::zeros}};
}

nn::Linear dense(std::int64_t in, std::int64_t out) {
  return {in, out, {.init = fiftieth, .bias_init = nn::zeros}};
}

struct Block {
  Block(std::int64_t channels, double drop_rate)
      : layer_scale(nn::parameter({channels, 1, 1}, nn::constant(kLayerScale))),
        block(conv(channels, channels, 7, 1, 3, channels), &channels_last,
              layer_norm(channels), dense(channels, 4 * channels), nn::GELU(),
              dense(4 * channels, channels), &channels_first),
        rate(drop_rate) {}

  void parts(Parts& p) { p("layer_scale", layer_scale, nn::constant(kLayerScale))("block", block); }
  Tensor operator()(const Tensor& x) const { return drop_path(layer_scale * block(x), rate) + x; }

  Tensor layer_scale;
  nn::Sequential block;
  double rate;
};

struct Config {
  std::int64_t channels;  ///< of the first stage; each one doubles them
  std::array<int, 4> depths;
};

nn::Sequential features_of(const Config& config, const Options& o) {
  int blocks = 0, before = 0;
  for (const int depth : config.depths) blocks += depth;
  nn::Sequential layers;
  std::int64_t channels = config.channels;
  layers.add(nn::Sequential(conv(o.in_chans, channels, 4, 4, 0, 1), LayerNorm2d(channels)));
  for (const int depth : config.depths) {
    if (before > 0) {
      layers.add(nn::Sequential(LayerNorm2d(channels), conv(channels, 2 * channels, 2, 2, 0, 1)));
      channels *= 2;
    }
    nn::Sequential stage;
    for (int i = 0; i < depth; ++i) stage.add(Block(channels, o.drop_path * before++ / (blocks - 1)));
    layers.add(std::move(stage));
  }
  return layers;
}

struct ConvNeXt {
  ConvNeXt(const Config& config, const Options& o)
      : features(features_of(config, o)),
        classifier(LayerNorm2d(8 * config.channels), nn::Flatten(), dense(8 * config.channels, o.classes)) {}

  void parts(Parts& p) { p("features", features)("classifier", classifier); }
  Tensor operator()(const Tensor& x) const { return classifier(global_avg_pool2d(features(x))); }

  nn::Sequential features, classifier;
};

Entry convnext(std::string name, const Config& config, double drop_path) {
  return {.name = std::move(name),
          .build = [=](const Options& o) { return ConvNeXt(config, o); },
          .drop_path = drop_path};
}

}  // namespace

Entries convnext_models() {
  return {convnext("convnext_tiny", {96, {3, 3, 9, 3}}, 0.1),
          convnext("convnext_small", {96, {3, 3, 27, 3}}, 0.4),
          convnext("convnext_base", {128, {3, 3, 27, 3}}, 0.5),
          convnext("convnext_large", {192, {3, 3, 27, 3}}, 0.5)};
}

}  // namespace neurim::zoo
