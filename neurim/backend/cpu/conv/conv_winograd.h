// Winograd's convolution: 3x3 kernels at stride 1 in fewer multiplications. Lavin and Gray, "Fast algorithms for
// convolutional neural networks", CVPR'16; the arithmetic is Toom and Cook's.
//
// The output falls into tiles of 4x4. Input tiles of 6x6 overlapping pixels become one value a point, V; so do the
// kernels, U; at each of the 36 points a matrix product over the channels gives M; and M's tiles become the output's:
// 36 multiplications instead of 144. With tiles of 2x2 there are 16 points, and 16 multiplications instead of 36.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/conv_norm.h"
#include "neurim/core/types.h"

namespace neurim::cpu {

/// Pixels along a tile where nothing else is said, and the points of such a tile.
inline constexpr int kWinogradTile = 4, kWinogradPoints = 36;

/// Tensors are nChw16c; in_height and in_width are without the padding.
struct WinogradShape {
  std::int64_t in_blocks = 0, out_blocks = 0, in_height = 0, in_width = 0, out_height = 0, out_width = 0;
  std::int64_t top = 0, left = 0;            ///< padding
  StorageDtype pairs = StorageDtype::exact;  ///< v and u are pairs of these (see BlockProduct)
  StorageDtype x_rounded = StorageDtype::exact, dy_rounded = StorageDtype::exact;  ///< those are (see Layout::storage)
  int tile = kWinogradTile;  ///< pixels along a tile, 4 or 2; of gradients of weights and of few tiles 4

  std::int64_t rows() const { return (out_height + tile - 1) / tile; }
  std::int64_t columns() const { return (out_width + tile - 1) / tile; }
  std::int64_t points() const { return (tile + 2) * (tile + 2); }
};

/// `count` tiles from `first` on, numbered through the images row by row, and where their values stand: those of
/// a point, [blocks][count][16], are `plane` floats after those of the point before.
struct WinogradTiles {
  std::int64_t first = 0, count = 0, input_plane = 0, output_plane = 0;
};

/// u[point][block][16 in][16 out] of the blocks [first, last), from w[block][3][3][16 in][16 out]; points are
/// `plane` floats apart. `flipped` walks the taps backwards, as data gradients do.
NEURIM_EACH_ISA(void winograd_weights(int tile, const float* w, bool flipped, std::int64_t first, std::int64_t last,
                                      std::int64_t plane, float* u))

/// v[point][in_blocks][tile][16].
NEURIM_EACH_ISA(void winograd_input(const WinogradShape& shape, const WinogradTiles& tiles, const float* x, float* v))

/// m[point][block][tile][16] of the output blocks [first, last), from v and u.
NEURIM_EACH_ISA(void winograd_multiply(const WinogradShape& shape, const WinogradTiles& tiles, const float* v,
                                       const float* u, std::int64_t first, std::int64_t last, float* m))

/// The same of at most kFewTiles tiles from the weights as they live, w[block][in block][3][3][16 in][16 out]: u is
/// made in registers each time, since reading it, four times as large, would take longer.
inline constexpr std::int64_t kFewTiles = 8;
NEURIM_EACH_ISA(void winograd_multiply_few(const WinogradShape& shape, const WinogradTiles& tiles, const float* v,
                                           const float* w, std::int64_t first, std::int64_t last, float* m))

/// The tiles' pixels of y in the output blocks [first, last).
NEURIM_EACH_ISA(void winograd_output(const WinogradShape& shape, const WinogradTiles& tiles, const float* m,
                                     const ConvEpilogue& epilogue, std::int64_t first, std::int64_t last, float* y))

// The weight gradient: by the fusion group rule, that of M over the tiles and V multiply to that of U, which becomes
// the kernels'.

/// dm[point][block][tile][16] of the output blocks [first, last), from dy.
NEURIM_EACH_ISA(void winograd_output_grad(const WinogradShape& shape, const WinogradTiles& tiles, const float* dy,
                                          std::int64_t first, std::int64_t last, float* dm))

/// du[point][out block][in block][16 in][16 out] of the output blocks [first, last) becomes, or with `add` gains, the
/// sum over the tiles of v and dm; `pairs`: which are rounded so, where they lie.
NEURIM_EACH_ISA(void winograd_accumulate(const WinogradShape& shape, const WinogradTiles& tiles, float* v, float* dm,
                                         std::int64_t first, std::int64_t last, StorageDtype pairs, bool add,
                                         float* du))

/// dw[block][3][3][16 in][16 out] of the blocks [first, last), from `runs` sums that are `run` floats apart and added
/// up in order; points are `plane` floats apart.
NEURIM_EACH_ISA(void winograd_weights_grad(const float* du, int runs, std::int64_t run, std::int64_t plane,
                                           std::int64_t first, std::int64_t last, float* dw))

}  // namespace neurim::cpu
