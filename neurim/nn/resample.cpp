#include "neurim/nn/resample.h"

#include "neurim/ops/interpolate.h"
#include "neurim/ops/pixel_shuffle.h"

namespace neurim::nn {

Tensor Upsample::operator()(const Tensor& x) const { return interpolate(x, {size, scale_factor, mode, align_corners}); }

Tensor PixelShuffle::operator()(const Tensor& x) const { return pixel_shuffle(x, upscale_factor); }
Tensor PixelUnshuffle::operator()(const Tensor& x) const { return pixel_unshuffle(x, downscale_factor); }
Tensor ChannelShuffle::operator()(const Tensor& x) const { return channel_shuffle(x, groups); }

}  // namespace neurim::nn
