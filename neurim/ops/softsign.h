// x / (1 + |x|)
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// A bounded activation that nears -1 and 1 more slowly than tanh, element by element; floating x of any
/// shape.
Tensor softsign(const Tensor& x);

}  // namespace neurim
