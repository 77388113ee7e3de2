// Layer, group and RMS normalization.
#include <cmath>

#include "neurim/backend/reference/view.h"
#include "neurim/ops/layer_norm.h"

namespace neurim {

namespace {

using reference::View;

/// The rows of x: visits each with its mean and 1 / sqrt(variance + eps).
template <class Visit>
void each_row(const NormOp& op, const View& x, const NormRows& n, Visit visit) {
  const std::int64_t size = n.channels * n.inner;
  const double count = static_cast<double>(size);
  for (std::int64_t row = 0; row < n.rows; ++row) {
    double mean = 0, var = 0;
    for (std::int64_t i = row * size; op.centered() && i < (row + 1) * size; ++i) mean += x[i] / count;
    for (std::int64_t i = row * size; i < (row + 1) * size; ++i) var += (x[i] - mean) * (x[i] - mean) / count;
    visit(row, mean, 1 / std::sqrt(var + op.eps));
  }
}

/// Calls visit(index in x, number of the weight) for the elements of a row.
template <class Visit>
void each_of_row(const NormRows& n, std::int64_t row, Visit visit) {
  const std::int64_t size = n.channels * n.inner;
  for (std::int64_t i = 0; i < size; ++i) visit(row * size + i, row % n.groups * n.channels + i / n.inner);
}

void norm_body(const Op& self, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const auto& op = static_cast<const NormOp&>(self);
  const View &x = in[0], &weight = in[1];
  const NormRows n = op.rows(x.shape(), weight.shape());
  each_row(op, x, n, [&](std::int64_t row, double mean, double inverse) {
    each_of_row(n, row, [&](std::int64_t i, std::int64_t c) {
      out[0].set(i, (x[i] - mean) * inverse * weight[c] + (in.size() > 2 ? in[2][c] : 0));
    });
  });
}

void norm_grad_body(const Op& self, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const auto& op = static_cast<const NormOp&>(self);
  const View &dy = in[0], &x = in[1], &weight = in[2];
  const NormRows n = op.rows(x.shape(), weight.shape());
  const double count = static_cast<double>(n.channels * n.inner);
  std::vector<double> dweight(static_cast<std::size_t>(weight.numel())), dbias(dweight);
  each_row(op, x, n, [&](std::int64_t row, double mean, double inverse) {
    double slope = 0, lift = 0;
    each_of_row(n, row, [&](std::int64_t i, std::int64_t c) {
      const double normal = (x[i] - mean) * inverse;
      slope += dy[i] * weight[c] * normal / count;
      if (op.centered()) lift += dy[i] * weight[c] / count;
      dweight[c] += dy[i] * normal;
      dbias[c] += dy[i];
    });
    each_of_row(n, row, [&](std::int64_t i, std::int64_t c) {
      const double normal = (x[i] - mean) * inverse;
      out[0].set(i, inverse * (dy[i] * weight[c] - lift - normal * slope));
    });
  });
  for (std::int64_t c = 0; c < weight.numel(); ++c) {
    out[1].set(c, dweight[c]);
    if (op.centered()) out[2].set(c, dbias[c]);
  }
}

}  // namespace

void reference_norm() {
  for (const std::string_view op : {"layer_norm", "group_norm", "rms_norm"}) reference::define_reference(op, norm_body);
  reference::define_reference("norm_grad", norm_grad_body);
}

}  // namespace neurim
