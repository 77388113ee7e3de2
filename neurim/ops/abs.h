// |x|
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Absolute value, element by element; any number type, any shape. Gradient 0 at 0.
Tensor abs(const Tensor& x);

}  // namespace neurim
