#include "neurim/backend/cpu/pointwise/optimizer.h"

#include "neurim/backend/cpu/simd/simd.h"

namespace neurim::cpu::NEURIM_ISA {

void sgd(const SgdNumbers& numbers, const float* weight, const float* grad, float* next, std::int64_t n) {
  const SgdNumbers k = numbers;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) next[i] = weight[i] - k.lr * (k.scale * grad[i] + k.weight_decay * weight[i]);
}

void sgd_momentum(const SgdNumbers& numbers, bool nesterov, const float* weight, const float* grad, const float* buffer,
                  float* next, float* next_buffer, std::int64_t n) {
  const SgdNumbers k = numbers;
  const float ahead = nesterov ? k.momentum : 1, own = nesterov ? 1 : 0;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = k.scale * grad[i] + k.weight_decay * weight[i];
    const float b = k.momentum * buffer[i] + k.undamped * g;
    next[i] = weight[i] - k.lr * (own * g + ahead * b);
    next_buffer[i] = b;
  }
}

void adam(const AdamNumbers& numbers, const float* weight, const float* grad, const float* m, const float* v,
          float* next, float* next_m, float* next_v, std::int64_t n) {
  const AdamNumbers k = numbers;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = k.scale * grad[i] + k.weight_decay * weight[i];
    const float first = k.beta1 * m[i] + k.rest1 * g;
    const float second = k.beta2 * v[i] + k.rest2 * g * g;
    next[i] = k.shrink * weight[i] - k.rate * first / (__builtin_sqrtf(second) * k.root_correction + k.eps);
    next_m[i] = first;
    next_v[i] = second;
  }
}

bool all_finite(const float* x, std::int64_t n) {
  Vec zeros[4] = {};  // finite numbers times zero are zero, others NaN
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int k = 0; k < 4; ++k) zeros[k] += load(x + i + k * kLanes) * 0.0f;
  for (; i + kLanes <= n; i += kLanes) zeros[0] += load(x + i) * 0.0f;
  zeros[1] += load_partial(x + i, static_cast<int>(n - i)) * 0.0f;
  return sum((zeros[0] + zeros[1]) + (zeros[2] + zeros[3])) == 0;
}

}  // namespace neurim::cpu::NEURIM_ISA
