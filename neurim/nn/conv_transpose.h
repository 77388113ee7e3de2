// Transposed convolution over one, two or three axes.
#pragma once
#include "neurim/nn/module.h"
#include "neurim/nn/size.h"

namespace neurim::nn {

/// x(N,in,…) -> (N,out,…) over N axes; parameters weight(in,out/groups,k…) and bias(out).
template <std::size_t N>
struct ConvTranspose {
  /// Options; the names follow PyTorch's.
  struct Config {
    Size<N> kernel = 3,              ///< of the window, an axis
        stride = 1,                  ///< from window to window of the result
        pad = 0,                     ///< cut off both ends of the result
        output_padding = 0,          ///< added to the result's size at the end of each axis
        dilation = 1;                ///< distance of the kernel's elements; 1: adjacent
    std::int64_t groups = 1;         ///< each takes in/groups channels to out/groups
    bool bias = true;                ///< adds bias(out) to the result
    InitRule init = fan_in_uniform;  ///< of the weight's shape as it stands: PyTorch's fan is out/groups*k…

    void fields(Fields& f) {
      f("kernel", kernel)("stride", stride)("pad", pad)("output_padding", output_padding);
      f("dilation", dilation)("groups", groups)("bias", bias)("init", init);
    }
  };

  ConvTranspose(std::int64_t in, std::int64_t out);  ///< with the default Config: kernel 3, stride 1, no padding
  ConvTranspose(std::int64_t in, std::int64_t out,
                const Config& config);  ///< throws Error(usage) when groups do not fit
  void parts(Parts& p);
  /// x (N,in,…); gives (N,out,…), of size (s - 1) * stride - 2 * pad + dilation * (k - 1) + output_padding + 1 on an
  /// axis of size s.
  Tensor operator()(const Tensor& x) const;

  Config config;  ///< as given
  Tensor weight,  ///< (in,out/groups,k…)
      bias;       ///< (out), or undefined without bias
};
/// x(N,in,L) -> (N,out,L'), as torch.nn.ConvTranspose1d.
using ConvTranspose1d = ConvTranspose<1>;
/// x(N,in,H,W) -> (N,out,H',W'), as torch.nn.ConvTranspose2d.
using ConvTranspose2d = ConvTranspose<2>;
/// x(N,in,D,H,W) -> (N,out,D',H',W'), as torch.nn.ConvTranspose3d.
using ConvTranspose3d = ConvTranspose<3>;

}  // namespace neurim::nn
