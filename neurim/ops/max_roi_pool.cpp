#include "neurim/ops/max_roi_pool.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

Types MaxRoiPool::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_floating(*this, in[0], "the input");
  check_same_dtype(*this, in[0], in[1]);
  const Shape &x = in[0].shape, &boxes = in[1].shape;
  require(x.rank() == 4 && boxes.rank() == 2 && boxes[1] == 5, name(), ": takes x(N,C,H,W) and boxes(R,5), got ", x,
          " and ", boxes);
  require(height > 0 && width > 0, name(), ": height ", height, " and width ", width, " have to be positive");
  return {{in[0].dtype, {boxes[0], x[1], height, width}}};
}

std::string MaxRoiPool::data_fault(std::span<const Tensor>) const { return "a box is of an image that is not there"; }

std::vector<Sample> MaxRoiPool::samples() const {
  auto op = std::make_shared<MaxRoiPool>();
  op->height = 2, op->width = 3, op->scale = 6;
  return {{op, {{DType::f32, {1, 3, 9, 8}}, {DType::f32, {4, 5}}}, {{-1, 1, true}, {0, 0.99}}}};
}

Tensor max_roi_pool(const Tensor& x, const Tensor& boxes, std::int64_t height, std::int64_t width, double scale) {
  auto op = std::make_shared<MaxRoiPool>();
  op->height = height, op->width = width, op->scale = scale;
  return apply1(op, {x, boxes});
}

void define_max_roi_pool() { define<MaxRoiPool>(); }

}  // namespace neurim
