// Optimizer steps: one pass over the memory of weight, gradient and buffers, in any layout that they share.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

struct SgdNumbers {
  float lr, momentum, undamped, weight_decay, scale;
};
/// Steps n elements without momentum; the output may be the weight.
NEURIM_EACH_ISA(void sgd(const SgdNumbers& numbers, const float* weight, const float* grad, float* next,
                         std::int64_t n))
/// With momentum or Nesterov momentum; the outputs may be the weight and the buffer.
NEURIM_EACH_ISA(void sgd_momentum(const SgdNumbers& numbers, bool nesterov, const float* weight, const float* grad,
                                  const float* buffer, float* next, float* next_buffer, std::int64_t n))

struct AdamNumbers {
  float rate;             ///< the learning rate over the first moment's bias correction
  float root_correction;  ///< multiplies the root of the second moment, to correct its bias
  float beta1, rest1;     ///< decay of the first moment, and 1 - beta1
  float beta2, rest2;     ///< the same for the second moment
  float eps;
  float shrink;        ///< decoupled weight decay: multiplies the weight before the step
  float weight_decay;  ///< L2 weight decay: this much of the weight is added to the gradient
  float scale;         ///< multiplies the gradient first
};
/// The outputs may be the weight and the moments.
NEURIM_EACH_ISA(void adam(const AdamNumbers& numbers, const float* weight, const float* grad, const float* m,
                          const float* v, float* next, float* next_m, float* next_v, std::int64_t n))

/// Whether all n numbers are finite.
NEURIM_EACH_ISA(bool all_finite(const float* x, std::int64_t n))

}  // namespace neurim::cpu
