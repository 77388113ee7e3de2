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

/// TensorFlow's 0.9997, said the other way round.
constexpr nn::BatchNorm2d::Config kNorm{.momentum = 3e-4};

/// Adds a convolution and its batch norm to a flat list.
void add(nn::Sequential& layers, std::int64_t in, std::int64_t out, std::int64_t kernel,
         std::int64_t stride = 1, std::int64_t groups = 1) {
  layers.add(nn::Conv2d(in, out,
                        {.kernel = kernel,
                         .stride = stride,
                         .pad = kernel / 2,
                         .groups = groups,
                         .bias = false,
                         .init = nn::fan_out_normal}));
  layers.add(nn::BatchNorm2d(out, kNorm));
}

struct InvertedResidual {
  InvertedResidual(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                   std::int64_t expansion)
      : residual(stride == 1 && in == out) {
    const std::int64_t wide = in * expansion;
    add(layers, in, wide, 1);
    layers.add(nn::ReLU());
    add(layers, wide, wide, kernel, stride, wide);
    layers.add(nn::ReLU());
    add(layers, wide, out, 1);
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

nn::Sequential stack(std::int64_t in, std::int64_t out, const Stage& s) {
  nn::Sequential layers;
  layers.add(InvertedResidual(in, out, s.kernel, s.stride, s.expansion));
  for (int i = 1; i < s.depth; ++i) layers.add(InvertedResidual(out, out, s.kernel, 1, s.expansion));
  return layers;
}

nn::Sequential layers_of(double width, std::int64_t in_chans) {
  const auto scaled = [&](std::int64_t channels) {
    return make_divisible(width * static_cast<double>(channels), 8);
  };
  nn::Sequential layers;
  const std::int64_t stem = scaled(32);
  add(layers, in_chans, stem, 3, 2);
  layers.add(nn::ReLU());
  add(layers, stem, stem, 3, 1, stem);
  layers.add(nn::ReLU());
  std::int64_t in = scaled(16);
  add(layers, stem, in, 1);
  for (const Stage& s : {Stage{24, 3, 2, 3, 3}, Stage{40, 5, 2, 3, 3}, Stage{80, 5, 2, 6, 3},
                         Stage{96, 3, 1, 6, 2}, Stage{192, 5, 2, 6, 4}, Stage{320, 3, 1, 6, 1}}) {
    layers.add(stack(in, scaled(s.channels), s));
    in = scaled(s.channels);
  }
  add(layers, in, 1280, 1);
  return layers.add(nn::ReLU());
}

struct MnasNet {
  MnasNet(double width, const Options& o)
      : layers(layers_of(width, o.in_chans)),
        classifier(nn::Dropout{o.dropout},
                   nn::Linear(1280, o.classes,
                              {.init = [](const Shape& w) { return nn::kaiming_uniform(w, 1, nn::Fan::out); },
                               .bias_init = nn::zeros})) {}

  void parts(Parts& p) { p("layers", layers)("classifier", classifier); }
  Tensor operator()(const Tensor& x) const { return classifier(flatten(global_avg_pool2d(layers(x)))); }

  nn::Sequential layers, classifier;
};

}  // namespace

Entries mnasnet_models() {
  Entries entries;
  for (const auto& [name, width] :
       {std::pair{"mnasnet0_5", 0.5}, {"mnasnet0_75", 0.75}, {"mnasnet1_0", 1.0}, {"mnasnet1_3", 1.3}})
    entries.push_back({.name = name,
                       .build = [width = width](const Options& o) { return MnasNet(width, o); },
                       .dropout = 0.2});
  return entries;
}

}  // namespace neurim::zoo
