// Choice by a condition.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// a where `condition` (bool) holds, else b, element by element; a and b of one dtype, any; all three shapes
/// broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

}  // namespace neurim
