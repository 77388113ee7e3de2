// x where x > 0, else a learnt slope times x
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Parametric rectified linear unit (He et al., "Delving deep into rectifiers", ICCV'15): x(N,C,…) or (C),
/// floating, and slopes `weight` (1) or (C) of its dtype -> the shape of x.
Tensor prelu(const Tensor& x, const Tensor& weight);

}  // namespace neurim
