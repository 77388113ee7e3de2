// a^b
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Element by element, of one number dtype; shapes broadcast by NumPy's rule.
Tensor pow(const Tensor& a, const Tensor& b);

}  // namespace neurim
