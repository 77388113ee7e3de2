// x * sigmoid(x)
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Sigmoid linear unit (swish; Elfwing et al., 2017), element by element; floating x of any shape.
Tensor silu(const Tensor& x);

}  // namespace neurim
