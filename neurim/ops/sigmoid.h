// 1 / (1 + e^-x)
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Logistic function, element by element; floating x of any shape.
Tensor sigmoid(const Tensor& x);

}  // namespace neurim
