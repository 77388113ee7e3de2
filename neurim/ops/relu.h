// max(x, 0)
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Rectified linear unit, element by element. Floating x of any shape; gradient 0 at 0, as PyTorch.
Tensor relu(const Tensor& x);

}  // namespace neurim
