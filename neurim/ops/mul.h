// a * b
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Element by element, of one number dtype; shapes broadcast by NumPy's rule.
Tensor mul(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);  ///< see mul()
Tensor operator*(const Tensor& a, double b);         ///< see mul()
Tensor operator*(double a, const Tensor& b);         ///< see mul()

}  // namespace neurim
