#include "neurim/ops/batch_norm.h"

#include <cmath>

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

/// Calls visit(index in x) for every element of a channel of x(N,C,…).
template <class Visit>
void each_of_channel(const Shape& x, std::int64_t channel, Visit visit) {
  const std::int64_t inner = x.numel() / (x[0] * x[1]);
  for (std::int64_t n = 0; n < x[0]; ++n)
    for (std::int64_t i = 0; i < inner; ++i) visit((n * x[1] + channel) * inner + i);
}

void batch_norm_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const View &x = in[0], &weight = in[1], &bias = in[2], &mean = in[3], &var = in[4];
  if (x.numel() == 0) return;
  for (std::int64_t c = 0; c < x.shape()[1]; ++c) {
    const double scale = weight[c] / std::sqrt(var[c] + static_cast<const BatchNorm&>(op).eps);
    each_of_channel(x.shape(), c, [&](std::int64_t i) { out[0].set(i, (x[i] - mean[c]) * scale + bias[c]); });
  }
}

void batch_norm_train_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const View &x = in[0], &weight = in[1], &bias = in[2];
  if (x.numel() == 0) return;
  const double count = static_cast<double>(x.numel() / x.shape()[1]);
  for (std::int64_t c = 0; c < x.shape()[1]; ++c) {
    double mean = 0, var = 0;
    each_of_channel(x.shape(), c, [&](std::int64_t i) { mean += x[i] / count; });
    each_of_channel(x.shape(), c, [&](std::int64_t i) { var += (x[i] - mean) * (x[i] - mean) / count; });
    const double scale = weight[c] / std::sqrt(var + static_cast<const BatchNormTrain&>(op).eps);
    each_of_channel(x.shape(), c, [&](std::int64_t i) { out[0].set(i, (x[i] - mean) * scale + bias[c]); });
    out[1].set(c, mean);
    out[2].set(c, var);
  }
}

void batch_norm_grad_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const View &dy = in[0], &x = in[1], &weight = in[2], &mean = in[3], &var = in[4];
  if (x.numel() == 0) return;
  const double count = static_cast<double>(x.numel() / x.shape()[1]);
  for (std::int64_t c = 0; c < x.shape()[1]; ++c) {
    const double inverse = 1 / std::sqrt(var[c] + static_cast<const BatchNormGrad&>(op).eps);
    double dweight = 0, dbias = 0;
    each_of_channel(x.shape(), c, [&](std::int64_t i) {
      dbias += dy[i];
      dweight += dy[i] * (x[i] - mean[c]) * inverse;
    });
    each_of_channel(x.shape(), c, [&](std::int64_t i) {
      const double normal = (x[i] - mean[c]) * inverse;
      out[0].set(i, weight[c] * inverse * (dy[i] - dbias / count - normal * dweight / count));
    });
    out[1].set(c, dweight);
    out[2].set(c, dbias);
  }
}

}  // namespace

void reference_batch_norm() {
  reference::define_reference("batch_norm", batch_norm_body);
  reference::define_reference("batch_norm_train", batch_norm_train_body);
  reference::define_reference("batch_norm_grad", batch_norm_grad_body);
}

}  // namespace neurim
