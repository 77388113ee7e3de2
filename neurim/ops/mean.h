// Means over axes.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// The mean over `axes` (empty: all; negative ones count from the end), which go, or stay with size 1 for
/// `keepdims`. Floating x. Over no elements: NaN.
Tensor mean(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepdims = false);

}  // namespace neurim
