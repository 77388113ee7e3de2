// Weights of products whose factors are of 16 bits, or bytes, and of convolutions in groups.
#pragma once
#include <string>
#include <vector>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// forward_weights() with the input channels of a block in pairs of `half`, rounded: [O/16][I/16][kh][kw][8
/// pairs][16o][2i]. Channels that are missing are zero. `gradient`: gradient_weights() with the output channels in
/// pairs.
Layout vnni_weights(const Type& weight, StorageDtype storage, bool gradient = false);

/// Of convolutions of few input channels, whose rows of a kernel, its columns and channels one after the other, are cut
/// into blocks instead: [O/16][I kw/16][kh][16][16o], or rounded to `half` [O/16][I kw/16][kh][8 pairs][16o][2].
Layout row_weights(const Type& weight, StorageDtype storage);

/// The blocks of 16 input channels [first, last) that a block of output channels of a convolution reads, and how many
/// the blocks before it read together.
struct ReadBlocks {
  std::int64_t first, last, before;
  std::int64_t count() const { return last - first; }
};
/// Of each block of output channels.
std::vector<ReadBlocks> read_blocks(std::int64_t in_channels, std::int64_t out_channels, std::int64_t groups);

/// Of a convolution in groups: [O/16][those blocks][kh][kw][16i][16o], or rounded to `half` […][8 pairs][16o][2i]; zero
/// between channels of different groups.
Layout group_weights(const Type& weight, std::int64_t groups, StorageDtype storage);
/// Of the same, for each output channel those of its own group: [O/16][kh][kw][channels][16o].
Layout group_rows(const Type& weight);

/// i8 weights with the input channels of a block in words (see bytes_together()): [O/16][I/16][kh][kw][words][16o][i];
/// of two axes, as of fully connected layers, those of a 1x1 kernel. Channels that are missing are zero. `rows`: of
/// images, as row_weights(): [O/16][I kw/16][kh][words][16o][i].
Layout byte_weights(const Type& weight, bool rows = false);

/// The rows of a matrix (O,I), rounded to `half`, each as long as whole vectors of 16, with zeros behind it: [O][I +
/// …].
Layout rounded_rows(const Type& weight, StorageDtype storage);

/// In the names of formats.
std::string name_of_pairs(StorageDtype storage);

/// to[16i][16o] of a block from[8 pairs][16o][2i].
void unpair_block(StorageDtype storage, const std::uint16_t* from, float* to);

}  // namespace neurim::cpu
