// clamp(x + 3, 0, 6) / 6
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// The piecewise sigmoid of MobileNetV3 (slope 1/6), element by element; floating x of any shape. Gradient 0
/// at ±3.
Tensor hardsigmoid(const Tensor& x);

}  // namespace neurim
