// Layers that change the size of images or the order of their elements, without parameters.
#pragma once
#include <string>
#include <vector>

#include "neurim/graph/op.h"

namespace neurim::nn {

/// x(N,C,L) or x(N,C,H,W) resampled to `size`, or by `scale_factor`, one number for all spatial axes or one
/// each; see interpolate for the modes.
struct Upsample {
  std::vector<std::int64_t> size = {};
  std::vector<double> scale_factor = {};
  std::string mode = "nearest";
  bool align_corners = false;
  void fields(Fields& f) {
    f("size", size)("scale_factor", scale_factor)("mode", mode)("align_corners", align_corners);
  }
  Tensor operator()(const Tensor& x) const;
};

/// (N,C*r*r,H,W) -> (N,C,H*r,W*r)
struct PixelShuffle {
  std::int64_t upscale_factor = 2;
  void fields(Fields& f) { f("upscale_factor", upscale_factor); }
  Tensor operator()(const Tensor& x) const;
};
/// (N,C,H*r,W*r) -> (N,C*r*r,H,W)
struct PixelUnshuffle {
  std::int64_t downscale_factor = 2;
  void fields(Fields& f) { f("downscale_factor", downscale_factor); }
  Tensor operator()(const Tensor& x) const;
};
/// Mixes the channels of `groups` groups; the shape stays.
struct ChannelShuffle {
  std::int64_t groups = 2;
  void fields(Fields& f) { f("groups", groups); }
  Tensor operator()(const Tensor& x) const;
};

}  // namespace neurim::nn
