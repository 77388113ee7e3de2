// x * x
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Element by element; any number type, any shape.
Tensor square(const Tensor& x);

}  // namespace neurim
