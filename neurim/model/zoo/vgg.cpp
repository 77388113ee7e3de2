// Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", ICLR'15, as
// torchvision has them, with and without batch norm, and as timm has them.
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
      layers.add(nn::Conv2d(in, channels, {.kernel = 3, .pad = 1, .init = nn::fan_out_normal, .bias_init = nn::zeros}));
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
        classifier(dense(512 * 7 * 7, 4096), nn::ReLU(), nn::Dropout{o.dropout}, dense(4096, 4096), nn::ReLU(),
                   nn::Dropout{o.dropout}, dense(4096, o.classes)) {}

  void parts(Parts& p) { p("features", features)("classifier", classifier); }
  Tensor operator()(const Tensor& x) const { return classifier(flatten(adaptive_avg_pool2d(features(x), {7, 7}))); }

  nn::Sequential features, classifier;
};

/// A linear layer as a convolution that slides over the image.
nn::Conv2d sliding(std::int64_t in, std::int64_t out, std::int64_t kernel) {
  return {in, out, {.kernel = kernel, .init = nn::fan_out_normal, .bias_init = nn::zeros}};
}

/// timm's: on images above 224x224 the classifier slides, and its features are averaged.
struct SlidingVgg {
  SlidingVgg(const Depths& depths, bool norm, const Options& o)
      : features(features_of(depths, norm, o.in_chans)),
        classifier(sliding(512, 4096, kWindow), nn::ReLU(), nn::Dropout{o.dropout}, sliding(4096, 4096, 1), nn::ReLU(),
                   nn::Sequential(nn::GlobalAvgPool2d(), nn::Flatten(), nn::Dropout{o.dropout}),
                   dense(4096, o.classes)) {}

  void parts(Parts& p) { p("features", features)("classifier", classifier); }
  Tensor operator()(const Tensor& x) const {
    const Tensor y = features(x);
    const std::int64_t height = std::max<std::int64_t>(kWindow, y.size(2)),
                       width = std::max<std::int64_t>(kWindow, y.size(3));
    return classifier(height > y.size(2) || width > y.size(3) ? adaptive_avg_pool2d(y, {height, width}) : y);
  }

  static constexpr std::int64_t kWindow = 7;
  nn::Sequential features, classifier;
};

Renames timm_names() {
  return {{"classifier.0", "pre_logits.fc1"}, {"classifier.3", "pre_logits.fc2"}, {"classifier.6", "head.fc"}};
}

template <class Net>
Entry vgg(const std::string& name, const Depths& depths, bool norm) {
  return {.name = norm ? name + "_bn" : name,
          .build = [=](const Options& o) { return Net(depths, norm, o); },
          .dropout = 0.5,
          .other_names = timm_names};
}

}  // namespace

Entries vgg_models() {
  Entries entries;
  for (const auto& [name, depths] : {std::pair<std::string, Depths>{"vgg11", {1, 1, 2, 2, 2}},
                                     {"vgg13", {2, 2, 2, 2, 2}},
                                     {"vgg16", {2, 2, 3, 3, 3}},
                                     {"vgg19", {2, 2, 4, 4, 4}}})
    for (const bool norm : {false, true}) {
      entries.push_back(vgg<Vgg>(name, depths, norm));
      entries.push_back(timm(vgg<SlidingVgg>(name, depths, norm), entries.back().name));
    }
  return entries;
}

}  // namespace neurim::zoo
