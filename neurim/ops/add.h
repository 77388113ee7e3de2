// a + b
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Element by element, of one number dtype; shapes broadcast by NumPy's rule.
Tensor add(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, const Tensor& b);  ///< see add()
Tensor operator+(const Tensor& a, double b);         ///< see add()
Tensor operator+(double a, const Tensor& b);         ///< see add()

}  // namespace neurim
