#include "neurim/backend/cpu/one_row.h"

#include "neurim/backend/cpu/simd.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

template <int kCount>
void some(const float* x, const float* weight, const float* bias, std::int64_t in, float* y) {
  Vec sums[kCount] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= in; i += kLanes) {
    const Vec factor = load(x + i);
#pragma GCC unroll 8
    for (int o = 0; o < kCount; ++o) sums[o] += factor * load(weight + o * in + i);
  }
  if (i < in) {
    const int rest = static_cast<int>(in - i);
    const Vec factor = load_part(x + i, rest);
#pragma GCC unroll 8
    for (int o = 0; o < kCount; ++o) sums[o] += factor * load_part(weight + o * in + i, rest);
  }
#pragma GCC unroll 8
  for (int o = 0; o < kCount; ++o) y[o] = sum(sums[o]) + (bias ? bias[o] : 0.0f);
}

}  // namespace

void row_times_weights(const float* x, const float* weight, const float* bias, std::int64_t in, std::int64_t first,
                       std::int64_t last, float* y) {
  constexpr int kOutputs = 4;
  std::int64_t o = first;
  for (; o + kOutputs <= last; o += kOutputs) some<kOutputs>(x, weight + o * in, bias ? bias + o : nullptr, in, y + o);
  for (; o < last; ++o) some<1>(x, weight + o * in, bias ? bias + o : nullptr, in, y + o);
}

}  // namespace neurim::cpu::NEURIM_ISA
