// Sums over axes.
#pragma once
#include "neurim/graph/tensor.h"

namespace neurim {

/// The sum over `axes` (empty: all; negative ones count from the end), which go, or stay with size 1 for
/// `keepdims`. Any number dtype, which the result keeps. Over no elements: 0.
Tensor sum(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepdims = false);

}  // namespace neurim
