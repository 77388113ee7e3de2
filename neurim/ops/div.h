// a / b
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Element by element, of one number dtype; shapes broadcast by NumPy's rule. Integers
/// truncate towards zero.
Tensor div(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);  ///< div(a, b)
Tensor operator/(const Tensor& a, double b);         ///< the number in the dtype of a
Tensor operator/(double a, const Tensor& b);         ///< the number in the dtype of b

}  // namespace neurim
