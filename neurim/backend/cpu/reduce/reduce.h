// Sums and extrema over axes. Every output belongs to one task, so that the numbers depend on the shapes
// alone.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// A reduction of memory of f32, or of bf16 or f16 values (see Layout::storage): loops over kept axes, within them
/// loops over the axes that go, within them the innermost loop over memory, whose steps are 1 apart and which stays or
/// goes.
struct Reduction {
  static constexpr int kMostAxes = 9;
  int kept = 0, gone = 0;
  std::int64_t kept_size[kMostAxes], kept_stride[kMostAxes], kept_out[kMostAxes];  // strides in x and in y
  std::int64_t gone_size[kMostAxes], gone_stride[kMostAxes];
  std::int64_t inner = 1, inner_out = 1;
  bool inner_kept = false;
  int channel_loop = -1;      ///< of a blocked x whose inner loop stays: the kept loop over channel blocks
  std::int64_t channels = 0;  ///< and how many there are: the rest of the last block is no output
  double divisor = 1;
  StorageDtype rounded = StorageDtype::exact;  ///< how x stands

  static constexpr int kLanes = 64;  ///< outputs that one piece holds when the inner loop stays
  std::int64_t pieces = 0;           ///< of the outputs, what tasks are cut into
};

NEURIM_EACH_ISA(void run_sum(const Reduction& reduction, const float* x, float* y, std::int64_t first,
                             std::int64_t last))
NEURIM_EACH_ISA(void run_max(const Reduction& reduction, const float* x, float* y, std::int64_t first,
                             std::int64_t last))
NEURIM_EACH_ISA(void run_min(const Reduction& reduction, const float* x, float* y, std::int64_t first,
                             std::int64_t last))
/// The place of the first maximum of rows [first, last) of `size` elements; NaN counts as the maximum.
NEURIM_EACH_ISA(void run_argmax(const float* x, std::int64_t* y, std::int64_t size, std::int64_t first,
                                std::int64_t last))

}  // namespace neurim::cpu
