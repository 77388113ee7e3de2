// max(x, 0), and the same up to 6
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// Rectified linear unit, element by element. Floating x of any shape; gradient 0 at 0, as PyTorch.
Tensor relu(const Tensor& x);

/// min(max(x, 0), 6) (Krizhevsky, "Convolutional deep belief networks on CIFAR-10", 2010). Floating x of any shape;
/// gradient 0 at 0 and at 6, as PyTorch.
Tensor relu6(const Tensor& x);

}  // namespace neurim
