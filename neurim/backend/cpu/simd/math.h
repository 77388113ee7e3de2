// Elementary functions of floats. They have no branches and no calls, so that the compiler vectorizes a loop over them
// on every instruction set. Denormal numbers count as zero, as in every compute thread. The polynomials are minimax
// fits (Lawson's algorithm) with errors below half an ulp unless a comment gives another bound.
#pragma once
#include <bit>
#include <cstdint>

#ifndef NEURIM_ISA
#error "compile this through neurim_isa_sources()"
#endif

namespace neurim::cpu::NEURIM_ISA {

inline constexpr float kInfinity = __builtin_inff();
inline constexpr float kNaN = __builtin_nanf("");

inline constexpr float kRound = 0x1.8p23f;  ///< adding it rounds to an integer, which is then in the lowest bits

/// Converts the bits of an f16.
inline float float_of_f16(std::uint16_t bits) {
  const std::uint32_t body = bits & 0x7fffu;
  const float small = static_cast<float>(static_cast<std::int32_t>(body)) * 0x1p-24f;
  const std::uint32_t normal = (body << 13) + (112u << 23), beyond = body << 13 | 0x7f800000u;
  const std::uint32_t any = body < 0x400u ? std::bit_cast<std::uint32_t>(small) : body < 0x7c00u ? normal : beyond;
  return std::bit_cast<float>(any | (bits & 0x8000u) << 16);
}

/// 2^n for n in [-127, 128], given n + kRound; 0 at -127, infinity at 128.
inline float power_of_two(float rounded) {
  return std::bit_cast<float>(0x3f800000u + (std::bit_cast<std::uint32_t>(rounded) << 23));
}

/// e^x = 2^n * (1 + tail); `rounded` is n + kRound.
struct Exponential {
  float rounded, tail;
};
inline Exponential exponential(float x) {
  const float rounded = x * 0x1.715476p0f + kRound, n = rounded - kRound;
  // log(2) in two parts; the first has so few bits that its product with n is exact.
  const float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  const float p = 0.5f + r * (0.166665182f + r * (0.041666206f + r * (0.0083688898f + r * 0.00139504892f)));
  return {rounded, r + r * r * p};
}

inline float exp_of(float x) {
  const Exponential e = exponential(x < -104.f ? -104.f : x > 89.f ? 89.f : x);
  // Two factors, because 2^n alone overflows or underflows before e^x does.
  const float half = (e.rounded - kRound) * 0.5f + kRound, rest = e.rounded - (half - kRound);
  return (1 + e.tail) * power_of_two(half) * power_of_two(rest);
}

/// e^x for x in [-87, 89]; infinity from 88.4 on.
inline float exp_within(float x) {
  const Exponential e = exponential(x);
  return (1 + e.tail) * power_of_two(e.rounded);
}

/// e^x for x <= 0; below -87, where it would be denormal, 0.
inline float exp_below(float x) {
  const float y = exp_within(x < -87.f ? -87.f : x);
  return x < -87.f ? 0.f : y;
}

/// 2^x for x in [-126, 127], to 1e-7 of it.
inline float exp2_of(float x) {
  const float rounded = x + kRound, r = x - (rounded - kRound), square = r * r;
  const float p = (0.693147004f + r * 0.240222424f) +
                  square * ((0.0555073358f + r * 0.00967151299f) + square * 0.00132647273f);
  return (1 + r * p) * power_of_two(rounded);
}

/// e^x - 1, exact near 0; x above 87 counts as 87.
inline float expm1_of(float x) {
  const Exponential e = exponential(x < -88.f ? -88.f : x > 87.f ? 87.f : x);
  const float power = power_of_two(e.rounded);
  return power * e.tail + (power - 1);
}

inline float log_of(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  // The exponent that leaves a mantissa in [sqrt(1/2), sqrt(2)).
  const std::int32_t power = static_cast<std::int32_t>(bits - 0x3f3504f3u) >> 23;
  const float f = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(power) << 23)) - 1;
  const float p = 0.333333313f +
                  f * (-0.250008225f +
                       f * (0.200012267f +
                            f * (-0.166233569f +
                                 f * (0.142017618f + f * (-0.131601945f + f * (0.127615497f + f * -0.0763442963f))))));
  const float n = static_cast<float>(power);
  const float y = n * 0x1.62e4p-1f + (f + (n * 0x1.7f7d1cp-20f + f * f * (f * p - 0.5f)));
  const float small = x < 0 ? kNaN : -kInfinity;
  return x < 0x1p-126f ? small : x < kInfinity ? y : x;
}

/// log(1 + x) for x in [0, 1], with a first-order correction for the rounding of 1 + x.
inline float log1p_of(float x) {
  const float whole = 1 + x;
  return log_of(whole) + (x - (whole - 1)) / whole;
}

/// 1 + e^-x with a relative error of 4e-7, above x = -10 of 2e-7. With FMA the polynomial is shorter than that of e^x,
/// since adding 1 hides the last digit. Infinity where the inverse would be denormal. Clamps x to [-89, 87] by integer
/// comparisons, which are faster: floats of one sign compare like their bits. NaN is clamped too, so callers have to
/// bring NaN in by another factor.
inline float sigmoid_inverse(float x) {
  const std::int32_t bits = std::bit_cast<std::int32_t>(x), most = std::bit_cast<std::int32_t>(87.f);
  const std::uint32_t below = static_cast<std::uint32_t>(bits < most ? bits : most),
                      least = std::bit_cast<std::uint32_t>(-89.f);
  const float y = std::bit_cast<float>(below < least ? below : least);
#if defined(__FMA__)  // FMA does not round the product, so log(2) needs no second part, even without optimization
  const float rounded = y * -0x1.715476p0f + kRound, r = __builtin_fmaf(rounded - kRound, -0x1.62e43p-1f, -y);
  const float p = 0.999999702f + r * (0.499991447f + r * (0.166676402f + r * (0.0418983921f + r * 0.00829022937f)));
  return 1 + (1 + r * p) * power_of_two(rounded);
#else
  return 1 + exp_within(-y);
#endif
}
inline float sigmoid_of(float x) {
  const float y = 1 / sigmoid_inverse(x);
  return x == x ? y : x;
}

inline float tanh_of(float x) {
  const float size = __builtin_fabsf(x);
  const Exponential e = exponential(size > 10.f ? 20.f : 2 * size);  // above 10 the quotient rounds to 1
  const float power = power_of_two(e.rounded), more = power * e.tail + (power - 1);
  return __builtin_copysignf(more / (more + 2), x);
}

/// A polynomial below 1; above, 1 - e^polynomial.
inline float erf_of(float x) {
  const float size = x < 0 ? -x : x, square = x * x;
  const float near = x +
                     x * (0.128379166f +
                          square *
                              (-0.37612626f +
                               square * (0.112835854f +
                                         square * (-0.026853811f +
                                                   square * (0.00518832728f + square * (-0.000801019138f +
                                                                                        square * 7.85385419e-05f))))));
  const float z = size > 4 ? 4.f : size;
  const float far = 1 - exp_of(-0.000353708921f +
                               z * (-1.12704003f +
                                    z * (-0.638225615f +
                                         z * (-0.103037432f +
                                              z * (0.0218053516f + z * (-0.00293961563f + z * 0.0001855749f))))));
  return size < 1 ? near : x < 0 ? -far : x > 0 ? far : x;
}

/// The upper tail of the standard normal distribution at z = min(|x|, 10): power * ratio with power = e^(-z^2 / 2) and
/// ratio a polynomial of 1 / (1 + 0.34 z), with a relative error of 4e-7. Evaluated by Estrin's scheme: Horner's chain
/// of dependent operations would stall the pipeline.
struct NormalTail {
  float z, power, ratio;
  explicit NormalTail(float x) {
    const float size = __builtin_fabsf(x);
    z = size > 10.f ? 10.f : size;
    power = exp2_of(-0.721347520f * (z * z));
    const float t = 1 / (1 + 0.34f * z), two = t * t;
    const float low = (-7.70214392e-05f + t * 0.137138426f) + two * (0.123280421f + t * 0.176260054f);
    const float high = (-0.0649843588f + t * 0.298418820f) + two * (-0.218984216f + t * 0.0489478745f);
    ratio = low + two * two * high;
  }
};

inline float gelu_of(float x) {
  const NormalTail tail(x);
  return (x < 0 ? 0 : x) - tail.z * tail.power * tail.ratio;
}

inline float gelu_slope(float x) {
  const NormalTail tail(x);
  const float lower = tail.power * (tail.ratio - 0.398942280f * tail.z);
  return x > 0 ? 1 - lower : lower;
}

}  // namespace neurim::cpu::NEURIM_ISA
