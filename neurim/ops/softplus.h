// log(1 + e^x)
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// The smooth form of relu, element by element; floating x of any shape.
Tensor softplus(const Tensor& x);

}  // namespace neurim
