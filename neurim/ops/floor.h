// The largest integer that is not above x.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Element by element; floating x of any shape, same dtype. The gradient is zero.
Tensor floor(const Tensor& x);

}  // namespace neurim
