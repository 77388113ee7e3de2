// max(a, b)
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Element by element, of one number dtype; shapes broadcast by NumPy's rule. NaN wins; of
/// equal elements each takes half of the gradient, as in PyTorch.
Tensor maximum(const Tensor& a, const Tensor& b);

}  // namespace neurim
