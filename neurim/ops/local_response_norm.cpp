#include "neurim/ops/local_response_norm.h"

#include "neurim/ops/add.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/div.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/pow.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/square.h"

namespace neurim {

Types LocalResponseNorm::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  check_floating(*this, in[0], "the input");
  require(in[0].shape.rank() == 4, name(), ": takes x(N,C,H,W), got ", in[0].shape);
  require(options.size > 0, name(), ": size is ", options.size, ", but has to be 1 or more");
  return {in[0]};
}

Tensors LocalResponseNorm::decompose(std::span<const Tensor> in) const {
  const Tensor x = wide(in[0]);
  const Shape& shape = x.shape();
  const Shape columns{shape[0], 1, shape[1], shape[2] * shape[3]};
  const std::int64_t before = options.size / 2;
  const Tensor squares = avg_pool2d(
      reshape(square(x), columns),
      {.kernel = {options.size, 1}, .stride = {1, 1}, .pad = {before, 0, options.size - 1 - before, 0}});
  const Tensor base = reshape(squares, shape) * options.alpha + options.k;
  return {cast(x / pow(base, scalar_like(base, options.beta)), in[0].dtype())};
}

std::vector<Sample> LocalResponseNorm::samples() const {
  const auto row = [](const Shape& x, const LocalResponseNormOptions& given) -> Sample {
    auto op = std::make_shared<LocalResponseNorm>();
    op->options = given;
    return {op, {{DType::f32, x}}};
  };
  return {row({2, 7, 3, 4}, {.size = 5, .alpha = 0.5}), row({1, 6, 9, 1}, {.size = 4, .alpha = 1, .beta = 0.5, .k = 2}),
          row({2, 3, 2, 2}, {.size = 1, .alpha = 2, .beta = 1}), row({1, 2, 5, 2}, {.size = 7, .alpha = 3})};
}

Tensor local_response_norm(const Tensor& x, const LocalResponseNormOptions& options) {
  auto op = std::make_shared<LocalResponseNorm>();
  op->options = options;
  if (x.rank() == 4) return apply1(op, {x});
  require(x.rank() >= 2, "local_response_norm: takes x(N,C,…), got ", x.shape());
  Dim places = 1;
  for (int axis = 2; axis < x.rank(); ++axis) places *= x.size(axis);
  return reshape(apply1(op, {reshape(x, {x.size(0), x.size(1), places, 1})}), x.shape());
}

void define_local_response_norm() { define<LocalResponseNorm>(); }

}  // namespace neurim
