#include "neurim/ops/global_max_pool2d.h"

#include "neurim/ops/common/rules.h"
#include "neurim/ops/max_pool.h"

namespace neurim {

Types GlobalMaxPool2d::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  check_floating(*this, in[0], "the input");
  const Shape& x = in[0].shape;
  check_pooled<2>(name(), x);
  require(x[2] > 0 && x[3] > 0, name(), ": an empty plane of input ", x, " has no maximum");
  return {{in[0].dtype, {x[0], x[1], 1, 1}}};
}

Tensors GlobalMaxPool2d::decompose(std::span<const Tensor> in) const {
  return {max_pool2d(in[0], {.kernel = {in[0].size(2), in[0].size(3)}})};
}

std::vector<Sample> GlobalMaxPool2d::samples() const {
  std::vector<Sample> all;
  for (const Shape& x : {Shape{2, 3, 7, 7}, {1, 16, 4, 5}, {3, 17, 1, 1}})
    all.push_back({std::make_shared<GlobalMaxPool2d>(), {{DType::f32, x}}, {{.distinct = true}}});
  return all;
}

Tensor global_max_pool2d(const Tensor& x) { return apply1(std::make_shared<GlobalMaxPool2d>(), {x}); }

void define_global_max_pool2d() { define<GlobalMaxPool2d>(); }

}  // namespace neurim
