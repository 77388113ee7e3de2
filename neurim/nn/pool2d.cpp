#include "neurim/nn/pool2d.h"

#include "neurim/ops/avg_pool2d.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/max_pool2d.h"

namespace neurim::nn {

Tensor MaxPool2d::operator()(const Tensor& x) const {
  return max_pool2d(x, {.kernel = kernel,
                        .stride = stride,
                        .pad = both_ends(pad),
                        .dilation = dilation,
                        .ceil_mode = ceil_mode});
}

Tensor AvgPool2d::operator()(const Tensor& x) const {
  return avg_pool2d(x, {.kernel = kernel,
                        .stride = stride,
                        .pad = both_ends(pad),
                        .ceil_mode = ceil_mode,
                        .count_include_pad = count_include_pad});
}

Tensor GlobalAvgPool2d::operator()(const Tensor& x) const { return global_avg_pool2d(x); }

}  // namespace neurim::nn
