// The square root.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Element by element; floating x of any shape; NaN below 0, gradient infinite at 0.
Tensor sqrt(const Tensor& x);

}  // namespace neurim
