// What a request that is anchored at a convolution asks for: read once, by match_conv(), for all kernels of
// convolutions.
#pragma once
#include <optional>

#include "neurim/backend/cpu/common/add_relu.h"
#include "neurim/backend/cpu/common/isa.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/graph/kernel.h"
#include "neurim/hardware/isa.h"
#include "neurim/ops/conv.h"

namespace neurim::cpu {

enum class Direction : std::uint8_t { forward, input_grad, weight_grad };
Direction direction_of(const Op& op);

/// Whether oneDNN is there and has kernels for blocks of 16 channels: without AVX-512 it has only its plain loops for
/// them. Asked when all kernels are registered.
bool onednn_takes_blocks();

/// a / b rounded down, for a positive b.
inline std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/// The geometry of a convolution over two axes.
struct ConvSizes {
  std::int64_t images, in_channels, out_channels, height, width, out_height, out_width;
  Conv2dOptions options;
  std::int64_t kernel[2];

  static constexpr std::int64_t kImage = 4;  ///< channels of an image at most
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

/// What a kernel that computes `bias + conv (+ add) (, relu)` in registers does.
struct Epilogue {
  bool bias = false, add = false;
  Relu relu;
  int residual = -1;                               ///< the argument that is added
  StorageDtype add_rounded = StorageDtype::exact;  ///< how it is stored
};
/// Reads the steps between the convolution that is step `layer` and step `end`; nothing where they are more than such
/// an epilogue, or where a result before the last one is needed elsewhere.
std::optional<Epilogue> read_epilogue(const KernelRequest& request, std::size_t layer, std::size_t end);

/// A convolution, a gradient of one or a fully connected layer, which is the anchor of a request, and what is fused
/// with it. Indices are those of KernelRequest::values and steps, unless they are called arguments.
struct ConvPattern {
  Direction direction = Direction::forward;
  bool linear = false;  ///< a fully connected layer: `sizes` is empty
  int x = -1, weight = -1, y = -1;
  int bias = -1;           ///< argument, or -1
  ConvSizes sizes{};       ///< of convolutions over two axes
  StorageDtype storage{};  ///< what the plan lets factors be rounded to
  bool f32 = true;         ///< all values are
  bool empty = false;      ///< x or y is
  bool distinct = true;    ///< the op reads two different values
  bool constant_weight = false;
  bool prologue = false;  ///< whether steps precede the anchor
  bool followed = false;  ///< whether steps follow the anchor
  /// Where all that follows is a sum and a ReLU that write one result; else nothing.
  std::optional<Epilogue> epilogue;
  /// The step of a batch norm in training after a forward convolution, or of its gradient after a data gradient.
  std::optional<std::size_t> norm;
  /// The step of a max pooling, which ends the request; the steps before it are in `epilogue`.
  std::optional<std::size_t> pooling;

  /// The activation that the op reads, and its result.
  int source() const { return direction == Direction::forward ? x : y; }
  int result() const { return direction == Direction::forward ? y : direction == Direction::input_grad ? x : weight; }
  /// Whether a value needs the layout of the activations: it is read beside the weight, has the shape of the result or,
  /// with a prologue, that of the activation.
  bool is_activation(const KernelRequest& request, int value) const;
  /// Null, or what no kernel of f32 convolutions takes.
  const char* against() const {
    return !f32 ? "takes f32 only" : empty ? "takes no empty tensors" : !distinct ? "takes two operands" : nullptr;
  }
};

/// Reads a request that is anchored at a convolution over any number of axes, at a gradient of one or at a fully
/// connected layer.
ConvPattern match_conv(const KernelRequest& request);

/// Blocks of 16 channels or features; where factors are rounded to 16 bits, stored so where the value may be.
Layout blocked_layout(const KernelRequest& request, int value, const Layout& blocks = kBlocked);

/// Registers a kernel of convolutions, whose functions receive the pattern that the request matches.
template <Launch (*prepare)(KernelRequest&, const ConvPattern&), bool (*propose)(KernelRequest&, const ConvPattern&)>
void add_conv_kernel(Kernel kernel) {
  kernel.prepare = [](KernelRequest& request) { return prepare(request, match_conv(request)); };
  kernel.propose_layouts = [](KernelRequest& request) { return propose(request, match_conv(request)); };
  add_kernel(kernel);
}

}  // namespace neurim::cpu
