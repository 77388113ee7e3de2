// Winograd's convolution (see winograd.h) of bytes, in whole numbers and exact: tiles of 2x2 at the points 0, 1, -1 and
// infinity. What real weights are divided by there, 2 for 1 and -1 along each axis, the results are divided by instead,
// which leaves nothing over.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// Pixels along a tile of results, and points.
inline constexpr int kByteTile = 2, kBytePoints = 16;

/// The four rows of x that a row of tiles reads, [pixel][16], null where they are padding.
struct ByteRowsOfTiles {
  const std::uint8_t* rows[4];
  std::int64_t width, left;  ///< of x, and columns of padding before it
  std::uint8_t flip, zero;   ///< see widen_bytes()
};

/// v[point][tile][16] of `tiles` tiles side by side; points are `plane` numbers apart.
NEURIM_EACH_ISA(void byte_winograd_input(const ByteRowsOfTiles& x, std::int64_t tiles, std::int64_t plane,
                                         std::int16_t* v))

/// sums[2 rows][2 tiles][16] of such tiles from m[point][tile][16].
NEURIM_EACH_ISA(void byte_winograd_output(const std::int32_t* m, std::int64_t tiles, std::int64_t plane,
                                          std::int32_t* sums))

}  // namespace neurim::cpu
