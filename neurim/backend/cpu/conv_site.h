// What a site that begins with a convolution, or with a gradient of one, asks for.
#pragma once
#include "neurim/backend/cpu/relu.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/conv.h"

namespace neurim::cpu {

enum class Direction : std::uint8_t { forward, input_grad, weight_grad };
Direction direction_of(const Site& site);

/// Where x, weight and y stand among the values of a site: numbers of Site::values. The anchor alone says.
struct Operands {
  int x, weight, y;
};
Operands operands_of(const Site& site);

/// Of the two-dimensional convolution that the anchor is, or a gradient of.
const Conv2dOptions& options_of(const Site& site);
struct ConvSizes {
  std::int64_t images, in_channels, out_channels, height, width, out_height, out_width;
  Conv2dOptions options;
  std::int64_t kernel[2];
};
ConvSizes sizes_of(const Site& site);

/// What follows a forward convolution in the site.
struct Epilogue {
  bool bias = false, add = false;
  Relu relu;
  int residual = -1;  ///< number of the site's input
};
/// Reads {conv}, {conv,relu}, {conv,add}, {conv,add,relu}, with relu6 too; false: another chain.
bool read_epilogue(const Site& site, Epilogue& epilogue);
/// The same of the convolution that is step `conv`, up to step `last`.
bool read_epilogue(const Site& site, std::size_t conv, std::size_t last, Epilogue& epilogue);

}  // namespace neurim::cpu
