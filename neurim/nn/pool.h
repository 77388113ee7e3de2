// Pooling layers, without parameters.
#pragma once
#include "neurim/nn/size.h"

namespace neurim::nn {

/// x(N,C,…) -> (N,C,…): the maximum of each window over N axes.
template <std::size_t N>
struct MaxPool {
  Size<N> kernel = 2;
  Size<N> stride = 0;  ///< 0: the kernel
  Size<N> pad = 0, dilation = 1;
  bool ceil_mode = false;
  void fields(Fields& f) {
    f("kernel", kernel)("stride", stride)("pad", pad)("dilation", dilation)("ceil_mode", ceil_mode);
  }
  Tensor operator()(const Tensor& x) const;
};
using MaxPool1d = MaxPool<1>;
using MaxPool2d = MaxPool<2>;
using MaxPool3d = MaxPool<3>;

/// x(N,C,…) -> (N,C,…): the mean of each window over N axes.
template <std::size_t N>
struct AvgPool {
  Size<N> kernel = 2;
  Size<N> stride = 0;  ///< 0: the kernel
  Size<N> pad = 0;
  bool ceil_mode = false, count_include_pad = true;
  void fields(Fields& f) {
    f("kernel", kernel)("stride", stride)("pad", pad)("ceil_mode", ceil_mode);
    f("count_include_pad", count_include_pad);
  }
  Tensor operator()(const Tensor& x) const;
};
using AvgPool1d = AvgPool<1>;
using AvgPool2d = AvgPool<2>;
using AvgPool3d = AvgPool<3>;

/// x(N,C,…) -> (N,C,…): the norm of each window over N axes; see lp_pool.
template <std::size_t N>
struct LpPool {
  double norm_type = 2;
  Size<N> kernel = 2;
  Size<N> stride = 0;  ///< 0: the kernel
  bool ceil_mode = false;
  void fields(Fields& f) { f("norm_type", norm_type)("kernel", kernel)("stride", stride)("ceil_mode", ceil_mode); }
  Tensor operator()(const Tensor& x) const;
};
using LpPool1d = LpPool<1>;
using LpPool2d = LpPool<2>;
using LpPool3d = LpPool<3>;

/// x(N,C,…) of any size -> (N,C,output): the mean of windows that cover N axes; see adaptive_avg_pool.
template <std::size_t N>
struct AdaptiveAvgPool {
  Size<N> output = 1;  ///< 0: the input's size
  void fields(Fields& f) { f("output", output); }
  Tensor operator()(const Tensor& x) const;
};
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;

/// The same with the maximum.
template <std::size_t N>
struct AdaptiveMaxPool {
  Size<N> output = 1;  ///< 0: the input's size
  void fields(Fields& f) { f("output", output); }
  Tensor operator()(const Tensor& x) const;
};
using AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPool<3>;

/// x(N,C,H,W) -> (N,C,1,1): the mean of each channel.
struct GlobalAvgPool2d {
  Tensor operator()(const Tensor& x) const;
};

/// x(N,C,H,W) -> (N,C,1,1): the maximum of each channel.
struct GlobalMaxPool2d {
  Tensor operator()(const Tensor& x) const;
};

}  // namespace neurim::nn
