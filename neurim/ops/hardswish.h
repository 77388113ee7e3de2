// x * clamp(x + 3, 0, 6) / 6
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// The piecewise form of silu of MobileNetV3 (Howard et al., 2019), element by element; floating x of any
/// shape.
Tensor hardswish(const Tensor& x);

}  // namespace neurim
