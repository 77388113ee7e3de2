#include "neurim/ops/det.h"

#include <cmath>
#include <utility>

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

/// Of a matrix of `size` rows, by elimination with the largest pivots; overwrites it.
double determinant(double* matrix, std::int64_t size) {
  const auto at = [&](std::int64_t row, std::int64_t column) -> double& { return matrix[row * size + column]; };
  double product = 1;
  for (std::int64_t column = 0; column < size; ++column) {
    std::int64_t pivot = column;
    for (std::int64_t row = column + 1; row < size; ++row)
      if (std::abs(at(row, column)) > std::abs(at(pivot, column))) pivot = row;
    if (at(pivot, column) == 0) return 0;
    if (pivot != column) {
      for (std::int64_t k = column; k < size; ++k) std::swap(at(pivot, k), at(column, k));
      product = -product;
    }
    product *= at(column, column);
    for (std::int64_t row = column + 1; row < size; ++row)
      reference::add_scaled(size - column, -at(row, column) / at(column, column), &at(column, column), 1,
                            &at(row, column), 1);
  }
  return product;
}

void det_body(const Op&, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  std::vector<double> x = in[0].values();
  const std::int64_t size = in[0].shape()[-1];
  for (std::int64_t i = 0; i < out[0].numel(); ++i) out[0].set(i, determinant(x.data() + i * size * size, size));
}

}  // namespace

void reference_det() { reference::define_reference("det", det_body); }

}  // namespace neurim
