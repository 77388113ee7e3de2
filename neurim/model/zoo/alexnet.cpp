// Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014, as torchvision has it.
#include "neurim/model/zoo/entry.h"
#include "neurim/model/zoo/layers.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/pool.h"
#include "neurim/ops/adaptive_pool.h"
#include "neurim/ops/flatten.h"

namespace neurim::zoo {

namespace {

struct AlexNet {
  explicit AlexNet(const Options& o)
      : features(nn::Conv2d(o.in_chans, 64, {.kernel = 11, .stride = 4, .pad = 2}), nn::ReLU(),
                 nn::MaxPool2d{.kernel = 3, .stride = 2}, nn::Conv2d(64, 192, {.kernel = 5, .pad = 2}), nn::ReLU(),
                 nn::MaxPool2d{.kernel = 3, .stride = 2}, nn::Conv2d(192, 384, {.kernel = 3, .pad = 1}), nn::ReLU(),
                 nn::Conv2d(384, 256, {.kernel = 3, .pad = 1}), nn::ReLU(),
                 nn::Conv2d(256, 256, {.kernel = 3, .pad = 1}), nn::ReLU(), nn::MaxPool2d{.kernel = 3, .stride = 2}),
        classifier(nn::Dropout{o.dropout}, nn::Linear(256 * 6 * 6, 4096), nn::ReLU(), nn::Dropout{o.dropout},
                   nn::Linear(4096, 4096), nn::ReLU(), nn::Linear(4096, o.classes)) {}

  void parts(Parts& p) { p("features", features)("classifier", classifier); }
  Tensor operator()(const Tensor& x) const { return classifier(flatten(adaptive_avg_pool2d(features(x), {6, 6}))); }

  nn::Sequential features, classifier;
};

}  // namespace

Entries alexnet_models() {
  return {{.name = "alexnet", .build = [](const Options& o) { return AlexNet(o); }, .dropout = 0.5}};
}

}  // namespace neurim::zoo
