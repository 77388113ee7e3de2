// Counter-based random numbers in vectors.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// A stream of random numbers: those of random_block() for this key and ordinal.
struct RandomStream {
  std::uint64_t seed, step;
  std::int64_t ordinal;
};

constexpr int kRandomBlock = 256;  ///< numbers computed at once

/// Computes kRandomBlock 24-bit numbers from index `first`, a multiple of 4.
NEURIM_EACH_ISA(void random_numbers(const RandomStream& stream, std::int64_t first, std::uint32_t* numbers))
/// y[i] = x[i] / keep where number[i] is at least `threshold`, else 0; y may be x.
NEURIM_EACH_ISA(void drop(const float* x, const std::uint32_t* numbers, std::uint32_t threshold, double keep, float* y,
                          std::int64_t n))

}  // namespace neurim::cpu
