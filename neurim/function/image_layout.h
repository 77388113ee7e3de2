// The order of the axes of images at the border of a function. Inside, plans choose layouts themselves.
#pragma once
#include "neurim/function/function.h"

namespace neurim {

/// How images are given to a function.
enum class InputLayout : std::uint8_t {
  model,  ///< as the function takes them, which by itself is (N,C,H,W)
  nhwc    ///< (N,H,W,C), as cameras, decoders and TensorFlow have them
};

inline const std::string kInputLayout = "input_layout";  ///< among the metadata

/// The layout of that name: "model" or "nhwc". Throws Error(usage) for another one.
InputLayout input_layout_named(std::string_view name);

/// (N,C,H,W) -> (N,H,W,C).
Shape channels_last(const Shape& images);
/// x(N,C,H,W) -> (N,H,W,C).
Tensor channels_last(const Tensor& x);
/// x(N,H,W,C) -> (N,C,H,W).
Tensor channels_first(const Tensor& x);

/// The same function, whose inputs (N,C,H,W) are given as (N,H,W,C). Its metadata say so: "input_layout" is "nhwc".
/// Throws Error(usage) where no input has four axes, and where they are given so already.
Function channels_last(const Function& function, Device device = {});

/// Whether the metadata of a function or of an ONNX file say that it takes images (N,H,W,C).
bool takes_channels_last(const Metadata& metadata);

}  // namespace neurim
