#include "neurim/nn/positions.h"

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/slice.h"

namespace neurim::nn {

namespace {

constexpr double kStd = 0.02;

}  // namespace

Tensor SinusoidalPositions::operator()(const Tensor& x) const {
  require(x.rank() == 3, "SinusoidalPositions: takes x(N,L,E), got ", x.shape());
  return x + sinusoidal_positions(x.size(1), x.size(2), x.dtype(), x.device());
}

LearnedPositions::LearnedPositions(std::int64_t max_length, std::int64_t features) {
  require(max_length > 0 && features > 0, "LearnedPositions: rows (", max_length, ") and their size (", features,
          ") must be 1 or more");
  weight = parameter({max_length, features}, normal(0, kStd));
}

void LearnedPositions::parts(Parts& p) { p("weight", weight, normal(0, kStd)); }

Tensor LearnedPositions::operator()(const Tensor& x) const {
  require(x.rank() == 3 && x.size(2) == weight.size(1) && x.size(1) <= weight.size(0), "LearnedPositions: takes x(N,L,",
          weight.size(1), ") with L up to ", weight.size(0), ", got ", x.shape());
  return x + (x.size(1) == weight.size(0) ? weight : slice(weight, {0}, {x.size(1)}));
}

Tensor RotaryPositions::operator()(const Tensor& x) const { return rotary_positions(x, options); }

}  // namespace neurim::nn
