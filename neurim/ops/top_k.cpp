#include "neurim/ops/top_k.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

Types TopK::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  check_number(*this, in[0], "the input");
  Shape shape = in[0].shape;
  const int axis = normal_axis(options.axis, shape.rank(), name());
  require(options.k >= 0 && (shape[axis].symbolic() || shape[axis] >= options.k), name(), ": takes ", options.k,
          " elements along axis ", axis, " of ", shape);
  shape[axis] = options.k;
  return {{in[0].dtype, shape}, {DType::i64, shape}};
}

std::vector<Sample> TopK::samples() const {
  std::vector<Sample> rows;
  const auto add = [&](const Shape& x, const TopKOptions& wanted, DType dtype) {
    auto op = std::make_shared<TopK>();
    op->options = wanted;
    rows.push_back({op, {{dtype, x}}, {{-50, 50, true}}});
  };
  add({3, 9}, {.k = 4}, DType::f32);
  add({4, 5, 2}, {.k = 2, .axis = 1, .largest = false}, DType::f32);
  add({7}, {.k = 7, .axis = 0}, DType::i64);
  add({2, 3}, {.k = 0}, DType::f32);
  return rows;
}

Tensors top_k(const Tensor& x, const TopKOptions& options) {
  auto op = std::make_shared<TopK>();
  op->options = options;
  return apply(op, {x});
}

void define_top_k() { define<TopK>(); }

}  // namespace neurim
