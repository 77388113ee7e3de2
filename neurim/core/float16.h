// Conversions between float and the two 16-bit floating types; round to nearest even. Not for code that is compiled for
// several instruction sets, whose copies of an inline function the linker would take for one.
#pragma once
#include <bit>
#include <cstdint>

#include "neurim/core/types.h"

namespace neurim {

inline float from_bf16(std::uint16_t h) { return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16); }
inline std::uint16_t to_bf16(float f) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(f);
  if ((u & 0x7fffffff) > 0x7f800000) return static_cast<std::uint16_t>((u >> 16) | 0x40);  // NaN stays quiet NaN
  return static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

inline float from_f16(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000) << 16, body = h & 0x7fff;
  if (body >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (body & 0x3ff) << 13);
  if (body >= 0x0400) return std::bit_cast<float>(sign | ((body << 13) + (112u << 23)));
  const float subnormal = static_cast<float>(body) * 0x1p-24f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(subnormal) | sign);
}
inline std::uint16_t to_f16(float f) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(f), sign = u >> 16 & 0x8000, body = u & 0x7fffffff;
  if (body > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (body >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);  // 65520 and above round to infinity
  if (body >= 0x38800000) {
    const std::uint32_t rounded = body + 0xfff + (body >> 13 & 1);
    return static_cast<std::uint16_t>(sign | (rounded - (112u << 23)) >> 13);
  }
  // Below 2^-14: adding 0.5 puts the rounding place of a subnormal half at the last bit of the sum.
  const float shifted = std::bit_cast<float>(body) + 0.5f;
  return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000));
}

/// The same for the type that is named, one of these.
inline float from_storage(Layout::StorageDtype storage, std::uint16_t h) {
  return storage == Layout::f16 ? from_f16(h) : from_bf16(h);
}
inline std::uint16_t to_storage(Layout::StorageDtype storage, float f) {
  return storage == Layout::f16 ? to_f16(f) : to_bf16(f);
}

}  // namespace neurim
