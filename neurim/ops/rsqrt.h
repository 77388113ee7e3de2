// 1 / sqrt(x)
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Reciprocal square root, element by element; floating x of any shape.
Tensor rsqrt(const Tensor& x);

}  // namespace neurim
