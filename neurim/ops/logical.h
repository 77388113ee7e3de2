// Truth functions.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// a and b element by element, bool to bool; shapes broadcast by NumPy's rule.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);  ///< a or b, as logical_and
Tensor logical_not(const Tensor& x);                  ///< not x, element by element; bool

}  // namespace neurim
