// Transposed convolution over one, two or three axes.
#pragma once
#include "neurim/nn/module.h"
#include "neurim/nn/size.h"

namespace neurim::nn {

/// x(N,in,…) -> (N,out,…) over N axes; parameters weight(in,out/groups,k…) and bias(out).
template <std::size_t N>
struct ConvTranspose {
  struct Config {
    Size<N> kernel = 3, stride = 1, pad = 0, output_padding = 0, dilation = 1;
    std::int64_t groups = 1;
    bool bias = true;
    InitRule init = fan_in_uniform;  ///< of the weight's shape as it stands: PyTorch's fan is out/groups*k…

    void fields(Fields& f) {
      f("kernel", kernel)("stride", stride)("pad", pad)("output_padding", output_padding);
      f("dilation", dilation)("groups", groups)("bias", bias)("init", init);
    }
  };

  ConvTranspose(std::int64_t in, std::int64_t out);
  ConvTranspose(std::int64_t in, std::int64_t out,
                const Config& config);  ///< throws Error(usage) when groups do not fit
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  Config config;
  Tensor weight, bias;
};
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;

}  // namespace neurim::nn
