// Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", CVPR'18, as torchvision has it.
#include "neurim/model/zoo/entry.h"
#include "neurim/model/zoo/layers.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/add.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"

namespace neurim::zoo {

namespace {

struct InvertedResidual {
  InvertedResidual(std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t expansion)
      : residual(stride == 1 && in == out) {
    const std::int64_t wide = in * expansion;
    if (expansion != 1) conv.add(conv_norm(in, wide, {.kernel = 1}, nn::ReLU6()));
    conv.add(conv_norm(wide, wide, {.stride = stride, .groups = wide}, nn::ReLU6()));
    conv.add(nn::Conv2d(wide, out, {.kernel = 1, .bias = false, .init = nn::fan_out_normal}));
    conv.add(nn::BatchNorm2d(out));
  }

  void parts(Parts& p) { p("conv", conv); }
  Tensor operator()(const Tensor& x) const { return residual ? x + conv(x) : conv(x); }

  bool residual;
  nn::Sequential conv;
};

struct Stage {
  std::int64_t expansion, channels, depth, stride;
};
constexpr Stage kStages[]{{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                          {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

nn::Sequential features_of(std::int64_t in_chans) {
  nn::Sequential layers;
  layers.add(conv_norm(in_chans, 32, {.stride = 2}, nn::ReLU6()));
  std::int64_t in = 32;
  for (const Stage& s : kStages)
    for (int i = 0; i < s.depth; ++i) {
      layers.add(InvertedResidual(in, s.channels, i == 0 ? s.stride : 1, s.expansion));
      in = s.channels;
    }
  return layers.add(conv_norm(in, 1280, {.kernel = 1}, nn::ReLU6()));
}

struct MobileNetV2 {
  explicit MobileNetV2(const Options& o)
      : features(features_of(o.in_chans)),
        classifier(nn::Dropout{o.dropout},
                   nn::Linear(1280, o.classes,
                              {.init = [](const Shape&) { return nn::normal(0, 0.01); }, .bias_init = nn::zeros})) {}

  void parts(Parts& p) { p("features", features)("classifier", classifier); }
  Tensor operator()(const Tensor& x) const { return classifier(flatten(global_avg_pool2d(features(x)))); }

  nn::Sequential features, classifier;
};

Renames timm_names() {
  Renames names{{"features.0.0", "conv_stem"}, {"features.0.1", "bn1"}, {"classifier.1", "classifier"}};
  int layer = 1;
  for (std::size_t s = 0; s < std::size(kStages); ++s)
    for (int i = 0; i < kStages[s].depth; ++i) {
      const std::string block = text("features.", layer++, ".conv"), there = text("blocks.", s, '.', i);
      if (kStages[s].expansion == 1)
        add_inverted_residual(names, block, there, {"0.0", "0.1", "1", "2"});
      else
        add_inverted_residual(names, block, there, {"0.0", "0.1", "1.0", "1.1", "2", "3"});
    }
  names[text("features.", layer, ".0")] = "conv_head";
  names[text("features.", layer, ".1")] = "bn2";
  return names;
}

}  // namespace

Entries mobilenet_v2_models() {
  const Entry entry{.name = "mobilenet_v2",
                    .build = [](const Options& o) { return MobileNetV2(o); },
                    .dropout = 0.2,
                    .other_names = timm_names};
  return {entry, timm(entry, "mobilenetv2_100")};
}

}  // namespace neurim::zoo
