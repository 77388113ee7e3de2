// x * tanh(log(1 + e^x))
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Misra, "Mish: a self regularized non-monotonic activation function", BMVC'20, element by element; floating
/// x of any shape.
Tensor mish(const Tensor& x);

}  // namespace neurim
