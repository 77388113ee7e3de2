// Pooling of images of f32 and of 8-bit values. The windows along each axis are computed once, before the first call.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// The part of a window inside the input along one axis: the first place and the count. `share` is its factor of the
/// mean.
struct PoolWindow {
  std::int64_t first;
  int count;
  float share;
};

/// A kernel column: at outputs [first, last) it lies inside the input, at column o * stride + offset.
struct PoolColumn {
  std::int64_t first, last, offset;
};

/// x(planes,height,width) -> y(planes,out_height,out_width). An element is one float (plain) or a vector of 16 channels
/// or images (blocked).
struct PoolShape {
  std::int64_t planes, height, width, out_height, out_width;
  int kernel[2];
  std::int64_t stride, row_step, column_step;  ///< columns between windows; rows and columns between taps
  const PoolWindow *rows, *columns;            ///< one for each output row and column
  const PoolColumn* kernel_columns;
};

/// max_relu_grad: the gradient of max(relu(x)), given relu(x).
enum class PoolKind { max, max_grad, max_relu_grad, mean, mean_grad };

/// Pools output rows [first, last) of all planes; gradients take planes instead. Plain ones use pool_scratch() floats.
/// `rounded`: the storage of blocked x and y and their gradients, which are rounded after each addition.
using PoolFunction = void (*)(const PoolShape& shape, const float* const* in, float* out, std::int64_t first,
                              std::int64_t last, float* scratch);
inline std::int64_t pool_scratch(const PoolShape& shape) { return 2 * (shape.width + shape.out_width) + 1; }
NEURIM_EACH_ISA(PoolFunction pool_function(PoolKind kind, bool blocked, StorageDtype rounded, const PoolShape& shape))

/// Maxima of 8-bit values, u8 or i8 (`negative`), of blocked x and y; rows as above. `line` has 16 bytes for each
/// column of x.
NEURIM_EACH_ISA(void max_of_bytes(const PoolShape& shape, bool negative, const std::uint8_t* x, std::uint8_t* y,
                                  std::int64_t first, std::int64_t last, std::uint8_t* line))

/// Planes of `size` pixels, each one float, or 16 of the `channels` of an image. The (N,C) side is plain.
struct PlaneShape {
  std::int64_t size, channels;
  bool blocked;
  StorageDtype rounded = StorageDtype::exact;  ///< storage of x (Layout::storage)
};
NEURIM_EACH_ISA(void plane_means(const PlaneShape& shape, const float* x, float* means, std::int64_t first,
                                 std::int64_t last))
/// Fills each plane with its value.
NEURIM_EACH_ISA(void fill_planes(const PlaneShape& shape, const float* values, float* x, std::int64_t first,
                                 std::int64_t last))

}  // namespace neurim::cpu
