// Pooling of images of f32, and of bytes. What a window sees of the input is known along each axis before the first
// call.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// The places of a window inside the input along one axis: the first one, and how many. `share` is one task
/// of the mean.
struct PoolWindow {
  std::int64_t first;
  int count;
  float share;
};

/// A column of the kernel: at the outputs [first, last) it lies inside the input, at column o * stride +
/// offset.
struct PoolColumn {
  std::int64_t first, last, offset;
};

/// x(planes,height,width) -> y(planes,out_height,out_width), each element one float (plain) or a vector of 16 channels
/// or images (blocked).
struct PoolShape {
  std::int64_t planes, height, width, out_height, out_width;
  int kernel[2];
  std::int64_t stride, row_step, column_step;  ///< columns between windows; rows and columns between places
  const PoolWindow *rows, *columns;            ///< of each output row and column
  const PoolColumn* kernel_columns;
};

/// max_relu_grad: the gradient of max(relu(·)), x being what relu gave.
enum class PoolKind { max, max_grad, max_relu_grad, mean, mean_grad };

/// Pools output rows [first, last) of all planes; gradients take planes. Plain ones use pool_scratch()
/// floats. `rounded`: x and y of blocked ones are (Layout::storage), and their gradients, which are so after each
/// addition.
using PoolFunction = void (*)(const PoolShape& shape, const float* const* in, float* out, std::int64_t first,
                              std::int64_t last, float* scratch);
inline std::int64_t pool_scratch(const PoolShape& shape) { return 2 * (shape.width + shape.out_width) + 1; }
NEURIM_EACH_ISA(PoolFunction pool_function(PoolKind kind, bool blocked, StorageDtype rounded, const PoolShape& shape))

/// Maxima of bytes, u8 or i8 (`negative`), of blocked x and y: rows as above. `line` has 16 bytes for each column of x.
NEURIM_EACH_ISA(void max_of_bytes(const PoolShape& shape, bool negative, const std::uint8_t* x, std::uint8_t* y,
                                  std::int64_t first, std::int64_t last, std::uint8_t* line))

/// Planes of `size` places, each one float, or 16 of the `channels` of an image. (N,C) beside them is plain.
struct PlaneShape {
  std::int64_t size, channels;
  bool blocked;
  StorageDtype rounded = StorageDtype::exact;  ///< how x stands (Layout::storage)
};
NEURIM_EACH_ISA(void plane_means(const PlaneShape& shape, const float* x, float* means, std::int64_t first,
                                 std::int64_t last))
/// Writes each plane full of its value.
NEURIM_EACH_ISA(void fill_planes(const PlaneShape& shape, const float* values, float* x, std::int64_t first,
                                 std::int64_t last))

}  // namespace neurim::cpu
