// Reductions over axes.
#include <cmath>
#include <limits>
#include <vector>

#include "neurim/backend/reference/view.h"
#include "neurim/ops/argmax.h"
#include "neurim/ops/common/rules.h"

namespace neurim::reference {

namespace {

/// Folds every element of x into the total of its place in the output, in row-major order.
template <class T, class Fold>
std::vector<T> totals(const Op& op, const View& x, const View& y, T start, Fold fold) {
  std::vector<T> total(static_cast<std::size_t>(y.numel()), start);
  const BroadcastIndex place(static_cast<const ReduceOp&>(op).kept(x.shape()), x.shape());
  for (std::int64_t i = 0, n = x.numel(); i < n; ++i) {
    T& t = total[static_cast<std::size_t>(place(i))];
    t = fold(t, x.load<T>(i));
  }
  return total;
}

/// The totals as the output.
template <class Fold>
void reduce(const Op& op, std::span<const View> in, std::span<const View> out, double start, Fold fold) {
  in_wide_enough(in, out, [&](auto zero) {
    const auto all = totals(op, in[0], out[0], zero + start, fold);
    for (std::size_t i = 0; i < all.size(); ++i) out[0].store(static_cast<std::int64_t>(i), all[i]);
  });
}

void sum(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  reduce(op, in, out, 0, std::plus());
}

void mean(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const double count = static_cast<double>(in[0].numel()) / static_cast<double>(out[0].numel());
  std::vector<double> means = totals(op, in[0], out[0], 0., std::plus());
  for (double& each : means) each /= count;
  out[0].set(means);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void reduce_max(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  reduce(op, in, out, -kInfinity, [](auto t, auto x) { return x > t || std::isnan(x) ? x : t; });
}

void reduce_min(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  reduce(op, in, out, kInfinity, [](auto t, auto x) { return x < t || std::isnan(x) ? x : t; });
}

template <class T>
void argmax_in(T, const Op& op, const View& in, const View& out) {
  const Shape& shape = in.shape();
  const int axis = normal_axis(static_cast<const Argmax&>(op).axis, shape.rank(), op.name());
  const std::int64_t size = shape[axis], inner = strides(shape)[axis];
  for (std::int64_t i = 0, n = out.numel(); i < n; ++i) {
    const std::int64_t first = i / inner * size * inner + i % inner;
    std::int64_t best = 0;
    for (std::int64_t k = 1; k < size; ++k) {
      const T x = in.load<T>(first + k * inner), most = in.load<T>(first + best * inner);
      if (x > most || (std::isnan(x) && !std::isnan(most))) best = k;
    }
    out.set(i, static_cast<double>(best));
  }
}

void argmax(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  in_wide_enough(in, {}, [&](auto zero) { argmax_in(zero, op, in[0], out[0]); });
}

}  // namespace

}  // namespace neurim::reference

namespace neurim {

void reference_reduce() {
  reference::define_reference("sum", reference::sum);
  reference::define_reference("mean", reference::mean);
  reference::define_reference("reduce_max", reference::reduce_max);
  reference::define_reference("reduce_min", reference::reduce_min);
  reference::define_reference("argmax", reference::argmax);
}

}  // namespace neurim
