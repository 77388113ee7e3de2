// Two-dimensional convolution.
#pragma once
#include "neurim/nn/module.h"
#include "neurim/nn/size2d.h"

namespace neurim::nn {

/// x(N,in,H,W) -> (N,out,H',W'); parameters weight(out,in/groups,kh,kw) and bias(out).
struct Conv2d {
  struct Config {
    Size2d kernel = 3, stride = 1, pad = 0, dilation = 1;
    std::int64_t groups = 1;
    bool bias = true;
    InitRule init = fan_in_uniform, bias_init = fan_in_uniform;
  };

  Conv2d(std::int64_t in, std::int64_t out);
  Conv2d(std::int64_t in, std::int64_t out,
         const Config& config);  ///< throws Error(usage) when groups do not fit
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  Config config;
  Tensor weight, bias;
};

}  // namespace neurim::nn
