// Normalization of the rows of plain f32 tensors: layer, group and RMS normalization.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// The parameters of NormRows (ops/layer_norm.h).
struct NormShape {
  std::int64_t groups, channels, inner;
  bool centered;
  float eps;
  std::int64_t size() const { return channels * inner; }
};

/// Computes rows [first, last) of y; `bias` may be null.
NEURIM_EACH_ISA(void run_norm(const NormShape& shape, const float* x, const float* weight, const float* bias, float* y,
                              std::int64_t first, std::int64_t last))
/// Computes rows [first, last) of dx and adds their terms to dweight and dbias.
NEURIM_EACH_ISA(void run_norm_grad(const NormShape& shape, const float* dy, const float* x, const float* weight,
                                   float* dx, float* dweight, float* dbias, std::int64_t first, std::int64_t last))
/// Pixels whose channels are in blocks of 16. Distances between blocks in floats.
struct NormPixels {
  std::int64_t pixels, channels, x_block, y_block;
  bool centered;
  float eps;
};
/// Computes y[block][pixel][16] from x, normalizing each pixel over its channels. Lanes after the last channel are zero
/// in x and in y. `bias` may be null.
NEURIM_EACH_ISA(void norm_pixels(const NormPixels& shape, const float* x, const float* weight, const float* bias,
                                 float* y))

}  // namespace neurim::cpu
