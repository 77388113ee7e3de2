// A model with layers in fewer bits.
#pragma once
#include "neurim/quantize/statistics.h"

namespace neurim {

/// How layers are written in 8 bits.
struct ByteOptions {
  RangeMethod method = RangeMethod::mse;  ///< of what layers read
  DType activations = DType::u8;          ///< u8, or i8 around 0, as TensorRT takes them
  DType others = DType::f32;              ///< what the other layers compute in: f32, f16 or bf16
  bool correct_bias = true;  ///< adds to the bias what rounded weights change in the mean (Nagel et al., ICCV 2019)
};

/// The function with those layers in 8 bits whose place in `bytes` says so: weights are i8 with a scale for each output
/// channel, what the layer reads and what is added behind it go through quantize and dequantize. Plans compute such
/// layers in whole numbers where they have kernels for it. The other layers read and give `others`; what lies between
/// layers is f32.
Function quantized(const FloatModel& model, const Statistics& statistics, const std::vector<bool>& bytes,
                   const ByteOptions& options);

/// Weights that share a scale.
struct WeightGroups {
  std::int64_t size = 1;  ///< neighbours of a group
  double most = 127;      ///< the largest whole number of a weight
};
/// How weights_quantized() writes a weight (O,…).
WeightGroups weight_groups(const Shape& weight, int bits, std::int64_t group);

/// The function with weights of `bits`, 8 or 4, and scales for each `group` of neighbouring weights of an output
/// channel; 0: one for the channel. Two weights of 4 bits share a byte. All is computed in f32. Layers whose weights
/// `group` does not divide have one scale a channel. A scale is that which errs least, or with `whole` that of the
/// largest weight.
Function weights_quantized(const FloatModel& model, int bits, std::int64_t group, const std::vector<bool>& chosen,
                           bool whole = false);

}  // namespace neurim
