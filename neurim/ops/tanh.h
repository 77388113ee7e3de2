// The hyperbolic tangent.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Element by element; floating x of any shape.
Tensor tanh(const Tensor& x);

}  // namespace neurim
