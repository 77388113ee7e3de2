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
#include "neurim/ops/reshape.h"
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
          {.kernel = kernel, .stride = stride, .pad = pad, .groups = groups, .init = fiftieth, .bias_init = nn::zeros}};
}

nn::Linear dense(std::int64_t in, std::int64_t out) { return {in, out, {.init = fiftieth, .bias_init = nn::zeros}}; }

struct Config {
  std::int64_t channels;  ///< of the first stage; each one doubles them
  std::array<int, 4> depths;
  bool flat_scale = false;  ///< timm's layer_scale is (C), torchvision's (C,1,1)
};

struct Block {
  Block(std::int64_t channels, bool flat_scale, double drop_rate)
      : layer_scale(nn::parameter(flat_scale ? Shape{channels} : Shape{channels, 1, 1}, nn::constant(kLayerScale))),
        block(conv(channels, channels, 7, 1, 3, channels), &channels_last, layer_norm(channels),
              dense(channels, 4 * channels), nn::GELU(), dense(4 * channels, channels), &channels_first),
        rate(drop_rate) {}

  void parts(Parts& p) { p("layer_scale", layer_scale, nn::constant(kLayerScale))("block", block); }
  Tensor operator()(const Tensor& x) const {
    const Tensor scale = reshape(layer_scale, {layer_scale.numel(), 1, 1});
    return drop_path(scale * block(x), rate) + x;
  }

  Tensor layer_scale;
  nn::Sequential block;
  double rate;
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
    for (int i = 0; i < depth; ++i) {
      const double rate = o.drop_path * before++ / (blocks - 1);
      stage.add(Block(channels, config.flat_scale, rate));
    }
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

Renames timm_names(const Config& config) {
  Renames names{{"features.0", "stem"}, {"classifier.0", "head.norm"}, {"classifier.2", "head.fc"}};
  for (std::size_t s = 0; s < config.depths.size(); ++s) {
    const std::string stage = text("stages.", s);
    if (s > 0) names[text("features.", 2 * s)] = stage + ".downsample";
    for (int i = 0; i < config.depths[s]; ++i) {
      const std::string block = text("features.", 2 * s + 1, '.', i), there = text(stage, ".blocks.", i);
      names[block + ".layer_scale"] = there + ".gamma";
      names[block + ".block.0"] = there + ".conv_dw";
      names[block + ".block.2"] = there + ".norm";
      names[block + ".block.3"] = there + ".mlp.fc1";
      names[block + ".block.5"] = there + ".mlp.fc2";
    }
  }
  return names;
}

Entry convnext(std::string name, const Config& config, double drop_path) {
  return {.name = std::move(name),
          .build = [=](const Options& o) { return ConvNeXt(config, o); },
          .drop_path = drop_path,
          .other_names = [=] { return timm_names(config); }};
}

}  // namespace

Entries convnext_models() {
  Entries entries;
  const auto add = [&](const char* name, Config config, double drop_path) {
    entries.push_back(convnext(name, config, drop_path));
    config.flat_scale = true;
    entries.push_back(timm(convnext(name, config, drop_path), name));
  };
  add("convnext_tiny", {96, {3, 3, 9, 3}}, 0.1);
  add("convnext_small", {96, {3, 3, 27, 3}}, 0.4);
  add("convnext_base", {128, {3, 3, 27, 3}}, 0.5);
  add("convnext_large", {192, {3, 3, 27, 3}}, 0.5);
  return entries;
}

}  // namespace neurim::zoo
