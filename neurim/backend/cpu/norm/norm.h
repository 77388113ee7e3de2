// Normalization of the rows of plain f32 tensors: layer, group and RMS normalization.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// As NormRows of ops/layer_norm.h.
struct NormShape {
  std::int64_t groups, channels, inner;
  bool centered;
  float eps;
  std::int64_t size() const { return channels * inner; }
};

/// Rows [first, last) of y from x; `bias` may be null.
NEURIM_EACH_ISA(void run_norm(const NormShape& shape, const float* x, const float* weight, const float* bias, float* y,
                              std::int64_t first, std::int64_t last))
/// Rows [first, last) of dx; adds their shares to dweight and dbias.
NEURIM_EACH_ISA(void run_norm_grad(const NormShape& shape, const float* dy, const float* x, const float* weight,
                                   float* dx, float* dweight, float* dbias, std::int64_t first, std::int64_t last))
/// Rows of pixels whose channels lie in blocks of 16; distances between the blocks in floats.
struct NormPixels {
  std::int64_t pixels, channels, x_block, y_block;
  bool centered;
  float eps;
};
/// y[block][pixel][16] from x, each pixel normalized over its channels; lanes behind the last one, zero in x, are zero
/// in y. `bias` may be null.
NEURIM_EACH_ISA(void norm_pixels(const NormPixels& shape, const float* x, const float* weight, const float* bias,
                                 float* y))

}  // namespace neurim::cpu
