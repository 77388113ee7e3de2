// Vectors for the CPU kernels. Every file under cpu/simd/ is compiled once for each instruction set, in a
// namespace of its own (NEURIM_ISA); the fastest one that this machine has is chosen at run time. A vector is
// 16 floats on all of them, so that blocked layouts and results do not depend on the machine: two registers
// on AVX2, four on the portable path.
#pragma once
#include <cstdint>
#include <cstring>

#ifndef NEURIM_ISA
#error "compile this through neurim_isa_sources()"
#endif

namespace neurim::cpu::NEURIM_ISA {

inline constexpr int kLanes = 16;
typedef float Vec __attribute__((vector_size(64)));
typedef std::int32_t IVec __attribute__((vector_size(64)));

inline Vec load(const float* at) {
  Vec v;
  std::memcpy(&v, at, sizeof v);
  return v;
}
inline void store(float* at, Vec v) { std::memcpy(at, &v, sizeof v); }
inline Vec splat(float x) { return x - Vec{}; }  // x + 0 would not be x for -0, and cost an addition
/// The first n of 16 floats, the rest zero.
inline Vec load_part(const float* at, int n) {
  Vec v{};
  std::memcpy(&v, at, static_cast<std::size_t>(n) * sizeof(float));
  return v;
}
inline void store_part(float* at, Vec v, int n) {
  std::memcpy(at, &v, static_cast<std::size_t>(n) * sizeof(float));
}
inline Vec max(Vec a, Vec b) { return a > b ? a : b; }
inline Vec min(Vec a, Vec b) { return a < b ? a : b; }
/// What Relu of relu.h says, and its gradient by its output y. A NaN stays; as a limit it is none.
inline Vec limited(Vec v, Vec least, Vec most) { return min(most, max(least, v)); }
inline Vec gated(Vec dy, Vec y, Vec most) { return (y > Vec{}) & (y != most) ? dy : Vec{}; }
/// Neighbouring halves are added up until one number is left.
inline float sum(Vec v) {
  const auto eight = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  const auto four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

}  // namespace neurim::cpu::NEURIM_ISA
