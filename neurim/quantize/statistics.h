// What a model's layers read, over some images.
#pragma once
#include <map>
#include <vector>

#include "neurim/quantize/layers.h"
#include "neurim/quantize/observer.h"

namespace neurim {

/// The numbers of one value of a graph. Channels lie along axis 1 of images, else along the last axis.
struct ValueStatistics {
  Observer numbers;                  ///< all of them
  std::vector<float> channel_most;   ///< the largest |x| of each channel
  std::vector<double> channel_mean;  ///< of each channel
};

/// By the values of a model's graph.
using Statistics = std::map<int, ValueStatistics>;

/// Runs the model op by op and looks at what its layers read, and what is added beside them. Throws Error(failure) with
/// the layer that reads a number that is not finite.
Statistics statistics_of(const FloatModel& model, const Tensors& batches);

/// How a value is written in 8 bits: (x / scale) + zero_point.
struct ByteScale {
  double scale = 1;
  std::int64_t zero_point = 0;
};
/// The range of numbers for bytes: of u8 any, of i8 one around 0.
Range byte_range(const Observer& numbers, RangeMethod method, DType dtype);
/// How bytes stand for such a range; of nothing but zeros the scale is 1.
ByteScale byte_scale(const Range& range, DType dtype);

/// A model whose layers read channels of more equal size: a channel of what a layer reads is divided by s and the
/// weights that read it are multiplied by s, where what makes it (a norm of layers, or a convolution or fully connected
/// layer, with nothing but relu, leaky relu or max pooling between) can be divided too. s is the root of the channel's
/// largest |x| over the largest |weight| (Nagel et al., "Data-Free Quantization", ICCV 2019; Xiao et al.,
/// "SmoothQuant", ICML 2023). In f32 it answers the same but for rounding. `count`: how many layers changed.
FloatModel equalized(const FloatModel& model, const Statistics& statistics, std::size_t* count = nullptr);

}  // namespace neurim
