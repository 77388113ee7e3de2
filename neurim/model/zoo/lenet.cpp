#include "neurim/model/zoo/lenet.h"

#include "neurim/ops/flatten.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/relu.h"

namespace neurim {

LeNet5::LeNet5(std::int64_t classes, std::int64_t in_chans)
    : c1(in_chans, 6, {.kernel = 5, .pad = 2}),
      c2(6, 16, {.kernel = 5}),
      f1(16 * 5 * 5, 120),
      f2(120, 84),
      f3(84, classes) {}

void LeNet5::parts(Parts& p) { p("c1", c1)("c2", c2)("f1", f1)("f2", f2)("f3", f3); }

Tensor LeNet5::operator()(const Tensor& x) const {
  const Tensor features = max_pool2d(relu(c2(max_pool2d(relu(c1(x)), {}))), {});
  return f3(relu(f2(relu(f1(flatten(features))))));
}

}  // namespace neurim
