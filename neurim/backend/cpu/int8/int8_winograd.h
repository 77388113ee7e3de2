// Winograd convolution (see winograd.h) of 8-bit values in exact integers: tiles of 2x2 at the points 0, 1, -1 and
// infinity. The weight transform's divisions, by 2 along each axis for the points 1 and -1, are done on the results
// instead, where they leave no remainder.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// Output pixels along a tile's side, and points.
inline constexpr int kByteTile = 2, kBytePoints = 16;

/// The four rows of x that a row of tiles reads, [pixel][16]; null for padding.
struct ByteRowsOfTiles {
  const std::uint8_t* rows[4];
  std::int64_t width, left;  ///< of x, and columns of padding before it
  std::uint8_t flip, zero;   ///< see widen_bytes()
};

/// Computes v[point][tile][16] for `tiles` neighbouring tiles; points are `plane` numbers apart.
NEURIM_EACH_ISA(void byte_winograd_input(const ByteRowsOfTiles& x, std::int64_t tiles, std::int64_t plane,
                                         std::int16_t* v))

/// Computes sums[2 rows][2 tiles][16] of such tiles from m[point][tile][16].
NEURIM_EACH_ISA(void byte_winograd_output(const std::int32_t* m, std::int64_t tiles, std::int64_t plane,
                                          std::int32_t* sums))

}  // namespace neurim::cpu
