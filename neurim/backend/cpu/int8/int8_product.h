// The matrix product of block_product.h where factors are bytes.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/block_product.h"

namespace neurim::cpu {

/// What sums of products of bytes become: relu((sum · scale + bias) + …) as floats, or rounded to the nearest whole
/// number, ties to even.
struct ByteEpilogue {
  const std::int32_t* start = nullptr;            ///< what the sums begin with, 16 a block
  const float *scale = nullptr, *bias = nullptr;  ///< 16 a block
  /// Bytes that lie as y, whose bits are changed by `add_flip`, less `add_zero`, times `add_scale`; null: none.
  const std::uint8_t* add = nullptr;
  std::uint8_t add_flip = 0;
  float add_zero = 0, add_scale = 0;
  float least = 0, most = 0;  ///< limits; of bytes within 512 of zero
  bool floats = false;        ///< what y is made of, or of u8, to which `zero` is added
  std::int32_t zero = 0;
  std::uint8_t flip = 0;  ///< makes bytes of y of u8
  /// Of the last of `channels` channels the block may have less than 16: lanes behind them become zero, or with `cut`
  /// stay as they are.
  std::int64_t channels = 0;
  bool cut = false;
};

/// How many neighbours products of bytes take at once, in a word of 4 bytes: four u8 of x and i8 of the weights where
/// there is AVX512-VNNI, and else two, each in 16 bits.
inline std::int64_t bytes_together() { return has_vnni() ? 4 : 2; }

/// block_product() where such words stand in the place of floats: x[in block][row][words] and
/// weight[out block][in block][tap][words][16 out]. Sums are of i32 and do not overflow up to 65,536 terms.
/// Distances in x and the weights are in words, those in y and `add` in elements.
NEURIM_EACH_ISA(void byte_product(const BlockProduct& shape, std::int64_t blocks, const void* x, const void* weight,
                                  const ByteEpilogue& epilogue, void* y))

/// Those sums of one block of y, y[row][16], beginning with 0.
NEURIM_EACH_ISA(void byte_sums(const BlockProduct& shape, const void* x, const void* weight, std::int32_t* y))

/// What y[row][16] becomes of sums[row][16].
NEURIM_EACH_ISA(void byte_results(const std::int32_t* sums, std::int64_t rows, const ByteEpilogue& epilogue, void* y))

/// byte_product() for one block of a depthwise convolution: over the taps, of each channel by itself, the products of
/// x[row][16 words] and weight[tap][16 words].
NEURIM_EACH_ISA(void channel_product(const BlockProduct& shape, const void* x, const void* weight,
                                     const ByteEpilogue& epilogue, void* y))

/// to[column][16 channels] = words of what from[pixel][16 channels] has at pixel column * step and those behind it,
/// which lie `apart`; in 16 bits less `zero`.
NEURIM_EACH_ISA(void words_of_channels(const std::uint8_t* from, std::int64_t columns, std::int64_t step,
                                       std::int64_t apart, std::uint8_t zero, std::uint8_t* to))

/// to[pixel][16], in 16 bits, = from[pixel][16], whose bits are changed by `flip`, less `zero`. Pixels of `from` lie
/// `apart` bytes from each other.
NEURIM_EACH_ISA(void widen_bytes(const std::uint8_t* from, std::int64_t apart, std::int64_t pixels, std::uint8_t flip,
                                 std::uint8_t zero, std::int16_t* to))

}  // namespace neurim::cpu
