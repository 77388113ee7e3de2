// Rows of a table by number.
#pragma once
#include <optional>

#include "neurim/graph/tensor.h"

namespace neurim {

/// weight(n,d), floating, and indices (…), i64 or i32 -> (…,d): row i of the weight for each index i. The row
/// `padding_idx`, which may count from the back, is read but gets no gradient. An index outside [0, n) counts
/// from the back when negative, else it sets kStatusIndexOutOfRange.
Tensor embedding(const Tensor& indices, const Tensor& weight, std::optional<std::int64_t> padding_idx = std::nullopt);

}  // namespace neurim
