// Truth functions.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

// Element by element, bool to bool; shapes broadcast by NumPy's rule.

Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);

}  // namespace neurim
