#pragma once
#include "neurim/backend/cpu/common/block_product.h"

namespace neurim {

/// Whether products of f16 add up sums of f16 here: by the processor's instructions, or by their imitation (see
/// main.cpp).
inline bool sums_of_f16() { return has_f16() || cpu::imitated_f16_products.product; }

}  // namespace neurim
