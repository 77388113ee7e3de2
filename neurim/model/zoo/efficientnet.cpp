// Tan and Le, "EfficientNet: rethinking model scaling for convolutional neural networks", ICML'19, and
// "EfficientNetV2: smaller models and faster training", ICML'21, as torchvision has them, and as timm has
// them: all with the usual batch norm, or ("tf_…") padded and normalised as in the authors' code.
#include <cmath>

#include "neurim/model/zoo/entry.h"
#include "neurim/model/zoo/layers.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/add.h"
#include "neurim/ops/dropout.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"

namespace neurim::zoo {

namespace {

/// `fused`: one convolution expands in place of a 1x1 and a depthwise one.
struct Stage {
  bool fused;
  double expansion;
  std::int64_t kernel, stride, in, out;
  int depth;
};

struct Config {
  std::vector<Stage> stages;
  std::int64_t last;  ///< channels before the classifier
  nn::BatchNorm2d::Config norm;
  bool same = false;  ///< how convolutions are padded: see ConvNormOptions
};

struct Block {
  Block(const Stage& s, std::int64_t in, std::int64_t stride, const Config& config, double drop_rate)
      : residual(stride == 1 && in == s.out), rate(drop_rate) {
    const nn::BatchNorm2d::Config& norm = config.norm;
    const std::int64_t wide = make_divisible(static_cast<double>(in) * s.expansion, 8);
    if (s.fused) {
      block.add(
          conv_norm(in, wide, {.kernel = s.kernel, .stride = stride, .norm = norm, .same = config.same}, nn::SiLU()));
      if (wide == in) return;
    } else {
      if (wide != in) block.add(conv_norm(in, wide, {.kernel = 1, .norm = norm}, nn::SiLU()));
      const ConvNormOptions depthwise{
          .kernel = s.kernel, .stride = stride, .groups = wide, .norm = norm, .same = config.same};
      block.add(conv_norm(wide, wide, depthwise, nn::SiLU()));
      block.add(SqueezeExcitation(wide, std::max<std::int64_t>(1, in / 4), nn::SiLU(), nn::Sigmoid(), nn::zeros));
    }
    block.add(conv_norm(wide, s.out, {.kernel = 1, .norm = norm}));
  }

  void parts(Parts& p) { p("block", block); }
  Tensor operator()(const Tensor& x) const { return residual ? drop_path(block(x), rate) + x : block(x); }

  bool residual;
  double rate;
  nn::Sequential block;
};

nn::Sequential features_of(const Config& config, const Options& o) {
  int blocks = 0, before = 0;
  for (const Stage& s : config.stages) blocks += s.depth;
  nn::Sequential layers;
  layers.add(conv_norm(o.in_chans, config.stages.front().in, {.stride = 2, .norm = config.norm, .same = config.same},
                       nn::SiLU()));
  for (const Stage& s : config.stages) {
    nn::Sequential stage;
    for (int i = 0; i < s.depth; ++i) {
      const double rate = o.drop_path * before++ / blocks;
      stage.add(i == 0 ? Block(s, s.in, s.stride, config, rate) : Block(s, s.out, 1, config, rate));
    }
    layers.add(std::move(stage));
  }
  return layers.add(conv_norm(config.stages.back().out, config.last, {.kernel = 1, .norm = config.norm}, nn::SiLU()));
}

nn::Init by_outputs(const Shape& weight) {
  const double bound = 1 / std::sqrt(static_cast<double>(weight[0]));
  return nn::uniform(-bound, bound);
}

struct EfficientNet {
  EfficientNet(const Config& config, const Options& o)
      : features(features_of(config, o)),
        classifier(nn::Dropout{o.dropout},
                   nn::Linear(config.last, o.classes, {.init = by_outputs, .bias_init = nn::zeros})) {}

  void parts(Parts& p) { p("features", features)("classifier", classifier); }
  Tensor operator()(const Tensor& x) const { return classifier(flatten(global_avg_pool2d(features(x)))); }

  nn::Sequential features, classifier;
};

Renames timm_names(const Config& config) {
  const std::size_t last = config.stages.size() + 1;
  Renames names{{"features.0.0", "conv_stem"},
                {"features.0.1", "bn1"},
                {text("features.", last, ".0"), "conv_head"},
                {text("features.", last, ".1"), "bn2"},
                {"classifier.1", "classifier"}};
  for (std::size_t s = 0; s + 1 < last; ++s)
    for (int i = 0; i < config.stages[s].depth; ++i) {
      const Stage& stage = config.stages[s];
      const std::string block = text("features.", s + 1, '.', i, ".block"), there = text("blocks.", s, '.', i);
      const bool expands = stage.expansion != 1;
      if (!stage.fused && expands) {
        add_inverted_residual(names, block, there, {"0.0", "0.1", "1.0", "1.1", "3.0", "3.1"}, "2");
      } else if (!stage.fused) {
        add_inverted_residual(names, block, there, {"0.0", "0.1", "2.0", "2.1"}, "1");
      } else {
        names[block + ".0.0"] = there + (expands ? ".conv_exp" : ".conv");
        names[block + ".0.1"] = there + ".bn1";
        if (!expands) continue;
        names[block + ".1.0"] = there + ".conv_pwl";
        names[block + ".1.1"] = there + ".bn2";
      }
    }
  return names;
}

/// B0 scaled in width and depth.
Config scaled(double width, double depth, const nn::BatchNorm2d::Config& norm) {
  Config config{{{false, 1, 3, 1, 32, 16, 1},
                 {false, 6, 3, 2, 16, 24, 2},
                 {false, 6, 5, 2, 24, 40, 2},
                 {false, 6, 3, 2, 40, 80, 3},
                 {false, 6, 5, 1, 80, 112, 3},
                 {false, 6, 5, 2, 112, 192, 4},
                 {false, 6, 3, 1, 192, 320, 1}},
                0,
                norm};
  for (Stage& s : config.stages) {
    s.in = make_divisible(width * static_cast<double>(s.in), 8);
    s.out = make_divisible(width * static_cast<double>(s.out), 8);
    s.depth = static_cast<int>(std::ceil(depth * s.depth));
  }
  config.last = 4 * config.stages.back().out;
  return config;
}

Entry efficientnet(std::string name, const Config& config, std::int64_t image_size, double dropout) {
  return {.name = std::move(name),
          .build = [config](const Options& o) { return EfficientNet(config, o); },
          .image_size = image_size,
          .dropout = dropout,
          .drop_path = 0.2,
          .other_names = [config] { return timm_names(config); }};
}

}  // namespace

Entries efficientnet_models() {
  const nn::BatchNorm2d::Config usual, slow{.momentum = 0.01, .eps = 1e-3}, v2{.eps = 1e-3};
  const Config small{{{true, 1, 3, 1, 24, 24, 2},
                      {true, 4, 3, 2, 24, 48, 4},
                      {true, 4, 3, 2, 48, 64, 4},
                      {false, 4, 3, 2, 64, 128, 6},
                      {false, 6, 3, 1, 128, 160, 9},
                      {false, 6, 3, 2, 160, 256, 15}},
                     1280,
                     v2};
  const Config medium{{{true, 1, 3, 1, 24, 24, 3},
                       {true, 4, 3, 2, 24, 48, 5},
                       {true, 4, 3, 2, 48, 80, 5},
                       {false, 4, 3, 2, 80, 160, 7},
                       {false, 6, 3, 1, 160, 176, 14},
                       {false, 6, 3, 2, 176, 304, 18},
                       {false, 6, 3, 1, 304, 512, 5}},
                      1280,
                      v2};
  const Config large{{{true, 1, 3, 1, 32, 32, 4},
                      {true, 4, 3, 2, 32, 64, 7},
                      {true, 4, 3, 2, 64, 96, 7},
                      {false, 4, 3, 2, 96, 192, 10},
                      {false, 6, 3, 1, 192, 224, 19},
                      {false, 6, 3, 2, 224, 384, 25},
                      {false, 6, 3, 1, 384, 640, 7}},
                     1280,
                     v2};
  Entries entries{efficientnet("efficientnet_b0", scaled(1.0, 1.0, usual), 224, 0.2),
                  efficientnet("efficientnet_b1", scaled(1.0, 1.1, usual), 240, 0.2),
                  efficientnet("efficientnet_b2", scaled(1.1, 1.2, usual), 288, 0.3),
                  efficientnet("efficientnet_b3", scaled(1.2, 1.4, usual), 300, 0.3),
                  efficientnet("efficientnet_b4", scaled(1.4, 1.8, usual), 380, 0.4),
                  efficientnet("efficientnet_b5", scaled(1.6, 2.2, slow), 456, 0.4),
                  efficientnet("efficientnet_b6", scaled(1.8, 2.6, slow), 528, 0.5),
                  efficientnet("efficientnet_b7", scaled(2.0, 3.1, slow), 600, 0.5),
                  efficientnet("efficientnet_v2_s", small, 384, 0.2),
                  efficientnet("efficientnet_v2_m", medium, 480, 0.3),
                  efficientnet("efficientnet_v2_l", large, 480, 0.4)};
  const auto halves = [&] { entries.back().mean = entries.back().std = {0.5, 0.5, 0.5}; };
  halves();
  const auto of_timm = [&](std::string_view name, Config config, std::int64_t image_size, double dropout) {
    config.same = starts_with(name, "tf_");
    config.norm = config.same ? v2 : usual;
    entries.push_back(timm(efficientnet("", config, image_size, dropout), name));
  };
  of_timm("efficientnet_b0", scaled(1.0, 1.0, usual), 224, 0.2);
  of_timm("efficientnet_b1", scaled(1.0, 1.1, usual), 240, 0.2);
  halves();
  of_timm("efficientnet_b2", scaled(1.1, 1.2, usual), 256, 0.3);
  of_timm("efficientnet_b3", scaled(1.2, 1.4, usual), 288, 0.3);
  of_timm("efficientnet_b4", scaled(1.4, 1.8, usual), 320, 0.4);
  of_timm("efficientnet_b5", scaled(1.6, 2.2, usual), 448, 0.4);
  of_timm("efficientnet_b6", scaled(1.8, 2.6, usual), 528, 0.5);
  of_timm("efficientnet_b7", scaled(2.0, 3.1, usual), 600, 0.5);
  of_timm("efficientnetv2_s", small, 288, 0.2);
  of_timm("efficientnetv2_m", medium, 320, 0.3);
  of_timm("efficientnetv2_l", large, 384, 0.4);
  of_timm("tf_efficientnet_b0", scaled(1.0, 1.0, usual), 224, 0.2);
  of_timm("tf_efficientnet_b1", scaled(1.0, 1.1, usual), 240, 0.2);
  of_timm("tf_efficientnet_b2", scaled(1.1, 1.2, usual), 260, 0.3);
  of_timm("tf_efficientnet_b3", scaled(1.2, 1.4, usual), 300, 0.3);
  of_timm("tf_efficientnet_b4", scaled(1.4, 1.8, usual), 380, 0.4);
  of_timm("tf_efficientnet_b5", scaled(1.6, 2.2, usual), 456, 0.4);
  of_timm("tf_efficientnet_b6", scaled(1.8, 2.6, usual), 528, 0.5);
  of_timm("tf_efficientnet_b7", scaled(2.0, 3.1, usual), 600, 0.5);
  of_timm("tf_efficientnetv2_s", small, 300, 0.2);
  halves();
  of_timm("tf_efficientnetv2_m", medium, 384, 0.3);
  halves();
  of_timm("tf_efficientnetv2_l", large, 384, 0.4);
  halves();
  return entries;
}

}  // namespace neurim::zoo
