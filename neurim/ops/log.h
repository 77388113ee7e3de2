// The natural logarithm.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Element by element; floating x of any shape; -inf at 0, NaN below.
Tensor log(const Tensor& x);

}  // namespace neurim
