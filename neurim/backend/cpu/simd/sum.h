// Sums of floats in vectors.
#pragma once
#include <cstdint>

#ifndef NEURIM_ISA
#error "compile this through neurim_isa_sources()"
#endif

namespace neurim::cpu::NEURIM_ISA {

inline constexpr int kSumLanes = 64;
inline constexpr int kSumBlock = 1024;  ///< elements before the float sums are added to a double

/// Reduces the lanes with `join` pairwise, by halves: a chain of dependent additions would be slower and less exact.
template <int count = kSumLanes, class Join>
float joined(float* lane, Join join) {
#pragma GCC unroll 8
  for (int half = count / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lane[l] = join(lane[l], lane[l + half]);
  return lane[0];
}

/// The sum of f(i) over [0, n).
template <class F>
double sum_of(std::int64_t n, F f) {
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kSumBlock) {
    const std::int64_t end = n - begin < kSumBlock ? n : begin + kSumBlock;
    float lane[kSumLanes] = {};
    std::int64_t i = begin;
    for (; i + kSumLanes <= end; i += kSumLanes)
      for (int l = 0; l < kSumLanes; ++l) lane[l] += f(i + l);
    for (int l = 0; i + l < end; ++l) lane[l] += f(i + l);
    total += static_cast<double>(joined(lane, [](float a, float b) { return a + b; }));
  }
  return total;
}

}  // namespace neurim::cpu::NEURIM_ISA
