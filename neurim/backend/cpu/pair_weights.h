// Weights of products whose factors are bf16.
#pragma once
#include "neurim/core/types.h"

namespace neurim::cpu {

/// forward_weights() with the input channels of a block in pairs, rounded to bf16: [O/16][I/16][kh][kw][8 pairs][16o][2i]. Channels
/// that are missing are zero.
Layout pair_weights(const Type& weight);

/// The same of one block: to[8 pairs][16o][2i] of from[16i][16o].
void pair_block(const float* from, std::uint16_t* to);

}  // namespace neurim::cpu
