// e^x
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Element by element; floating x of any shape.
Tensor exp(const Tensor& x);

}  // namespace neurim
