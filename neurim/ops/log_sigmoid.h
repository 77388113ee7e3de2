// log(sigmoid(x))
#pragma once
#include "neurim/ops/neg.h"
#include "neurim/ops/softplus.h"

namespace neurim {

/// -softplus(-x), which does not overflow, element by element; floating x of any shape.
inline Tensor log_sigmoid(const Tensor& x) { return neg(softplus(neg(x))); }

}  // namespace neurim
