// LeCun et al., "Gradient-based learning applied to document recognition", 1998, with ReLU and max pooling.
#include "neurim/model/zoo/entry.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/relu.h"

namespace neurim::zoo {

namespace {

/// For 28x28 alone.
struct LeNet5 {
  explicit LeNet5(const Options& o)
      : c1(o.in_chans, 6, {.kernel = 5, .pad = 2}),
        c2(6, 16, {.kernel = 5}),
        f1(16 * 5 * 5, 120),
        f2(120, 84),
        f3(84, o.classes) {}

  void parts(Parts& p) { p("c1", c1)("c2", c2)("f1", f1)("f2", f2)("f3", f3); }
  Tensor operator()(const Tensor& x) const {
    const Tensor features = max_pool2d(relu(c2(max_pool2d(relu(c1(x)), {}))), {});
    return f3(relu(f2(relu(f1(flatten(features))))));
  }

  nn::Conv2d c1, c2;
  nn::Linear f1, f2, f3;
};

}  // namespace

Entries lenet_models() {
  return {{.name = "lenet5",
           .build = [](const Options& o) { return LeNet5(o); },
           .image_size = 28,
           .classes = 10,
           .mean = {0.1307},
           .std = {0.3081}}};
}

}  // namespace neurim::zoo
