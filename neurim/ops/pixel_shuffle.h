// Moving elements between channels and pixels, and among channels.
#pragma once
#include "neurim/ops/reshape.h"
#include "neurim/ops/transpose.h"

namespace neurim {

/// x(N,C*r*r,H,W), any dtype -> (N,C,H*r,W*r): r*r channels become a square of pixels (Shi et al., "Real-time
/// single image and video super-resolution", CVPR'16). Throws Error(usage) when the channels do not divide.
inline Tensor pixel_shuffle(const Tensor& x, std::int64_t upscale_factor) {
  const std::int64_t r = upscale_factor;
  require(x.rank() == 4 && r > 0 && x.size(1) % (r * r) == 0, "pixel_shuffle: takes x(N,C,H,W) with C a ",
          "multiple of the square of upscale_factor, got ", x.shape(), " and ", r);
  const Dim n = x.size(0), c = x.size(1) / (r * r), h = x.size(2), w = x.size(3);
  return reshape(transpose(reshape(x, {n, c, r, r, h, w}), {0, 1, 4, 2, 5, 3}), {n, c, h * r, w * r});
}

/// x(N,C,H*r,W*r), any dtype -> (N,C*r*r,H,W): the inverse of pixel_shuffle. Throws Error(usage) when height
/// or width do not divide.
inline Tensor pixel_unshuffle(const Tensor& x, std::int64_t downscale_factor) {
  const std::int64_t r = downscale_factor;
  require(x.rank() == 4 && r > 0 && x.size(2) % r == 0 && x.size(3) % r == 0,
          "pixel_unshuffle: takes x(N,C,H,W) with H and W multiples of downscale_factor, got ", x.shape(), " and ", r);
  const Dim n = x.size(0), c = x.size(1), h = x.size(2) / r, w = x.size(3) / r;
  return reshape(transpose(reshape(x, {n, c, h, r, w, r}), {0, 1, 3, 5, 2, 4}), {n, c * r * r, h, w});
}

/// x(N,C,…), any dtype: the channels, read as (groups, C/groups), in the order of (C/groups, groups) (Zhang
/// et al., "ShuffleNet", CVPR'18). Throws Error(usage) when the channels do not divide.
inline Tensor channel_shuffle(const Tensor& x, std::int64_t groups) {
  require(x.rank() >= 2 && groups > 0 && x.size(1) % groups == 0, "channel_shuffle: takes x(N,C,…) with C a ",
          "multiple of groups, got ", x.shape(), " and ", groups);
  const Shape apart{x.size(0), groups, x.size(1) / groups, x.size(0) == 0 ? 0 : -1};
  return reshape(transpose(reshape(x, apart), {0, 2, 1, 3}), x.shape());
}

}  // namespace neurim
