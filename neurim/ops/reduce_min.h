// Minima over axes.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// The minimum over `axes` (empty: all; negative ones count from the end), which go, or stay with size 1 for
/// `keepdims`. Any number dtype; NaN wins. Equal minima share the gradient evenly, as in PyTorch's amin.
/// Throws Error(usage) over no elements.
Tensor reduce_min(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepdims = false);

}  // namespace neurim
