#include "neurim/backend/cpu/matmul/gemv.h"

#include "neurim/backend/cpu/simd/storage.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

template <class Places, int kCount>
void some(const float* x, const float* weight, std::int64_t first, std::int64_t row, const float* bias, std::int64_t in,
          float* y) {
  Vec sums[kCount] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= in; i += kLanes) {
    const Vec factor = load(x + i);
#pragma GCC unroll 8
    for (int o = 0; o < kCount; ++o) {
      const std::int64_t at = (first + o) * row + i;
      sums[o] += factor * Places::get(weight, at);
      __builtin_prefetch(reinterpret_cast<const char*>(weight) + Places::words(at + kCount * row) * 4);
    }
  }
  if (i < in) {
    const int rest = static_cast<int>(in - i);
    const Vec factor = load_partial(x + i, rest);
#pragma GCC unroll 8
    for (int o = 0; o < kCount; ++o) {
      const std::int64_t at = (first + o) * row + i;
      if constexpr (std::is_same_v<Places, Exact>)
        sums[o] += factor * load_partial(weight + at, rest);
      else
        sums[o] += factor * Places::get(weight, at);
    }
  }
#pragma GCC unroll 8
  for (int o = 0; o < kCount; ++o) y[first + o] = sum(sums[o]) + (bias ? bias[first + o] : 0.0f);
}

}  // namespace

void row_times_weights(const float* x, const float* weight, StorageDtype rounded, const float* bias, std::int64_t in,
                       std::int64_t first, std::int64_t last, float* y) {
  constexpr int kOutputs = 4;
  with_read_places(rounded, [&](auto places) {
    using Places = decltype(places);
    const std::int64_t row = rounded ? (in + kLanes - 1) / kLanes * kLanes : in;
    std::int64_t o = first;
    for (; o + kOutputs <= last; o += kOutputs) some<Places, kOutputs>(x, weight, o, row, bias, in, y);
    for (; o < last; ++o) some<Places, 1>(x, weight, o, row, bias, in, y);
  });
}

}  // namespace neurim::cpu::NEURIM_ISA
