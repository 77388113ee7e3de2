#include "neurim/ops/global_avg_pool2d.h"

#include "neurim/base/error.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/mul.h"

namespace neurim {

Types GlobalAvgPool2d::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  check_floating(*this, in[0], "the input");
  const Shape& x = in[0].shape;
  require(x.rank() == 4, name(), ": takes x(N,C,H,W), got a tensor of shape ", x);
  require(x[2] > 0 && x[3] > 0, name(), ": an empty plane of input ", x, " has no mean");
  return {{in[0].dtype, {x[0], x[1], 1, 1}}};
}

Tensors GlobalAvgPool2d::grad(const Gradient& g) const {
  const Shape& x = g.in[0].shape();
  return {broadcast_to(g.dout[0] * (1.0 / static_cast<double>(x[2] * x[3])), x)};
}

std::vector<Sample> GlobalAvgPool2d::samples() const {
  std::vector<Sample> all;
  for (const Shape& x : {Shape{2, 3, 7, 7}, {1, 16, 4, 5}, {3, 17, 1, 1}, {1, 32, 8, 8}, {1, 1, 1, 9}})
    all.push_back({std::make_shared<GlobalAvgPool2d>(), {{DType::f32, x}}});
  return all;
}

Tensor global_avg_pool2d(const Tensor& x) { return apply1(std::make_shared<GlobalAvgPool2d>(), {x}); }

void define_global_avg_pool2d() { define<GlobalAvgPool2d>(); }

}  // namespace neurim
