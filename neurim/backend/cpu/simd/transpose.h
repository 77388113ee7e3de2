// Small transposes. For files under cpu/simd/.
#pragma once
#include <cstdint>
#include <cstring>

namespace neurim::cpu::NEURIM_ISA {

typedef float Four __attribute__((vector_size(16)));
typedef std::int32_t Select __attribute__((vector_size(16)));

inline Four load4(const float* at) {
  Four v;
  std::memcpy(&v, at, sizeof v);
  return v;
}
inline void store4(float* at, Four v) { std::memcpy(at, &v, sizeof v); }

/// Stores a 4 x 4 block transposed, rows `to_row` floats apart, with shuffles that every instruction set has.
inline void store_columns(Four a, Four b, Four c, Four d, float* to, std::int64_t to_row) {
  constexpr Select low = {0, 4, 1, 5}, high = {2, 6, 3, 7}, firsts = {0, 1, 4, 5}, seconds = {2, 3, 6, 7};
  const Four ab = __builtin_shuffle(a, b, low), cd = __builtin_shuffle(c, d, low);
  const Four ab2 = __builtin_shuffle(a, b, high), cd2 = __builtin_shuffle(c, d, high);
  store4(to, __builtin_shuffle(ab, cd, firsts));
  store4(to + to_row, __builtin_shuffle(ab, cd, seconds));
  store4(to + 2 * to_row, __builtin_shuffle(ab2, cd2, firsts));
  store4(to + 3 * to_row, __builtin_shuffle(ab2, cd2, seconds));
}

/// The same for rows that are `from_row` floats apart in memory.
inline void transpose4(const float* from, std::int64_t from_row, float* to, std::int64_t to_row) {
  store_columns(load4(from), load4(from + from_row), load4(from + 2 * from_row), load4(from + 3 * from_row), to,
                to_row);
}

}  // namespace neurim::cpu::NEURIM_ISA
