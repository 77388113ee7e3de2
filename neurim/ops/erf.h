// The error function.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Element by element; floating x of any shape.
Tensor erf(const Tensor& x);

}  // namespace neurim
