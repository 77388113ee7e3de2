// Winograd's convolution: 3x3 kernels at stride 1 in fewer multiplications. Lavin and Gray, "Fast algorithms for
// convolutional neural networks", CVPR'16; the arithmetic is Toom and Cook's.
//
// The output is cut into tiles of 4x4. Overlapping input tiles of 6x6 pixels are transformed to V, with one value at
// each of 36 points, and the kernels to U. At each point a matrix product over the channels gives M, which is
// transformed back to the output tiles: 36 multiplications instead of 144. Tiles of 2x2 have 16 points: 16
// multiplications instead of 36.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/conv_norm.h"
#include "neurim/core/types.h"

namespace neurim::cpu {

/// The default tile size in pixels, and the points of such a tile.
inline constexpr int kWinogradTile = 4, kWinogradPoints = 36;

/// Tensors are nChw16c; in_height and in_width are without the padding.
struct WinogradShape {
  std::int64_t in_blocks = 0, out_blocks = 0, in_height = 0, in_width = 0, out_height = 0, out_width = 0;
  std::int64_t top = 0, left = 0;            ///< padding
  StorageDtype pairs = StorageDtype::exact;  ///< v and u are pairs of these (see BlockProduct)
  StorageDtype x_rounded = StorageDtype::exact, dy_rounded = StorageDtype::exact;  ///< how x and dy are stored
  int tile = kWinogradTile;  ///< pixels along a tile, 4 or 2; of gradients of weights and of few tiles 4

  std::int64_t rows() const { return (out_height + tile - 1) / tile; }
  std::int64_t columns() const { return (out_width + tile - 1) / tile; }
  std::int64_t points() const { return (tile + 2) * (tile + 2); }
};

/// `count` tiles from `first` on, numbered through all images row by row. Their values at a point, [blocks][count][16],
/// are `plane` floats after those of the point before.
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

/// The same for at most kFewTiles tiles from the untransformed weights, w[block][in block][3][3][16 in][16 out]:
/// computing u in registers is faster than reading it, which is four times as large.
inline constexpr std::int64_t kFewTiles = 8;
NEURIM_EACH_ISA(void winograd_multiply_few(const WinogradShape& shape, const WinogradTiles& tiles, const float* v,
                                           const float* w, std::int64_t first, std::int64_t last, float* m))

/// The tiles' pixels of y in the output blocks [first, last).
NEURIM_EACH_ISA(void winograd_output(const WinogradShape& shape, const WinogradTiles& tiles, const float* m,
                                     const ConvEpilogue& epilogue, std::int64_t first, std::int64_t last, float* y))

// The weight gradient: by the chain rule, the gradient of U is the product of that of M and V over the tiles; it is
// transformed to that of the kernels.

/// dm[point][block][tile][16] of the output blocks [first, last), from dy.
NEURIM_EACH_ISA(void winograd_output_grad(const WinogradShape& shape, const WinogradTiles& tiles, const float* dy,
                                          std::int64_t first, std::int64_t last, float* dm))

/// du[point][out block][in block][16 in][16 out] of the output blocks [first, last) = (with `add`: +=) the sum of v
/// times dm over the tiles; `pairs`: rounds v and dm to this dtype, in place.
NEURIM_EACH_ISA(void winograd_accumulate(const WinogradShape& shape, const WinogradTiles& tiles, float* v, float* dm,
                                         std::int64_t first, std::int64_t last, StorageDtype pairs, bool add,
                                         float* du))

/// dw[block][3][3][16 in][16 out] of the blocks [first, last), from `runs` sums that are `run` floats apart and are
/// added in order; points are `plane` floats apart.
NEURIM_EACH_ISA(void winograd_weights_grad(const float* du, int runs, std::int64_t run, std::int64_t plane,
                                           std::int64_t first, std::int64_t last, float* dw))

}  // namespace neurim::cpu
