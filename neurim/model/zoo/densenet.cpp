// Huang et al., "Densely connected convolutional networks", CVPR'17, as torchvision has them (DenseNet-BC).
#include "neurim/base/text.h"
#include "neurim/model/zoo/entry.h"
#include "neurim/nn/batch_norm2d.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/relu.h"

namespace neurim::zoo {

namespace {

nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1) {
  return {
      in, out, {.kernel = kernel, .stride = stride, .pad = kernel / 2, .bias = false, .init = [](const Shape& weight) {
                  return nn::kaiming_normal(weight);
                }}};
}

/// Adds `growth` channels to all that came before it in the block.
struct DenseLayer {
  DenseLayer(std::int64_t in, std::int64_t growth)
      : norm1(in), norm2(4 * growth), conv1(conv(in, 4 * growth, 1)), conv2(conv(4 * growth, growth, 3)) {}

  void parts(Parts& p) { p("norm1", norm1)("conv1", conv1)("norm2", norm2)("conv2", conv2); }
  Tensor operator()(const Tensor& x) const { return conv2(relu(norm2(conv1(relu(norm1(x)))))); }

  nn::BatchNorm2d norm1, norm2;
  nn::Conv2d conv1, conv2;
};

struct DenseBlock {
  DenseBlock(int depth, std::int64_t in, std::int64_t growth) {
    for (int i = 0; i < depth; ++i) layers.emplace_back(in + i * growth, growth);
  }

  void parts(Parts& p) {
    for (std::size_t i = 0; i < layers.size(); ++i) p(text("denselayer", i + 1), layers[i]);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor all = x;
    for (const DenseLayer& layer : layers) all = concat({all, layer(all)}, 1);
    return all;
  }

  std::vector<DenseLayer> layers;
};

/// Halves the channels and the image.
struct Transition {
  explicit Transition(std::int64_t in) : norm(in), conv(zoo::conv(in, in / 2, 1)) {}

  void parts(Parts& p) { p("norm", norm)("conv", conv); }
  Tensor operator()(const Tensor& x) const { return avg_pool2d(conv(relu(norm(x)))); }

  nn::BatchNorm2d norm;
  nn::Conv2d conv;
};

struct Config {
  std::int64_t stem, growth;
  std::array<int, 4> depths;
};

struct Features {
  Features(const Config& config, std::int64_t in_chans)
      : conv0(conv(in_chans, config.stem, 7, 2)), norm0(config.stem), norm5(config.stem) {
    std::int64_t channels = config.stem;
    for (const int depth : config.depths) {
      if (!blocks.empty()) {
        transitions.emplace_back(channels);
        channels /= 2;
      }
      blocks.emplace_back(depth, channels, config.growth);
      channels += depth * config.growth;
    }
    norm5 = nn::BatchNorm2d(channels);
  }

  void parts(Parts& p) {
    p("conv0", conv0)("norm0", norm0);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      p(text("denseblock", i + 1), blocks[i]);
      if (i < transitions.size()) p(text("transition", i + 1), transitions[i]);
    }
    p("norm5", norm5);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = max_pool2d(relu(norm0(conv0(x))), {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}});
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      y = blocks[i](y);
      if (i < transitions.size()) y = transitions[i](y);
    }
    return norm5(y);
  }
  std::int64_t channels() const { return norm5.weight.numel(); }

  nn::Conv2d conv0;
  nn::BatchNorm2d norm0, norm5;
  std::vector<DenseBlock> blocks;
  std::vector<Transition> transitions;
};

struct DenseNet {
  DenseNet(const Config& config, const Options& o)
      : features(config, o.in_chans), classifier(features.channels(), o.classes, {.bias_init = nn::zeros}) {}

  void parts(Parts& p) { p("features", features)("classifier", classifier); }
  Tensor operator()(const Tensor& x) const { return classifier(flatten(global_avg_pool2d(relu(features(x))))); }

  Features features;
  nn::Linear classifier;
};

Entry densenet(std::string name, const Config& config) {
  // The published weights are older than the names.
  const auto older_names = [=] {
    Renames older;
    for (std::size_t block = 0; block < config.depths.size(); ++block)
      for (int layer = 1; layer <= config.depths[block]; ++layer)
        for (const std::string part : {"norm", "conv"})
          for (const int i : {1, 2}) {
            const std::string begin = text("features.denseblock", block + 1, ".denselayer", layer, '.', part);
            older[text(begin, i)] = text(begin, '.', i);
          }
    return older;
  };
  return {.name = std::move(name),
          .build = [=](const Options& o) { return DenseNet(config, o); },
          .older_names = older_names};
}

}  // namespace

Entries densenet_models() {
  return with_timm(
      {densenet("densenet121", {64, 32, {6, 12, 24, 16}}), densenet("densenet161", {96, 48, {6, 12, 36, 24}}),
       densenet("densenet169", {64, 32, {6, 12, 32, 32}}), densenet("densenet201", {64, 32, {6, 12, 48, 32}})});
}

}  // namespace neurim::zoo
