#include "neurim/ops/adaptive_pool.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "neurim/graph/trace.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/pad.h"

namespace neurim {

namespace {

/// The windows along one axis.
struct Windows {
  std::int64_t size, count;
  std::int64_t begin(std::int64_t i) const { return i * size / count; }
  std::int64_t end(std::int64_t i) const { return ((i + 1) * size + count - 1) / count; }
  bool even() const { return size % count == 0; }
  std::int64_t longest() const {
    std::int64_t most = 0;
    for (std::int64_t i = 0; i < count; ++i) most = std::max(most, end(i) - begin(i));
    return most;
  }
};

template <std::size_t N>
std::array<Windows, N> windows_of(const Shape& x, const std::array<std::int64_t, N>& output) {
  std::array<Windows, N> all;
  for (std::size_t axis = 0; axis < N; ++axis) {
    const std::int64_t size = x[static_cast<int>(axis) + 2];
    all[axis] = {size, output[axis] == 0 ? size : output[axis]};
  }
  return all;
}

/// x with the windows of uneven axes side by side, each filled up with `fill` to the longest, so that plain
/// pooling with kernels of that length takes them.
template <std::size_t N>
std::pair<Tensor, PoolOptions<N>> side_by_side(Tensor x, const std::array<Windows, N>& windows, double fill) {
  PoolOptions<N> options;
  for (std::size_t axis = 0; axis < N; ++axis) {
    const Windows& w = windows[axis];
    options.kernel[axis] = w.longest();
    if (w.even()) continue;
    std::vector<std::int64_t> pads(2 * N + 4), places;
    pads[N + 4 + axis] = 1;  // one place of `fill` after the axis
    for (std::int64_t i = 0; i < w.count; ++i)
      for (std::int64_t at = w.begin(i); at < w.begin(i) + w.longest(); ++at)
        places.push_back(at < w.end(i) ? at : w.size);
    const Shape count{static_cast<std::int64_t>(places.size())};
    x = gather(pad(x, pads, fill), Tensor::from(count, places, x.device()), static_cast<std::int64_t>(axis) + 2);
  }
  return {x, options};
}

/// The numbers in the type's dtype, made once and not in the trace.
Tensor constant(const Type& type, const std::vector<double>& values, Device device) {
  const Untraced untraced;
  return cast(Tensor::from({DType::f64, type.shape}, values.data(), device), type.dtype);
}

}  // namespace

template <std::size_t N>
Types AdaptivePool<N>::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  check_floating(*this, in[0], "the input");
  check_pooled<N>(name(), in[0].shape);
  Type out = in[0];
  for (std::size_t axis = 0; axis < N; ++axis) {
    Dim& size = out.shape[static_cast<int>(axis) + 2];
    require(output[axis] >= 0 && size.may_be_positive(), name(), ": cannot make ", output[axis], " of ",
            side_name<N>(axis), ' ', size, " of input ", in[0].shape, "; both have to be positive");
    if (output[axis] > 0) size = output[axis];
  }
  return {out};
}

template <std::size_t N>
Tensors AdaptiveAvgPool<N>::decompose(std::span<const Tensor> in) const {
  const Tensor& x = in[0];
  if (this->infer(std::array{x.type()})[0] == x.type()) return {x};
  if constexpr (N == 2)
    if (this->output == each_axis<2>(1)) return {global_avg_pool2d(x)};
  const auto windows = windows_of(x.shape(), this->output);
  const auto [laid, options] = side_by_side(x, windows, 0);
  Tensor y = avg_pool(laid, options);
  for (std::size_t axis = 0; axis < N; ++axis) {  // means over the longest window to means over each
    const Windows& w = windows[axis];
    if (w.even()) continue;
    std::vector<double> shares;
    for (std::int64_t i = 0; i < w.count; ++i)
      shares.push_back(static_cast<double>(w.longest()) / static_cast<double>(w.end(i) - w.begin(i)));
    Shape along{w.count};
    for (std::size_t after = axis + 1; after < N; ++after) along.push_back(1);
    y = y * constant({x.dtype(), along}, shares, x.device());
  }
  return {y};
}

template <std::size_t N>
Tensors AdaptiveMaxPool<N>::decompose(std::span<const Tensor> in) const {
  if (this->infer(std::array{in[0].type()})[0] == in[0].type()) return {in[0]};
  const auto [laid, options] = side_by_side(in[0], windows_of(in[0].shape(), this->output),
                                            -std::numeric_limits<double>::infinity());
  return {max_pool(laid, options)};
}

template <std::size_t N>
template <class O>
std::vector<Sample> AdaptivePool<N>::samples_of(const Fill& fill) {
  std::vector<Sample> all;
  const auto row = [&](std::int64_t channels, const std::array<std::int64_t, 3>& size,
                       const std::array<std::int64_t, 3>& output) {
    auto op = std::make_shared<O>();
    Shape x{2, channels};
    for (std::size_t axis = 0; axis < N; ++axis) x.push_back(size[axis]), op->output[axis] = output[axis];
    all.push_back({op, {{DType::f32, x}}, {fill}});
  };
  row(3, {5, 4, 3}, {1, 1, 1});
  row(16, {8, 6, 4}, {4, 2, 4});  // even
  row(3, {7, 5, 4}, {3, 4, 3});   // uneven, overlapping
  row(2, {3, 7, 5}, {7, 3, 0});   // more windows than places; kept
  row(3, {4, 2, 3}, {0, 2, 3});   // as it is
  return all;
}

template <std::size_t N>
std::vector<Sample> AdaptiveAvgPool<N>::samples() const {
  return AdaptivePool<N>::template samples_of<AdaptiveAvgPool>({});
}

template <std::size_t N>
std::vector<Sample> AdaptiveMaxPool<N>::samples() const {
  return AdaptivePool<N>::template samples_of<AdaptiveMaxPool>({.distinct = true});
}

void define_adaptive_pool() {
  define<AdaptiveAvgPool<1>>();
  define<AdaptiveAvgPool<2>>();
  define<AdaptiveAvgPool<3>>();
  define<AdaptiveMaxPool<1>>();
  define<AdaptiveMaxPool<2>>();
  define<AdaptiveMaxPool<3>>();
}

#define NEURIM_INSTANTIATE(N)        \
  template class AdaptiveAvgPool<N>; \
  template class AdaptiveMaxPool<N>
NEURIM_INSTANTIATE(1);
NEURIM_INSTANTIATE(2);
NEURIM_INSTANTIATE(3);
#undef NEURIM_INSTANTIATE

}  // namespace neurim
