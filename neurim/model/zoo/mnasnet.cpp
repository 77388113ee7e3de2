// Tan et al., "MnasNet: platform-aware neural architecture search for mobile", CVPR'19, the B1 network scaled
// in width, as torchvision has it.
#include "neurim/model/zoo/entry.h"
#include "neurim/model/zoo/layers.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/add.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"

namespace neurim::zoo {

namespace {

/// Adds a convolution and its batch norm to a flat list.
void add(nn::Sequential& layers, double momentum, std::int64_t in, std::int64_t out, std::int64_t kernel,
         std::int64_t stride = 1, std::int64_t groups = 1) {
  layers.add(nn::Conv2d(in, out,
                        {.kernel = kernel,
                         .stride = stride,
                         .pad = kernel / 2,
                         .groups = groups,
                         .bias = false,
                         .init = nn::fan_out_normal}));
  layers.add(nn::BatchNorm2d(out, {.momentum = momentum}));
}

struct InvertedResidual {
  InvertedResidual(double momentum, std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                   std::int64_t expansion)
      : residual(stride == 1 && in == out) {
    const std::int64_t wide = in * expansion;
    add(layers, momentum, in, wide, 1);
    layers.add(nn::ReLU());
    add(layers, momentum, wide, wide, kernel, stride, wide);
    layers.add(nn::ReLU());
    add(layers, momentum, wide, out, 1);
  }

  void parts(Parts& p) { p("layers", layers); }
  Tensor operator()(const Tensor& x) const { return residual ? layers(x) + x : layers(x); }

  bool residual;
  nn::Sequential layers;
};

struct Stage {
  std::int64_t channels, kernel, stride, expansion;
  int depth;
};

constexpr Stage kStages[]{{24, 3, 2, 3, 3}, {40, 5, 2, 3, 3},  {80, 5, 2, 6, 3},
                          {96, 3, 1, 6, 2}, {192, 5, 2, 6, 4}, {320, 3, 1, 6, 1}};

nn::Sequential stack(double momentum, std::int64_t in, std::int64_t out, const Stage& s) {
  nn::Sequential layers;
  layers.add(InvertedResidual(momentum, in, out, s.kernel, s.stride, s.expansion));
  for (int i = 1; i < s.depth; ++i) layers.add(InvertedResidual(momentum, out, out, s.kernel, 1, s.expansion));
  return layers;
}

nn::Sequential layers_of(double width, double momentum, std::int64_t in_chans) {
  const auto scaled = [&](std::int64_t channels) { return make_divisible(width * static_cast<double>(channels), 8); };
  nn::Sequential layers;
  const std::int64_t stem = scaled(32);
  add(layers, momentum, in_chans, stem, 3, 2);
  layers.add(nn::ReLU());
  add(layers, momentum, stem, stem, 3, 1, stem);
  layers.add(nn::ReLU());
  std::int64_t in = scaled(16);
  add(layers, momentum, stem, in, 1);
  for (const Stage& s : kStages) {
    layers.add(stack(momentum, in, scaled(s.channels), s));
    in = scaled(s.channels);
  }
  add(layers, momentum, in, 1280, 1);
  return layers.add(nn::ReLU());
}

struct MnasNet {
  MnasNet(double width, double momentum, const Options& o)
      : layers(layers_of(width, momentum, o.in_chans)),
        classifier(nn::Dropout{o.dropout},
                   nn::Linear(1280, o.classes,
                              {.init = [](const Shape& w) { return nn::kaiming_uniform(w, 1, nn::Fan::out); },
                               .bias_init = nn::zeros})) {}

  void parts(Parts& p) { p("layers", layers)("classifier", classifier); }
  Tensor operator()(const Tensor& x) const { return classifier(flatten(global_avg_pool2d(layers(x)))); }

  nn::Sequential layers, classifier;
};

Renames timm_names() {
  Renames names{{"layers.0", "conv_stem"}, {"layers.1", "bn1"}, {"classifier.1", "classifier"}};
  add_inverted_residual(names, "layers", "blocks.0.0", {"3", "4", "6", "7"});
  int layer = 8;
  for (std::size_t s = 0; s < std::size(kStages); ++s, ++layer)
    for (int i = 0; i < kStages[s].depth; ++i)
      add_inverted_residual(names, text("layers.", layer, '.', i, ".layers"), text("blocks.", s + 1, '.', i),
                            {"0", "1", "3", "4", "6", "7"});
  names[text("layers.", layer)] = "conv_head";
  names[text("layers.", layer + 1)] = "bn2";
  return names;
}

Entry mnasnet(std::string name, double width, double momentum) {
  return {.name = std::move(name),
          .build = [=](const Options& o) { return MnasNet(width, momentum, o); },
          .dropout = 0.2,
          .other_names = timm_names};
}

}  // namespace

Entries mnasnet_models() {
  constexpr double kSlow = 3e-4, kUsual = 0.1;  // the first is TensorFlow's 0.9997, said the other way round
  return {mnasnet("mnasnet0_5", 0.5, kSlow),
          mnasnet("mnasnet0_75", 0.75, kSlow),
          mnasnet("mnasnet1_0", 1.0, kSlow),
          mnasnet("mnasnet1_3", 1.3, kSlow),
          timm(mnasnet("", 0.5, kUsual), "mnasnet_050"),
          timm(mnasnet("", 0.75, kUsual), "mnasnet_075"),
          timm(mnasnet("", 1.0, kUsual), "mnasnet_100")};
}

}  // namespace neurim::zoo
