// The matrix product of block_product.h with 8-bit factors.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/block_product.h"

namespace neurim::cpu {

/// How i32 sums become results: relu((sum * scale + bias) + residual), as floats or rounded to the nearest integer,
/// ties to even.
struct ByteEpilogue {
  const std::int32_t* start = nullptr;            ///< what the sums start from, 16 a block
  const float *scale = nullptr, *bias = nullptr;  ///< 16 a block
  /// The residual: bytes laid out as y, (byte ^ add_flip - add_zero) * add_scale; null: none.
  const std::uint8_t* add = nullptr;
  std::uint8_t add_flip = 0;
  float add_zero = 0, add_scale = 0;
  float least = 0, most = 0;  ///< limits of the result; for bytes within 512 of zero
  bool floats = false;        ///< whether y is floats; else u8, to which `zero` is added
  std::int32_t zero = 0;
  std::uint8_t flip = 0;  ///< xor-ed with the bytes of y
  /// The last block may have fewer than 16 of the `channels`: the lanes after them become zero, or with `cut` are not
  /// written.
  std::int64_t channels = 0;
  bool cut = false;
};

/// Neighbours that a word of 4 bytes holds: four, u8 of x and i8 of weights, with AVX512-VNNI, i8 of both with
/// AArch64's dot products; else two, each widened to 16 bits.
inline std::int64_t bytes_together() { return has_vnni() || has_dot_products() ? 4 : 2; }

/// block_product() with such words: x[in block][row][words], weight[out block][in block][tap][words][16 out]. The i32
/// sums do not overflow up to 65,536 terms. Distances in x and the weights are in words, those in y and `add` in
/// elements.
NEURIM_EACH_ISA(void byte_product(const BlockProduct& shape, std::int64_t blocks, const void* x, const void* weight,
                                  const ByteEpilogue& epilogue, void* y))

/// The sums of one block, y[row][16], starting from 0.
NEURIM_EACH_ISA(void byte_sums(const BlockProduct& shape, const void* x, const void* weight, std::int32_t* y))

/// Applies the epilogue to sums[row][16], giving y[row][16].
NEURIM_EACH_ISA(void byte_results(const std::int32_t* sums, std::int64_t rows, const ByteEpilogue& epilogue, void* y))

/// byte_product() of one block of a depthwise convolution: for each channel, the products of x[row][16 words] and
/// weight[tap][16 words] summed over the taps.
NEURIM_EACH_ISA(void channel_product(const BlockProduct& shape, const void* x, const void* weight,
                                     const ByteEpilogue& epilogue, void* y))

/// Gathers words for the depthwise convolution: to[column][16 channels] holds from[pixel][16 channels] at pixel column
/// * step and the ones after it, `apart` from each other; in 16 bits less `zero`.
NEURIM_EACH_ISA(void words_of_channels(const std::uint8_t* from, std::int64_t columns, std::int64_t step,
                                       std::int64_t apart, std::uint8_t zero, std::uint8_t* to))

/// Widens to[pixel][16] = (from[pixel][16] ^ flip) - zero to 16 bits. Pixels of `from` are `apart` bytes from each
/// other.
NEURIM_EACH_ISA(void widen_bytes(const std::uint8_t* from, std::int64_t apart, std::int64_t pixels, std::uint8_t flip,
                                 std::uint8_t zero, std::int16_t* to))

}  // namespace neurim::cpu
