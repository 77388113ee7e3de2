// Sums of floats in vectors.
#pragma once
#include <cstdint>

#ifndef NEURIM_ISA
#error "compile this through neurim_isa_sources()"
#endif

namespace neurim::cpu::NEURIM_ISA {

inline constexpr int kSumLanes = 64;
inline constexpr int kSumBlock = 1024;  ///< additions go to a double after so many elements

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
    for (int l = 0; l < kSumLanes && l < end - begin; ++l) total += static_cast<double>(lane[l]);
  }
  return total;
}

}  // namespace neurim::cpu::NEURIM_ISA
