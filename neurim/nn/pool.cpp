#include "neurim/nn/pool.h"

#include "neurim/ops/adaptive_pool.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/global_max_pool2d.h"
#include "neurim/ops/lp_pool.h"
#include "neurim/ops/max_pool.h"

namespace neurim::nn {

template <std::size_t N>
Tensor MaxPool<N>::operator()(const Tensor& x) const {
  return max_pool(
      x, PoolOptions<N>{
             .kernel = kernel, .stride = stride, .pad = both_ends(pad), .dilation = dilation, .ceil_mode = ceil_mode});
}

template <std::size_t N>
Tensor AvgPool<N>::operator()(const Tensor& x) const {
  return avg_pool(x, PoolOptions<N>{.kernel = kernel,
                                    .stride = stride,
                                    .pad = both_ends(pad),
                                    .ceil_mode = ceil_mode,
                                    .count_include_pad = count_include_pad});
}

template <std::size_t N>
Tensor LpPool<N>::operator()(const Tensor& x) const {
  return lp_pool(x, LpPoolOptions<N>{norm_type, kernel, stride, ceil_mode});
}

template <std::size_t N>
Tensor AdaptiveAvgPool<N>::operator()(const Tensor& x) const {
  return adaptive_avg_pool<N>(x, output);
}

template <std::size_t N>
Tensor AdaptiveMaxPool<N>::operator()(const Tensor& x) const {
  return adaptive_max_pool<N>(x, output);
}

Tensor GlobalAvgPool2d::operator()(const Tensor& x) const { return global_avg_pool2d(x); }

Tensor GlobalMaxPool2d::operator()(const Tensor& x) const { return global_max_pool2d(x); }

#define NEURIM_INSTANTIATE(N)         \
  template struct MaxPool<N>;         \
  template struct AvgPool<N>;         \
  template struct LpPool<N>;          \
  template struct AdaptiveAvgPool<N>; \
  template struct AdaptiveMaxPool<N>
NEURIM_INSTANTIATE(1);
NEURIM_INSTANTIATE(2);
NEURIM_INSTANTIATE(3);
#undef NEURIM_INSTANTIATE

}  // namespace neurim::nn
