// 1 / x
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Element by element; floating x of any shape.
Tensor reciprocal(const Tensor& x);

}  // namespace neurim
