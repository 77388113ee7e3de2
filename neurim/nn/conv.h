// Convolution over one, two or three axes.
#pragma once
#include <string>
#include <string_view>

#include "neurim/nn/module.h"
#include "neurim/nn/size.h"

namespace neurim::nn {

/// The padding of a convolution: so much at both ends of each axis, or one of PyTorch's words: "valid" for
/// none, "same" for what keeps the size at stride 1 (where it is odd, the end has one more). Another word
/// throws Error(usage).
template <std::size_t N>
struct Padding {
  Size<N> size = 0;   ///< at both ends of each axis; unused where `same`
  bool same = false;  ///< the padding follows from kernel and dilation

  constexpr Padding(std::int64_t all) : size(all) {}        ///< the same on all axes
  constexpr Padding(const Size<N>& sizes) : size(sizes) {}  ///< one number an axis
  /// One number an axis.
  template <std::convertible_to<std::int64_t>... Sizes>
    requires(N > 1 && sizeof...(Sizes) == N)
  constexpr Padding(Sizes... sizes) : size(sizes...) {}
  /// "same" or "valid".
  template <std::convertible_to<std::string_view> Word>
  Padding(const Word& word) : Padding(named(word)) {}

  /// All begins, then all ends, for a window of this kernel.
  std::array<std::int64_t, 2 * N> ends(const Size<N>& kernel, const Size<N>& dilation) const;

 private:
  static Padding named(std::string_view word);
};

/// Visited as a word: "same", "valid", or numbers with commas, "1" or "1,2".
template <std::size_t N>
void field(Fields& f, std::string_view name, Padding<N>& pad);

/// x(N,in,…) -> (N,out,…) over N axes; parameters weight(out,in/groups,k…) and bias(out).
template <std::size_t N>
struct Conv {
  /// Options; the names follow PyTorch's.
  struct Config {
    Size<N> kernel = 3,                  ///< of the window, an axis
        stride = 1;                      ///< steps between windows, an axis
    Padding<N> pad = 0;                  ///< "same" takes stride 1 only
    std::string padding_mode = "zeros";  ///< or "reflect", "replicate", "circular": see pad of ops/pad.h
    Size<N> dilation = 1;                ///< distance of the kernel's elements; 1: adjacent
    std::int64_t groups = 1;             ///< each takes in/groups channels to out/groups
    bool bias = true;                    ///< adds bias(out) to the result
    InitRule init = fan_in_uniform,      ///< of the weight
        bias_init = fan_in_uniform;      ///< of the bias

    void fields(Fields& f) {
      f("kernel", kernel)("stride", stride)("pad", pad)("padding_mode", padding_mode)("dilation", dilation);
      f("groups", groups)("bias", bias)("init", init)("bias_init", bias_init);
    }
  };

  Conv(std::int64_t in, std::int64_t out);  ///< with the default Config: kernel 3, stride 1, no padding
  /// Throws Error(usage) when groups, the padding or its mode do not fit.
  Conv(std::int64_t in, std::int64_t out, const Config& config);
  void parts(Parts& p);
  /// x (N,in,…); gives (N,out,…), of size (s + pads - dilation * (k - 1) - 1) / stride + 1 on an axis of size s.
  Tensor operator()(const Tensor& x) const;

  Config config;  ///< as given
  Tensor weight,  ///< (out,in/groups,k…)
      bias;       ///< (out), or undefined without bias
};
/// x(N,in,L) -> (N,out,L'), as torch.nn.Conv1d.
using Conv1d = Conv<1>;
/// x(N,in,H,W) -> (N,out,H',W'), as torch.nn.Conv2d.
using Conv2d = Conv<2>;
/// x(N,in,D,H,W) -> (N,out,D',H',W'), as torch.nn.Conv3d.
using Conv3d = Conv<3>;

}  // namespace neurim::nn
