// Products of matrix tiles, which Intel's AMX multiplies: 16 rows of 64 bytes times 16 words of 16 columns, 8,192
// multiply-adds of bf16 or 16,384 of bytes in an instruction (Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 1, chapter 18).
#pragma once
#include <array>
#include <cstdint>
#include <iterator>

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/common/isa.h"
#include "neurim/hardware/tile_scope.h"

namespace neurim::cpu {

/// Who multiplies tiles: tests may imitate the instructions on any machine, or do without tiles.
enum class TilesBy : std::uint8_t { machine, imitation, nobody };
inline TilesBy tiles_by = TilesBy::machine;
/// Whether kernels take tiles.
inline bool uses_tiles() { return tiles_by == TilesBy::machine ? has_tiles() : tiles_by == TilesBy::imitation; }

constexpr std::int64_t kTileRows = 16, kTileBytes = 64;  ///< bytes of a row
/// Rows are read and written in whole tiles, two of them at a time where there are enough.
inline std::int64_t whole_tiles(std::int64_t rows) { return (rows + kTileRows - 1) / kTileRows * kTileRows; }

/// Memory that is written or read after a product: it is fetched a few lines at a time while that runs, as more at once
/// would fill what the first-level cache can have in flight.
class TileLines {
 public:
  /// For the first-level cache, to be written; or for the second-level one.
  explicit TileLines(bool first_level) : first_level_(first_level) {}

  /// What does not fit is not fetched.
  void add(const void* begin, std::int64_t bytes) {
    if (count_ == std::ssize(ranges_) || bytes <= 0) return;
    const auto* const from = static_cast<const char*>(begin);
    ranges_[count_++] = {from, from + bytes};
    lines_ += (bytes + kTileBytes - 1) / kTileBytes;
  }
  /// All of them in `steps` calls of fetch().
  void share(std::int64_t steps) { of_step_ = steps > 0 ? (lines_ + steps - 1) / steps : 0; }
  void fetch() {
    for (std::int64_t i = 0; i < of_step_ && count_ > 0; ++i) {
      auto& [next, end] = ranges_[count_ - 1];
#if defined(__x86_64__)
      if (first_level_)
        asm volatile("prefetchw %0" : : "m"(*next));
      else
        asm volatile("prefetcht1 %0" : : "m"(*next));
#endif
      next += kTileBytes;
      if (next >= end) --count_;
    }
  }

 private:
  struct Range {
    const char *next, *end;
  };
  bool first_level_;
  std::array<Range, 16> ranges_;
  std::ptrdiff_t count_ = 0;
  std::int64_t lines_ = 0, of_step_ = 0;
};

/// sums[out block][row][16] = the sum over groups and taps of x[group][tap + row][64 bytes] times weight[out
/// block][group][tap][16 words][16 out]. A group has 32 channels of bf16 in pairs or 64 of bytes in words of four: u8
/// of x and i8 of weights, whose sums are i32. Distances in bytes, if not said otherwise.
struct TileProduct {
  std::int64_t rows;                                 ///< computed up to whole_tiles()
  std::int64_t groups;                               ///< of channels that are summed
  std::int64_t x_group, weight_group, weight_block;  ///< between groups of x, of the weights, and blocks of those
  const std::int64_t *taps, *weight_taps;            ///< from x and from a group of the weights on
  std::int64_t tap_count;
  std::int64_t sum_block;                        ///< words between blocks of the sums
  const void* start = nullptr;                   ///< what the sums of a row start from, 16 words a block; null: 0
  bool bytes = false;                            ///< whether the factors are bytes
  TileLines *lines = nullptr, *ahead = nullptr;  ///< what is fetched meanwhile
};

/// Computes one block of sums, or two. `add`: adds to what is there. Within a TileScope only.
NEURIM_EACH_ISA(void tile_product(const TileProduct& shape, std::int64_t blocks, const void* x, const void* weight,
                                  bool add, void* sums))

/// What sums become before they are written: as of BlockEpilogue.
struct TileEpilogue {
  const float* add = nullptr;
  Relu relu = {};
  StorageDtype rounds = StorageDtype::exact, add_rounded = StorageDtype::exact;
};
/// Writes rows of one block of sums as the epilogue says to rows of y that are `y_row` elements apart.
NEURIM_EACH_ISA(void tile_results(const float* sums, std::int64_t rows, const TileEpilogue& epilogue,
                                  std::int64_t y_row, float* y))

/// to[pixel][32] = 16 values of `low` and 16 of `high` (null: zeros) as bf16, pixels `step` values apart there, which
/// are stored as `storage` says. Values after the first `channels` become zero.
NEURIM_EACH_ISA(void tile_pixels(StorageDtype storage, const float* low, const float* high, std::int64_t step,
                                 std::int64_t pixels, std::int64_t channels, void* to))

/// to[pixel][64] = 16 bytes of each of four (null: zeros), pixels `step` bytes apart there, xor-ed with `flip`.
NEURIM_EACH_ISA(void tile_bytes(const std::uint8_t* const (&from)[4], std::int64_t step, std::int64_t pixels,
                                std::uint8_t flip, void* to))

/// sums[a block][b block][16][16] = the sum over images and steps of a[a block][image][step][16][16 pairs] times b[b
/// block][image][step][16 pairs][16]: of weights' gradients, whose pairs are pixels. Distances in bytes.
struct TileGrad {
  std::int64_t images = 1, steps;
  std::int64_t a_block = 0, a_image = 0, b_block = 0, b_image = 0, a_sum = 0, b_sum = 0;
};
/// Computes one block of a, or two, times one of b, or two. `add`: adds to what is there. Within a TileScope only.
NEURIM_EACH_ISA(void tile_grad(const TileGrad& shape, std::int64_t a_blocks, std::int64_t b_blocks, const void* a,
                               const void* b, bool add, float* sums))

/// Whether block_product() of pairs of bf16 takes tiles, and block_weight_grad(): few rows would leave them empty.
inline bool tiles_suit(const BlockProduct& shape) {
  constexpr std::int64_t kLeast = 8, kDeepest = 2000;  // rows, and channels that the functions have room for
  return shape.pairs == StorageDtype::bf16 && uses_tiles() && shape.rows >= kLeast && !shape.weight_taps &&
         shape.tap_count == 1 && shape.in_channels <= kDeepest && !shape.fetch;
}
inline bool tiles_suit(const BlockWeightGrad& shape) {
  constexpr std::int64_t kLeast = 8, kDeepest = 512;  // pairs of rows
  return shape.pairs == StorageDtype::bf16 && uses_tiles() && shape.images * shape.runs == 1 && shape.rows >= kLeast &&
         shape.rows <= kDeepest;
}
NEURIM_EACH_ISA(void block_product_by_tiles(const BlockProduct& shape, std::int64_t blocks, const float* x,
                                            const float* weight, const BlockEpilogue& epilogue, float* y))
NEURIM_EACH_ISA(void block_weight_grad_by_tiles(const BlockWeightGrad& shape, std::int64_t blocks, const float* x,
                                                const float* dy, bool add, float* dw))

/// Transposes each of `count` tiles of 16 by 16 words.
NEURIM_EACH_ISA(void transpose_tiles(float* tiles, std::int64_t count))

}  // namespace neurim::cpu
