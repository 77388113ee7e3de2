#pragma once
#include "neurim/backend/cpu/common/block_product.h"

namespace neurim::cpu::imitated {

/// block_product() and block_weight_grad() of f16 as on machines with AVX512-FP16; for those with AVX-512.
void f16_product(const BlockProduct& shape, std::int64_t first_block, std::int64_t last_block, const float* x,
                 const float* weight, const BlockEpilogue& epilogue, float* y);
void f16_weight_grad(const BlockWeightGrad& shape, std::int64_t blocks, const float* x, const float* dy, bool add,
                     float* dw);

}  // namespace neurim::cpu::imitated
