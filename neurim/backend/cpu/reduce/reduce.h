// Sums and extrema over axes. Each output belongs to one task, so results depend on the shapes only.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// A reduction over memory of f32 or 16-bit storage: loops over kept axes, inside them loops over reduced axes, inside
/// them the innermost loop over memory, of stride 1, which is kept or reduced.
struct Reduction {
  static constexpr int kMostAxes = 9;
  int kept = 0, gone = 0;
  std::int64_t kept_size[kMostAxes], kept_stride[kMostAxes], kept_out[kMostAxes];  // strides in x and in y
  std::int64_t gone_size[kMostAxes], gone_stride[kMostAxes];
  std::int64_t inner = 1, inner_out = 1;
  bool inner_kept = false;
  int channel_loop = -1;      ///< of a blocked x whose inner loop is kept: the kept loop over channel blocks
  std::int64_t channels = 0;  ///< the number of channels: padding of the last block is no output
  double divisor = 1;
  StorageDtype rounded = StorageDtype::exact;  ///< storage of x

  static constexpr int kLanes = 64;  ///< outputs of a piece if the inner loop is kept
  std::int64_t pieces = 0;           ///< of the outputs: the work items
};

NEURIM_EACH_ISA(void run_sum(const Reduction& reduction, const float* x, float* y, std::int64_t first,
                             std::int64_t last))
NEURIM_EACH_ISA(void run_max(const Reduction& reduction, const float* x, float* y, std::int64_t first,
                             std::int64_t last))
NEURIM_EACH_ISA(void run_min(const Reduction& reduction, const float* x, float* y, std::int64_t first,
                             std::int64_t last))
/// The index of the first maximum of rows [first, last) of `size` elements; NaN counts as the maximum.
NEURIM_EACH_ISA(void run_argmax(const float* x, std::int64_t* y, std::int64_t size, std::int64_t first,
                                std::int64_t last))

}  // namespace neurim::cpu
