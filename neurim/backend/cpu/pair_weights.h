// Weights of products whose factors are bf16.
#pragma once
#include "neurim/core/types.h"

namespace neurim::cpu {

/// forward_weights() with the input channels of a block in pairs, rounded to bf16: [O/16][I/16][kh][kw][8 pairs][16o][2i]. Channels
/// that are missing are zero. `gradient`: gradient_weights() with the output channels in pairs.
Layout pair_weights(const Type& weight, bool gradient = false);

/// Of convolutions of few input channels, whose rows of a kernel, its columns and channels one after the other, are cut into blocks
/// instead: [O/16][I kw/16][kh][8 pairs][16o][2].
Layout row_pair_weights(const Type& weight);

/// to[16i][16o] of a block from[8 pairs][16o][2i].
void unpair_block(const std::uint16_t* from, float* to);

}  // namespace neurim::cpu
