// A value without its history.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// x, any dtype, as a constant to gradients: none flows back through the result. Eagerly x itself.
Tensor detach(const Tensor& x);

}  // namespace neurim
