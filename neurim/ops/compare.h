// Comparisons.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

// Element by element, of one dtype; shapes broadcast by NumPy's rule; the result is bool. Against NaN all are
// false but not_equal.

Tensor less(const Tensor& a, const Tensor& b);           ///< a < b, as bool; shapes broadcast
Tensor less_equal(const Tensor& a, const Tensor& b);     ///< a <= b, as bool; shapes broadcast
Tensor greater(const Tensor& a, const Tensor& b);        ///< a > b, as bool; shapes broadcast
Tensor greater_equal(const Tensor& a, const Tensor& b);  ///< a >= b, as bool; shapes broadcast
Tensor equal(const Tensor& a, const Tensor& b);          ///< a == b, as bool; shapes broadcast
Tensor not_equal(const Tensor& a, const Tensor& b);      ///< a != b, as bool; shapes broadcast

}  // namespace neurim
