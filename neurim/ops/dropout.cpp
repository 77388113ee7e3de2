#include "neurim/ops/dropout.h"

#include <cmath>

#include "neurim/base/error.h"
#include "neurim/graph/trace.h"
#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

void check_probability(double p) { require(p >= 0 && p <= 1, "dropout: p is ", p, ", has to lie in [0, 1]"); }

/// One factor, 0 or 1/(1-p), for all elements of x that share their place along the first `axes` axes.
Tensor shared_factors(const Tensor& x, int axes, double p) {
  Shape shape = x.shape();
  for (int axis = axes; axis < x.rank(); ++axis) shape[axis] = 1;
  return dropout(Tensor::full({x.dtype(), shape}, 1, x.device()), p);
}

}  // namespace

Types Dropout::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_floating(*this, in[0], "the input");
  check_probability(p);
  const Type key{DType::i64, {2}};
  require(in[1] == key, name(), ": the key is ", in[1], ", has to be ", key);
  return {in[0]};
}

Tensors Dropout::grad(const Gradient& g) const { return {apply1(shared_from_this(), {g.dout[0], g.in[1]}), {}}; }

std::vector<Sample> Dropout::samples() const {
  struct DropoutRow {
    double p;
    std::int64_t ordinal;
    Shape x;
  };
  std::vector<Sample> all;
  for (const auto& [probability, place, x] : {DropoutRow{0.5, 0, {2, 3, 5}},
                                              {0.2, 3, {17}},
                                              {0, 1, {4, 4}},
                                              {1, 2, {4, 4}},
                                              {0.9, 1000, {3, 1, 33}},
                                              {0.1, 0, {}}}) {
    auto op = std::make_shared<Dropout>();
    op->p = probability;
    op->ordinal = place;
    all.push_back({op, {{DType::f32, x}, {DType::i64, {2}}}, {{}, {0, 1e9}}});
  }
  return all;
}

Tensor dropout(const Tensor& x, double p) {
  check_probability(p);
  if (!training() || p == 0) return x;
  const RandomKey random = next_random_key();
  auto op = std::make_shared<Dropout>();
  op->p = p;
  op->ordinal = random.ordinal;
  return apply1(op, {x, random.key});
}

Tensor dropout2d(const Tensor& x, double p) {
  check_probability(p);
  require(x.rank() >= 2, "dropout2d: takes x(N,C,…), got ", x.shape());
  return !training() || p == 0 ? x : x * shared_factors(x, 2, p);
}

Tensor drop_path(const Tensor& x, double p) {
  check_probability(p);
  require(x.rank() >= 1, "drop_path: takes x(N,…), got a scalar");
  return !training() || p == 0 ? x : x * shared_factors(x, 1, p);
}

Tensor alpha_dropout(const Tensor& x, double p) {
  require(p >= 0 && p < 1, "alpha_dropout: p is ", p, ", has to lie in [0, 1)");
  if (!training() || p == 0) return x;
  constexpr double kLimit = -1.7580993408473766;  // -alpha * scale of selu
  const Tensor y = wide(x), stays = greater(shared_factors(y, y.rank(), p), scalar_like(y, 0));
  const double a = 1 / std::sqrt((1 - p) * (1 + p * kLimit * kLimit)), b = -a * p * kLimit;
  return cast(where(stays, y, scalar_like(y, kLimit)) * a + b, x.dtype());
}

void define_dropout() { define<Dropout>(); }

}  // namespace neurim
