// Activations that make small values zero.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

// Element by element; floating x of any shape. `lambd` is PyTorch's name; hardshrink and softshrink throw
// Error(usage) unless it is 0 or more.

/// x where |x| > lambd, else 0.
Tensor hardshrink(const Tensor& x, double lambd = 0.5);
/// x moved by lambd towards 0 where |x| > lambd, else 0.
Tensor softshrink(const Tensor& x, double lambd = 0.5);
/// x - tanh(x)
Tensor tanhshrink(const Tensor& x);

}  // namespace neurim
