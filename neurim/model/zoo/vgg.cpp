// Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", ICLR'15, as
// torchvision has them, with and without batch norm.
#include "neurim/model/zoo/entry.h"
#include "neurim/model/zoo/layers.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/pool.h"
#include "neurim/ops/adaptive_pool.h"
#include "neurim/ops/flatten.h"

namespace neurim::zoo {

namespace {

/// How many convolutions of 64, 128, 256, 512 and 512 channels stand before each pooling.
using Depths = std::array<int, 5>;

nn::Sequential features_of(const Depths& depths, bool norm, std::int64_t in) {
  nn::Sequential layers;
  std::int64_t channels = 64;
  for (const int depth : depths) {
    for (int i = 0; i < depth; ++i) {
      layers.add(nn::Conv2d(in, channels,
                            {.kernel = 3, .pad = 1, .init = nn::fan_out_normal, .bias_init = nn::zeros}));
      if (norm) layers.add(nn::BatchNorm2d(channels));
      layers.add(nn::ReLU());
      in = channels;
    }
    layers.add(nn::MaxPool2d());
    channels = std::min<std::int64_t>(512, 2 * channels);
  }
  return layers;
}

nn::Linear dense(std::int64_t in, std::int64_t out) {
  return {in, out, {.init = [](const Shape&) { return nn::normal(0, 0.01); }, .bias_init = nn::zeros}};
}

struct Vgg {
  Vgg(const Depths& depths, bool norm, const Options& o)
      : features(features_of(depths, norm, o.in_chans)),
        classifier(dense(512 * 7 * 7, 4096), nn::ReLU(), nn::Dropout{o.dropout}, dense(4096, 4096),
                   nn::ReLU(), nn::Dropout{o.dropout}, dense(4096, o.classes)) {}

  void parts(Parts& p) { p("features", features)("classifier", classifier); }
  Tensor operator()(const Tensor& x) const {
    return classifier(flatten(adaptive_avg_pool2d(features(x), {7, 7})));
  }

  nn::Sequential features, classifier;
};

}  // namespace

Entries vgg_models() {
  Entries entries;
  for (const auto& [name, depths] : {std::pair<std::string, Depths>{"vgg11", {1, 1, 2, 2, 2}},
                                     {"vgg13", {2, 2, 2, 2, 2}},
                                     {"vgg16", {2, 2, 3, 3, 3}},
                                     {"vgg19", {2, 2, 4, 4, 4}}})
    for (const bool norm : {false, true})
      entries.push_back({.name = norm ? name + "_bn" : name,
                         .build = [=](const Options& o) { return Vgg(depths, norm, o); },
                         .dropout = 0.5});
  return entries;
}

}  // namespace neurim::zoo
