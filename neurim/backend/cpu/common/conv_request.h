// What a request that begins with a convolution, or with a gradient of one, asks for.
#pragma once
#include "neurim/backend/cpu/common/isa.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/relu.h"
#include "neurim/graph/kernel.h"
#include "neurim/hardware/isa.h"
#include "neurim/ops/conv.h"

namespace neurim::cpu {

enum class Direction : std::uint8_t { forward, input_grad, weight_grad };
Direction direction_of(const KernelRequest& request);

/// Where x, weight and y stand among the values of a request: numbers of KernelRequest::values. The anchor alone says.
struct Operands {
  int x, weight, y;
};
Operands operands_of(const KernelRequest& request);

/// Whether a value is what a convolution or a data gradient reads besides the weight, is like its result, or with steps
/// before it like what it reads: these lie alike.
bool is_activation(const KernelRequest& request, int value);

/// Blocks of 16 channels or features, where factors are rounded to bf16 rounded where the value may be and is in
/// memory.
Layout blocked_layout(const KernelRequest& request, int value, const Layout& blocks = kBlocked);

/// Whether oneDNN has kernels for blocks of 16 channels: not without AVX-512, where its loops for them are plain ones.
inline bool onednn_takes_blocks() { return isa() == Isa::avx512; }

/// Of the two-dimensional convolution that the anchor is, or a gradient of.
const Conv2dOptions& options_of(const KernelRequest& request);
struct ConvSizes {
  std::int64_t images, in_channels, out_channels, height, width, out_height, out_width;
  Conv2dOptions options;
  std::int64_t kernel[2];

  static constexpr std::int64_t kImage = 4;  ///< channels of one at most
  bool image() const { return in_channels <= kImage; }
  bool at_stride_1() const { return options.stride == std::array<std::int64_t, 2>{1, 1}; }
  /// Whether each pixel of y reads the one in its place alone.
  bool pixelwise() const {
    return kernel[0] == 1 && kernel[1] == 1 && at_stride_1() && height == out_height && width == out_width;
  }
  /// Whether kernels for few channels, which waste no lanes, do better.
  bool suits_nchw16n() const {
    return at_stride_1() && !((image() || many_channels(in_channels)) && many_channels(out_channels));
  }
};
ConvSizes sizes_of(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& options);
ConvSizes sizes_of(const KernelRequest& request);

/// What follows a forward convolution in the request.
struct Epilogue {
  bool bias = false, add = false;
  Relu relu;
  int residual = -1;                               ///< number of the request's input
  StorageDtype add_rounded = StorageDtype::exact;  ///< how that stands (Layout::storage)
};
/// Reads {conv}, {conv,relu}, {conv,add}, {conv,add,relu}, with relu6 too; false: another fusion group.
bool read_epilogue(const KernelRequest& request, Epilogue& epilogue);
/// The same of the convolution that is step `conv`, up to step `last`.
bool read_epilogue(const KernelRequest& request, std::size_t conv, std::size_t last, Epilogue& epilogue);

}  // namespace neurim::cpu
