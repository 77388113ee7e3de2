// Truth functions.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

// Element by element, bool to bool; shapes broadcast by NumPy's rule.

Tensor logical_and(const Tensor& a, const Tensor& b);  ///< whether both are not 0; shapes broadcast
Tensor logical_or(const Tensor& a, const Tensor& b);   ///< whether one is not 0; shapes broadcast
Tensor logical_not(const Tensor& x);                   ///< whether x is 0

}  // namespace neurim
