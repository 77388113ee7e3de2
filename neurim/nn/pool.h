// Pooling layers, without parameters.
#pragma once
#include "neurim/nn/size.h"

namespace neurim::nn {

/// x(N,C,…) -> (N,C,…): the maximum of each window over N axes.
template <std::size_t N>
struct MaxPool {
  Size<N> kernel = 2;      ///< of the window, an axis
  Size<N> stride = 0;      ///< 0: the kernel
  Size<N> pad = 0,         ///< at both ends of each axis; never the maximum
      dilation = 1;        ///< distance of a window's elements; 1: adjacent
  bool ceil_mode = false;  ///< also the last window that overhangs
  void fields(Fields& f) {
    f("kernel", kernel)("stride", stride)("pad", pad)("dilation", dilation)("ceil_mode", ceil_mode);
  }
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,…); gives (N,C,…), one element a window
};
/// x(N,C,L) -> (N,C,L'), as torch.nn.MaxPool1d.
using MaxPool1d = MaxPool<1>;
/// x(N,C,H,W) -> (N,C,H',W'), as torch.nn.MaxPool2d.
using MaxPool2d = MaxPool<2>;
/// x(N,C,D,H,W) -> (N,C,D',H',W'), as torch.nn.MaxPool3d.
using MaxPool3d = MaxPool<3>;

/// x(N,C,…) -> (N,C,…): the mean of each window over N axes.
template <std::size_t N>
struct AvgPool {
  Size<N> kernel = 2;            ///< of the window, an axis
  Size<N> stride = 0;            ///< 0: the kernel
  Size<N> pad = 0;               ///< zeros at both ends of each axis
  bool ceil_mode = false,        ///< also the last window that overhangs
      count_include_pad = true;  ///< whether padding counts in the divisor
  void fields(Fields& f) {
    f("kernel", kernel)("stride", stride)("pad", pad)("ceil_mode", ceil_mode);
    f("count_include_pad", count_include_pad);
  }
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,…); gives (N,C,…), one element a window
};
/// x(N,C,L) -> (N,C,L'), as torch.nn.AvgPool1d.
using AvgPool1d = AvgPool<1>;
/// x(N,C,H,W) -> (N,C,H',W'), as torch.nn.AvgPool2d.
using AvgPool2d = AvgPool<2>;
/// x(N,C,D,H,W) -> (N,C,D',H',W'), as torch.nn.AvgPool3d.
using AvgPool3d = AvgPool<3>;

/// x(N,C,…) -> (N,C,…): the norm of each window over N axes; see lp_pool.
template <std::size_t N>
struct LpPool {
  double norm_type = 2;    ///< p, 1 or more
  Size<N> kernel = 2;      ///< of the window, an axis
  Size<N> stride = 0;      ///< 0: the kernel
  bool ceil_mode = false;  ///< also the last window that overhangs, scaled up to a whole one
  void fields(Fields& f) { f("norm_type", norm_type)("kernel", kernel)("stride", stride)("ceil_mode", ceil_mode); }
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,…); gives (N,C,…), one element a window
};
/// x(N,C,L) -> (N,C,L').
using LpPool1d = LpPool<1>;
/// x(N,C,H,W) -> (N,C,H',W').
using LpPool2d = LpPool<2>;
/// x(N,C,D,H,W) -> (N,C,D',H',W').
using LpPool3d = LpPool<3>;

/// x(N,C,…) of any size -> (N,C,output): the mean of windows that cover N axes; see adaptive_avg_pool.
template <std::size_t N>
struct AdaptiveAvgPool {
  Size<N> output = 1;  ///< 0: the input's size
  void fields(Fields& f) { f("output", output); }
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,…); gives (N,C,output)
};
/// x(N,C,L) -> (N,C,output), as torch.nn.AdaptiveAvgPool1d.
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
/// x(N,C,H,W) -> (N,C,output), as torch.nn.AdaptiveAvgPool2d.
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
/// x(N,C,D,H,W) -> (N,C,output), as torch.nn.AdaptiveAvgPool3d.
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;

/// The same with the maximum.
template <std::size_t N>
struct AdaptiveMaxPool {
  Size<N> output = 1;  ///< 0: the input's size
  void fields(Fields& f) { f("output", output); }
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,…); gives (N,C,output)
};
/// x(N,C,L) -> (N,C,output), as torch.nn.AdaptiveMaxPool1d.
using AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
/// x(N,C,H,W) -> (N,C,output), as torch.nn.AdaptiveMaxPool2d.
using AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
/// x(N,C,D,H,W) -> (N,C,output), as torch.nn.AdaptiveMaxPool3d.
using AdaptiveMaxPool3d = AdaptiveMaxPool<3>;

/// x(N,C,H,W) -> (N,C,1,1): the mean of each channel.
struct GlobalAvgPool2d {
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,H,W); gives (N,C,1,1)
};

/// x(N,C,H,W) -> (N,C,1,1): the maximum of each channel.
struct GlobalMaxPool2d {
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,H,W); gives (N,C,1,1)
};

}  // namespace neurim::nn
