// Forms of elu: selu, scaled so that means and variances keep; celu, whose slope has no step.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// 1.0507 * elu(x, 1.6733), the constants of self-normalizing networks (Klambauer et al., 2017), element by
/// element; floating x of any shape.
Tensor selu(const Tensor& x);

/// x where x > 0, else alpha * (e^(x / alpha) - 1) (Barron, 2017), element by element; floating x of any
/// shape. Throws Error(usage) unless alpha > 0.
Tensor celu(const Tensor& x, double alpha = 1);

}  // namespace neurim
