// Fully connected layers of a single row.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// y[o] = bias[o] + sum over i of weight[o][i] x[i], for o in [first, last); bias may be null. Rows of weights in
/// 16-bit storage are padded with zeros to whole vectors: see rounded_rows().
NEURIM_EACH_ISA(void row_times_weights(const float* x, const float* weight, StorageDtype rounded, const float* bias,
                                       std::int64_t in, std::int64_t first, std::int64_t last, float* y))

}  // namespace neurim::cpu
