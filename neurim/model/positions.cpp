#include "neurim/model/positions.h"

#include <algorithm>
#include <cmath>

namespace neurim {

namespace {

/// The side of a square of so many patches, or 0.
std::int64_t side_of(std::int64_t patches) {
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(patches))));
  return side * side == patches ? side : 0;
}

/// Keys' kernel.
double keys(double distance) {
  constexpr double a = -0.5;
  const double d = std::abs(distance);
  if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
}

/// (from,inner) -> (to,inner) for each of `outer`, along the middle axis.
std::vector<double> resampled(const std::vector<double>& x, std::int64_t outer, std::int64_t from, std::int64_t to,
                              std::int64_t inner) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), width = std::max(scale, 1.0);
  std::vector<double> y(outer * to * inner);
  std::vector<double> weights(from);
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    double sum = 0;
    for (std::int64_t k = 0; k < from; ++k) sum += weights[k] = keys((static_cast<double>(k) + 0.5 - center) / width);
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t k = 0; k < from; ++k)
        for (std::int64_t j = 0; weights[k] != 0 && j < inner; ++j)
          y[(o * to + i) * inner + j] += weights[k] / sum * x[(o * from + k) * inner + j];
  }
  return y;
}

}  // namespace

bool are_positions(const Shape& shape) { return shape.rank() == 3 && shape[0] == 1 && side_of(shape[1] - 1) > 0; }

std::int64_t image_size_of(const Model& model, const StateDict& weights) {
  for (const Parameter& parameter : named_parameters(model)) {
    const Shape own = parameter.tensor.shape();
    const std::int64_t side = own.rank() == 3 ? side_of(own[1] - 1) : 0;
    if (side == 0 || !are_positions(own)) continue;
    for (const auto& [name, entry] : weights.entries) {
      const Shape& theirs = entry.type.shape;
      if (are_positions(theirs) && theirs[2] == own[2]) return side_of(theirs[1] - 1) * (model.image_size / side);
    }
  }
  return 0;
}

std::vector<float> resampled_positions(const Tensor& positions, std::int64_t tokens) {
  const std::int64_t from = side_of(positions.size(1) - 1), to = side_of(tokens - 1), width = positions.size(2);
  const std::vector<double> x = positions.values<double>();
  const std::vector<double> rows = resampled({x.begin() + width, x.end()}, 1, from, to, from * width);
  const std::vector<double> patches = resampled(rows, to, from, to, width);
  std::vector<float> y(x.begin(), x.begin() + width);
  y.insert(y.end(), patches.begin(), patches.end());
  return y;
}

}  // namespace neurim
