// Howard et al., "MobileNets: efficient convolutional neural networks for mobile vision applications", 2017,
// table 1.
#include "neurim/model/zoo/entry.h"
#include "neurim/model/zoo/layers.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"

namespace neurim::zoo {

namespace {

struct MobileNetV1 {
  explicit MobileNetV1(const Options& o) : fc(1024, o.classes) {
    features.add(conv_norm(o.in_chans, 32, {.stride = 2}, nn::ReLU()));
    std::int64_t in = 32;
    const auto separable = [&](std::int64_t out, std::int64_t stride) {  // depthwise 3x3, then 1x1
      features.add(conv_norm(in, in, {.stride = stride, .groups = in}, nn::ReLU()));
      features.add(conv_norm(in, out, {.kernel = 1}, nn::ReLU()));
      in = out;
    };
    separable(64, 1);
    separable(128, 2);
    separable(128, 1);
    separable(256, 2);
    separable(256, 1);
    separable(512, 2);
    for (int i = 0; i < 5; ++i) separable(512, 1);
    separable(1024, 2);
    separable(1024, 1);
  }

  void parts(Parts& p) { p("features", features)("fc", fc); }
  Tensor operator()(const Tensor& x) const { return fc(flatten(global_avg_pool2d(features(x)))); }

  nn::Sequential features;
  nn::Linear fc;
};

}  // namespace

Entries mobilenet_v1_models() {
  return {{.name = "mobilenet_v1", .build = [](const Options& o) { return MobileNetV1(o); }}};
}

}  // namespace neurim::zoo
