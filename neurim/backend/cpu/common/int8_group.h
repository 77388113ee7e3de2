// The fusion groups of int8 kernels: a convolution or a fully connected layer whose activation, weights and residual
// are dequantized, followed by a sum, a ReLU and quantize, each of which may be missing. The kernel multiplies
// integers; what follows becomes one scale and bias for each channel (Jacob et al., see ops/quantize.h).
#pragma once
#include <vector>

#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/int8/int8_product.h"

namespace neurim::cpu {

/// A quantized value: the numbers of its integers and its scale among the request's values.
struct Whole {
  int value = -1, scale = -1;
  std::int64_t zero_point = 0;
};

/// The operands and steps of a request that matches.
struct Int8Group {
  Whole x, weight, residual, y;  ///< y has no scale where the request does not end with quantize
  int bias = -1;
  Relu relu;
  bool linear = false, depthwise = false;
  ConvSizes sizes;  ///< of a fully connected layer: a 1x1 convolution of rows of features

  bool plain = false;  ///< a fully connected layer in the plain layout
  bool image() const { return sizes.image(); }
  bool in_place() const { return linear || (sizes.pixelwise() && !depthwise && !image()); }
};

inline const TensorDesc& desc_of(const KernelRequest& request, int value) { return request.values[value]; }

/// Reads the request; null, or the reason to decline.
const char* read_group(const KernelRequest& request, const ConvPattern& pattern, Int8Group& group);

/// The layout of an activation: blocks of 16 channels or features, except for images; plain for other values.
Layout activation_layout(const Int8Group& group, int value);

/// The arguments of a kernel, and the scale and bias of its sums.
struct ByteOperands {
  int x, weight, residual, y;       ///< arguments; residual: or -1
  std::uint8_t flip;                ///< x xor flip is u8
  std::uint8_t zero;                ///< the zero point of that
  std::vector<std::int32_t> start;  ///< for each channel, as scale and bias: see ByteEpilogue
  std::vector<float> scale, bias;
  ByteEpilogue epilogue;
  std::int64_t out_channels;

  /// Reads scales and biases, which have to be known; null, or the reason to decline. Sums start with 0.
  const char* read(const KernelRequest& request, const Int8Group& group);

  const std::uint8_t* in(const Args& args, int argument) const {
    return static_cast<const std::uint8_t*>(args.in[argument]);
  }
  std::uint8_t* out(const Args& args, std::int64_t at) const {
    return static_cast<std::uint8_t*>(args.out[y]) + (epilogue.floats ? at * 4 : at);
  }
  /// The epilogue of the blocks from `block` on, whose results begin at element `at`.
  ByteEpilogue after(const Args& args, std::int64_t block, std::int64_t at) const;
};

}  // namespace neurim::cpu
