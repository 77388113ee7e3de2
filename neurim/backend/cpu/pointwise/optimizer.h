// Optimizer steps, one pass over the memory of weight, gradient and buffers, whatever their common layout is.
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
/// With momentum, or Nesterov's; the outputs may be the weight and the buffer.
NEURIM_EACH_ISA(void sgd_momentum(const SgdNumbers& numbers, bool nesterov, const float* weight, const float* grad,
                                  const float* buffer, float* next, float* next_buffer, std::int64_t n))

struct AdamNumbers {
  float rate;             ///< the learning rate over the first moment's bias correction
  float root_correction;  ///< by what the root of the second moment is multiplied to correct its bias
  float beta1, rest1;     ///< of the first moment: how much of the old one stays, and of the gradient enters
  float beta2, rest2;     ///< of the second
  float eps;
  float shrink;        ///< what the weight is multiplied with before the step
  float weight_decay;  ///< how much of the weight joins the gradient
  float scale;         ///< what that is multiplied with
};
/// The outputs may be the weight and the moments.
NEURIM_EACH_ISA(void adam(const AdamNumbers& numbers, const float* weight, const float* grad, const float* m,
                          const float* v, float* next, float* next_m, float* next_v, std::int64_t n))

/// Whether none of n numbers is infinite or NaN.
NEURIM_EACH_ISA(bool all_finite(const float* x, std::int64_t n))

}  // namespace neurim::cpu
