// Comparisons.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// a < b element by element, of one dtype; shapes broadcast by NumPy's rule; the result is bool. Against NaN all
/// comparisons are false but not_equal.
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);     ///< a <= b, as less
Tensor greater(const Tensor& a, const Tensor& b);        ///< a > b, as less
Tensor greater_equal(const Tensor& a, const Tensor& b);  ///< a >= b, as less
Tensor equal(const Tensor& a, const Tensor& b);          ///< a == b, as less
Tensor not_equal(const Tensor& a, const Tensor& b);      ///< a != b, as less

}  // namespace neurim
