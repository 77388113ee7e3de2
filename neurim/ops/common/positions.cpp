#include "neurim/ops/common/positions.h"

#include <cmath>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/split.h"
#include "neurim/ops/sub.h"

namespace neurim {

namespace {

/// number(p, k) for `rows` rows p of `columns` columns k, as a constant of this shape.
template <class Function>
Tensor table(std::int64_t rows, std::int64_t columns, const Shape& shape, DType dtype, Device device, Function number) {
  std::vector<double> values;
  values.reserve(rows * columns);
  for (std::int64_t p = 0; p < rows; ++p)
    for (std::int64_t k = 0; k < columns; ++k) values.push_back(number(p, k));
  return cast(Tensor::from({DType::f64, shape}, values.data(), device), dtype);
}

/// What element pair i of a row at position p turns by.
double angle(std::int64_t p, std::int64_t i, std::int64_t features, double base) {
  return static_cast<double>(p) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(features));
}

}  // namespace

Tensor sinusoidal_positions(std::int64_t length, std::int64_t features, DType dtype, Device device) {
  require(length >= 0 && features > 0, "sinusoidal_positions: the table is to be (", length, ",", features,
          "), but has to have 1 feature or more");
  return table(length, features, {length, features}, dtype, device, [&](std::int64_t p, std::int64_t k) {
    const double at = angle(p, k / 2, features, 10000);
    return k % 2 == 0 ? std::sin(at) : std::cos(at);
  });
}

Tensor rotary_positions(const Tensor& x, const RotaryOptions& o) {
  require(
      is_floating(x.dtype()) && x.rank() >= 2 && x.rank() < static_cast<int>(Shape::kMaxRank) && x.size(-1) % 2 == 0,
      "rotary_positions: takes floating x(…,L,E) with an even number E of features, got ", x.type());
  const std::int64_t length = x.size(-2), pairs = x.size(-1) / 2;
  Shape apart = x.shape();
  apart[-1] = o.interleaved ? pairs : 2;
  apart.push_back(o.interleaved ? 2 : pairs);
  const int of_pair = o.interleaved ? -1 : -2;
  const Tensor both = reshape(wide(x), apart);
  const Tensors one = split(both, {1, 1}, of_pair);
  const Shape beside = o.interleaved ? Shape{length, pairs, 1} : Shape{length, 1, pairs};
  const auto of_angles = [&](auto function) {
    return table(length, pairs, beside, both.dtype(), x.device(),
                 [&](std::int64_t p, std::int64_t i) { return function(angle(o.first + p, i, 2 * pairs, o.base)); });
  };
  const Tensor cosine = of_angles([](double at) { return std::cos(at); }),
               sine = of_angles([](double at) { return std::sin(at); });
  const Tensor y = concat({one[0] * cosine - one[1] * sine, one[0] * sine + one[1] * cosine}, of_pair);
  return cast(reshape(y, x.shape()), x.dtype());
}

}  // namespace neurim
