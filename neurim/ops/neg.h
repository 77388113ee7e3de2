// -x
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Element by element; any number type, any shape (u8 saturates at 0).
Tensor neg(const Tensor& x);
Tensor operator-(const Tensor& x);  ///< neg(x)

}  // namespace neurim
