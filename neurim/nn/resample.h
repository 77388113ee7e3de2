// Layers that change the size of images or the order of their elements, without parameters.
#pragma once
#include <string>
#include <vector>

#include "neurim/graph/op.h"

namespace neurim::nn {

/// x(N,C,L) or x(N,C,H,W) resampled to `size`, or by `scale_factor`, one number for all spatial axes or one
/// each; see interpolate for the modes.
struct Upsample {
  std::vector<std::int64_t> size = {};    ///< of the spatial axes of the result; or scale_factor
  std::vector<double> scale_factor = {};  ///< a size s becomes floor(s * factor)
  std::string mode = "nearest";           ///< or "nearest-exact", "linear", "bilinear", "bicubic"
  bool align_corners = false;             ///< corner elements keep their place, by centres; not for nearest
  void fields(Fields& f) {
    f("size", size)("scale_factor", scale_factor)("mode", mode)("align_corners", align_corners);
  }
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,L) or (N,C,H,W); gives the same number of axes
};

/// (N,C*r*r,H,W) -> (N,C,H*r,W*r), as torch.nn.PixelShuffle.
struct PixelShuffle {
  std::int64_t upscale_factor = 2;  ///< r
  void fields(Fields& f) { f("upscale_factor", upscale_factor); }
  Tensor operator()(const Tensor& x) const;  ///< x (N,C*r*r,H,W); gives (N,C,H*r,W*r)
};
/// (N,C,H*r,W*r) -> (N,C*r*r,H,W), as torch.nn.PixelUnshuffle.
struct PixelUnshuffle {
  std::int64_t downscale_factor = 2;  ///< r
  void fields(Fields& f) { f("downscale_factor", downscale_factor); }
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,H*r,W*r); gives (N,C*r*r,H,W)
};
/// Mixes the channels of `groups` groups; the shape stays.
struct ChannelShuffle {
  std::int64_t groups = 2;  ///< divides the channels
  void fields(Fields& f) { f("groups", groups); }
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,…); gives the same shape
};

}  // namespace neurim::nn
