// Elementary functions of floats, written so that the compiler turns a loop over them into vector code on
// every instruction set: no branches, no calls. Denormal numbers count as zero, as in every compute thread.
// The polynomials are minimax fits (Lawson's algorithm) with errors below half an ulp.
#pragma once
#include <bit>
#include <cstdint>

#ifndef NEURIM_ISA
#error "compile this through neurim_isa_sources()"
#endif

namespace neurim::cpu::NEURIM_ISA {

inline constexpr float kInfinity = __builtin_inff();
inline constexpr float kNaN = __builtin_nanf("");

/// e^x = 2^power * (1 + tail).
struct Exponential {
  std::int32_t power;
  float tail;
};
inline Exponential exponential(float x) {
  constexpr float kRound = 0x1.8p23f;  // adding it rounds to an integer
  const float n = (x * 0x1.715476p0f + kRound) - kRound;
  // log(2) in two parts, the first of so few bits that its product with n is exact.
  const float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  const float p = 0.5f + r * (0.166665182f + r * (0.041666206f + r * (0.0083688898f + r * 0.00139504892f)));
  return {static_cast<std::int32_t>(n), r + r * r * p};
}

/// 2^n for n in [-127, 127]; 0 at -127.
inline float power_of_two(std::int32_t n) { return std::bit_cast<float>((n + 127) << 23); }

inline float exp_of(float x) {
  const Exponential e = exponential(x < -104.f ? -104.f : x > 89.f ? 89.f : x);
  const std::int32_t half = e.power >> 1;  // two factors reach what one cannot say
  return (1 + e.tail) * power_of_two(half) * power_of_two(e.power - half);
}

/// e^x - 1, exact near 0; for x above 87 the largest it can say.
inline float expm1_of(float x) {
  const Exponential e = exponential(x < -88.f ? -88.f : x > 87.f ? 87.f : x);
  const float power = power_of_two(e.power);
  return power * e.tail + (power - 1);
}

inline float log_of(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  // The power that leaves a mantissa in [sqrt(1/2), sqrt(2)).
  const std::int32_t power = static_cast<std::int32_t>(bits - 0x3f3504f3u) >> 23;
  const float f = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(power) << 23)) - 1;
  const float p =
      0.333333313f +
      f * (-0.250008225f +
           f * (0.200012267f +
                f * (-0.166233569f +
                     f * (0.142017618f + f * (-0.131601945f + f * (0.127615497f + f * -0.0763442963f))))));
  const float n = static_cast<float>(power);
  const float y = n * 0x1.62e4p-1f + (f + (n * 0x1.7f7d1cp-20f + f * f * (f * p - 0.5f)));
  const float small = x < 0 ? kNaN : -kInfinity;
  return x < 0x1p-126f ? small : x < kInfinity ? y : x;
}

/// log(1 + x) for x in [0, 1]: what rounding 1 + x loses comes back to first order.
inline float log1p_of(float x) {
  const float whole = 1 + x;
  return log_of(whole) + (x - (whole - 1)) / whole;
}

inline float sigmoid_of(float x) { return 1 / (1 + exp_of(-x)); }

inline float tanh_of(float x) {
  const float size = x < 0 ? -x : x;
  const float e = expm1_of(2 * size);  // beyond 10 the quotient is 1
  const float y = size < 10 ? e / (e + 2) : size == size ? 1.f : x;
  return x < 0 ? -y : y;
}

/// Below 1 a polynomial; above, log(1 - erf) is one.
inline float erf_of(float x) {
  const float size = x < 0 ? -x : x, square = x * x;
  const float near =
      x +
      x * (0.128379166f +
           square * (-0.37612626f +
                     square * (0.112835854f +
                               square * (-0.026853811f +
                                         square * (0.00518832728f + square * (-0.000801019138f +
                                                                              square * 7.85385419e-05f))))));
  const float z = size > 4 ? 4.f : size;
  const float far =
      1 -
      exp_of(-0.000353708921f +
             z * (-1.12704003f +
                  z * (-0.638225615f + z * (-0.103037432f + z * (0.0218053516f + z * (-0.00293961563f +
                                                                                      z * 0.0001855749f))))));
  return size < 1 ? near : x < 0 ? -far : x > 0 ? far : x;
}

}  // namespace neurim::cpu::NEURIM_ISA
