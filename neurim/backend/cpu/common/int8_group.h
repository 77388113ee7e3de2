// What kernels of 8 bits take: a convolution or a fully connected layer whose activation and weights come through a
// dequantize each, alone, as a residual may; what follows, a sum with the residual, a relu, and quantize, is one
// product with a scale for each channel (Jacob et al., see ops/quantize.h).
#pragma once
#include <vector>

#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/int8/int8_product.h"

namespace neurim::cpu {

/// A value that stands for another: whole numbers and their scale, numbers of the request's values.
struct Whole {
  int value = -1, scale = -1;
  std::int64_t zero_point = 0;
};

/// The request, as far as its types tell.
struct Int8Group {
  Whole x, weight, residual, y;  ///< y: where there is no quantize, the value alone
  int bias = -1;
  Relu relu;
  bool linear = false, depthwise = false;
  ConvSizes sizes;  ///< of a fully connected layer: a 1x1 convolution of rows of features

  bool plain = false;  ///< the features of a row stand together
  bool image() const { return sizes.image(); }
  bool in_place() const { return linear || (sizes.pixelwise() && !depthwise && !image()); }
};

inline const TensorDesc& desc_of(const KernelRequest& request, int value) { return request.values[value]; }

/// Reads the request; null, or why not.
const char* read_group(const KernelRequest& request, const ConvPattern& pattern, Int8Group& group);

/// The layouts of activations, images in blocks of 16 channels or features; not of weights.
Layout activation_layout(const Int8Group& group, int value);

/// The arguments of a kernel, and what sums become.
struct ByteOperands {
  int x, weight, residual, y;       ///< arguments; residual: or -1
  std::uint8_t flip;                ///< makes u8 of the bits of x
  std::uint8_t zero;                ///< of x, then
  std::vector<std::int32_t> start;  ///< of each channel, as are the next two: see ByteEpilogue
  std::vector<float> scale, bias;
  ByteEpilogue epilogue;
  std::int64_t out_channels;

  /// Reads what is known of the request; null, or why not. Sums start with 0.
  const char* read(const KernelRequest& request, const Int8Group& group);

  const std::uint8_t* in(const Args& args, int argument) const {
    return static_cast<const std::uint8_t*>(args.in[argument]);
  }
  std::uint8_t* out(const Args& args, std::int64_t at) const {
    return static_cast<std::uint8_t*>(args.out[y]) + (epilogue.floats ? at * 4 : at);
  }
  /// The epilogue of blocks from `block` on, whose results lie from element `at` on.
  ByteEpilogue after(const Args& args, std::int64_t block, std::int64_t at) const;
};

}  // namespace neurim::cpu
