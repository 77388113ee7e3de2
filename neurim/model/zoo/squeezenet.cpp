// Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters and <0.5MB model size", 2016,
// as torchvision has it; 1.1 is the authors' cheaper version.
#include "neurim/model/zoo/entry.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/pool.h"
#include "neurim/nn/sequential.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/relu.h"

namespace neurim::zoo {

namespace {

nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  return {in,
          out,
          {.kernel = kernel,
           .stride = stride,
           .pad = pad,
           .init = [](const Shape& weight) { return nn::kaiming_uniform(weight); },
           .bias_init = nn::zeros}};
}

/// Squeezes to few channels, then expands by 1x1 and by 3x3 windows side by side.
struct Fire {
  Fire(std::int64_t in, std::int64_t squeezed, std::int64_t expanded)
      : squeeze(conv(in, squeezed, 1, 1, 0)),
        expand1x1(conv(squeezed, expanded, 1, 1, 0)),
        expand3x3(conv(squeezed, expanded, 3, 1, 1)) {}

  void parts(Parts& p) { p("squeeze", squeeze)("expand1x1", expand1x1)("expand3x3", expand3x3); }
  Tensor operator()(const Tensor& x) const {
    const Tensor few = relu(squeeze(x));
    return concat({relu(expand1x1(few)), relu(expand3x3(few))}, 1);
  }

  nn::Conv2d squeeze, expand1x1, expand3x3;
};

constexpr nn::MaxPool2d kPool{.kernel = 3, .stride = 2, .ceil_mode = true};

nn::Sequential features_1_0(std::int64_t in_chans) {
  return {conv(in_chans, 96, 7, 2, 0),
          nn::ReLU(),
          kPool,
          Fire(96, 16, 64),
          Fire(128, 16, 64),
          Fire(128, 32, 128),
          kPool,
          Fire(256, 32, 128),
          Fire(256, 48, 192),
          Fire(384, 48, 192),
          Fire(384, 64, 256),
          kPool,
          Fire(512, 64, 256)};
}

nn::Sequential features_1_1(std::int64_t in_chans) {
  return {conv(in_chans, 64, 3, 2, 0),
          nn::ReLU(),
          kPool,
          Fire(64, 16, 64),
          Fire(128, 16, 64),
          kPool,
          Fire(128, 32, 128),
          Fire(256, 32, 128),
          kPool,
          Fire(256, 48, 192),
          Fire(384, 48, 192),
          Fire(384, 64, 256),
          Fire(512, 64, 256)};
}

struct SqueezeNet {
  SqueezeNet(nn::Sequential body, const Options& o)
      : features(std::move(body)),
        classifier(
            nn::Dropout{o.dropout},
            nn::Conv2d(512, o.classes,
                       {.kernel = 1, .init = [](const Shape&) { return nn::normal(0, 0.01); }, .bias_init = nn::zeros}),
            nn::ReLU(), nn::GlobalAvgPool2d()) {}

  void parts(Parts& p) { p("features", features)("classifier", classifier); }
  Tensor operator()(const Tensor& x) const { return flatten(classifier(features(x))); }

  nn::Sequential features, classifier;
};

}  // namespace

Entries squeezenet_models() {
  return {{.name = "squeezenet1_0",
           .build = [](const Options& o) { return SqueezeNet(features_1_0(o.in_chans), o); },
           .dropout = 0.5},
          {.name = "squeezenet1_1",
           .build = [](const Options& o) { return SqueezeNet(features_1_1(o.in_chans), o); },
           .dropout = 0.5}};
}

}  // namespace neurim::zoo
