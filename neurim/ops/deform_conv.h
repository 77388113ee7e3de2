// Convolution whose taps are moved by offsets that the network computes.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// How a deformable convolution moves its kernel; one number for each axis after (N,C).
struct DeformConvOptions {
  std::vector<std::int64_t> stride,  ///< steps of the kernel
      dilation,                      ///< distances between taps
      pad;                           ///< all begins, then all ends; zeros
  std::int64_t groups = 1;           ///< divides the input and the output channels
  std::int64_t offset_groups = 1;    ///< divides the input channels; those of a group share offsets
};

/// x(N,C,…) with weight(O,C/groups,k…), offset(N,offset_groups*T*D,…out) for T taps and D axes, each tap's D numbers
/// after each other, and when given bias(O) and mask(N,offset_groups*T,…out), by which what a tap meets is multiplied
/// -> (N,O,…out). A tap meets x between its elements, linearly, and 0 outside of it (Dai et al., "Deformable
/// convolutional networks", ICCV'17; Zhu et al., "Deformable ConvNets v2", CVPR'19). One floating dtype. Has no
/// gradient.
Tensor deform_conv(const Tensor& x, const Tensor& weight, const Tensor& offset, const Tensor& bias, const Tensor& mask,
                   const DeformConvOptions& options);

/// What the taps meet. Inputs (x, offset[, mask]) -> (N,C,T,places).
class DeformColumns final : public Op {
 public:
  std::vector<std::int64_t> kernel,  ///< taps along each axis
      stride,                        ///< as of DeformConvOptions
      dilation,                      ///< the same
      pad;                           ///< the same
  std::int64_t offset_groups = 1;    ///< the same
  std::string_view name() const override { return "deform_columns"; }
  void fields(Fields& f) override {
    f("kernel", kernel)("stride", stride)("dilation", dilation)("pad", pad)("offset_groups", offset_groups);
  }
  Types infer(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
  std::int64_t taps() const;  ///< of the kernel
};

}  // namespace neurim
