// Packed weights of 16-bit and 8-bit products, and of grouped convolutions.
#pragma once
#include <string>
#include <vector>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// forward_weights() with the input channels of a block in pairs of `half`: [O/16][I/16][kh][kw][8 pairs][16o][2i].
/// Missing channels are zero. `gradient`: gradient_weights() with the output channels in pairs.
Layout vnni_weights(const Type& weight, StorageDtype storage, bool gradient = false);

/// The same for products of tiles, in bf16: groups of 32 input channels, [O/16][I/32][kh][kw][16 pairs][16o][2i].
Layout tile_weights(const Type& weight, bool gradient = false);
/// row_weights() so: [O/16][I kw/32][kh][16 pairs][16o][2].
Layout tile_row_weights(const Type& weight);

/// For few input channels: columns and channels of a kernel row are flattened and cut into blocks: [O/16][I
/// kw/16][kh][16][16o], or with `half` [O/16][I kw/16][kh][8 pairs][16o][2].
Layout row_weights(const Type& weight, StorageDtype storage);

/// The blocks of 16 input channels [first, last) that a block of output channels reads, and the sum of such blocks
/// before it.
struct ReadBlocks {
  std::int64_t first, last, before;
  std::int64_t count() const { return last - first; }
};
/// One for each block of output channels.
std::vector<ReadBlocks> read_blocks(std::int64_t in_channels, std::int64_t out_channels, std::int64_t groups);

/// For grouped convolutions: [O/16][the blocks read][kh][kw][16i][16o], or with `half` [...][8 pairs][16o][2i]. Zero
/// between channels of different groups.
Layout group_weights(const Type& weight, std::int64_t groups, StorageDtype storage);
/// For grouped convolutions, the channels of each output's own group only: [O/16][kh][kw][channels][16o].
Layout group_rows(const Type& weight);

/// i8 weights with the input channels of a block in words (see bytes_together()): [O/16][I/16][kh][kw][words][16o][i].
/// Weights of two axes, of fully connected layers, count as a 1x1 kernel. Missing channels are zero. `rows`: for
/// images, as row_weights(): [O/16][I kw/16][kh][words][16o][i].
Layout byte_weights(const Type& weight, bool rows = false);

/// The same for products of tiles: groups of 64 input channels, or numbers of a row, in words of four.
Layout byte_tile_weights(const Type& weight, bool rows = false);

/// The rows of a matrix (O,I) in `half`, each padded with zeros to whole vectors of 16.
Layout rounded_rows(const Type& weight, StorageDtype storage);

/// The dtype in the names of packed formats.
std::string name_of_pairs(StorageDtype storage);

/// Converts a block from[8 pairs][16o][2i] to to[16i][16o].
void unpair_block(StorageDtype storage, const std::uint16_t* from, float* to);

}  // namespace neurim::cpu
