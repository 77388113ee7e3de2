#include "neurim/ops/det.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

Types Det::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  check_floating(*this, in[0], "the input");
  const Shape& x = in[0].shape;
  require(x.rank() >= 2 && x[-1] == x[-2], name(), ": takes square matrices (…,M,M), got ", x);
  return {{in[0].dtype, Shape(std::span(x.begin(), x.end() - 2))}};
}

std::vector<Sample> Det::samples() const {
  std::vector<Sample> rows;
  for (const Shape& x : {Shape{3, 3}, {1, 1}, {2, 3, 4, 4}, {5, 2, 2}, {0, 0}})
    rows.push_back({std::make_shared<Det>(), {{DType::f32, x}}});
  return rows;
}

Tensor det(const Tensor& x) { return apply1(std::make_shared<Det>(), {x}); }

void define_det() { define<Det>(); }

}  // namespace neurim
