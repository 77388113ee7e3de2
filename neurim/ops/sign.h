// -1, 0 or 1
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// The sign, element by element; any number type, any shape; 0 for 0 and NaN. The gradient is zero.
Tensor sign(const Tensor& x);

}  // namespace neurim
