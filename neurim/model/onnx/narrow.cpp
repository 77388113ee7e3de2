#include "neurim/model/onnx/narrow.h"

#include <cmath>
#include <limits>

#include "neurim/base/error.h"

namespace neurim {

namespace {

/// A floating type: sign, exponent, mantissa.
struct Format {
  int mantissa, bias;
  double largest;  // that is finite
  bool infinite;   // whether it has infinities
  bool zero_nan;   // whether NaN has the bits of -0, the only one
  int bits = 8;
};

Format format_of(OnnxElement element) {
  switch (element) {
    case OnnxElement::f8e4m3fn: return {3, 7, 448, false, false};
    case OnnxElement::f8e4m3fnuz: return {3, 8, 240, false, true};
    case OnnxElement::f8e5m2: return {2, 15, 57344, true, false};
    case OnnxElement::f8e5m2fnuz: return {2, 16, 57344, false, true};
    case OnnxElement::f4e2m1: return {1, 1, 6, false, false, 4};
    default: NEURIM_ASSERT(!"no narrow floating type"); return {};
  }
}

bool is_integer(OnnxElement element) {
  return element == OnnxElement::u4 || element == OnnxElement::i4 || element == OnnxElement::u2 ||
         element == OnnxElement::i2;
}
bool is_signed(OnnxElement element) { return element == OnnxElement::i4 || element == OnnxElement::i2; }

double from_e8m0(std::uint8_t bits) {
  return bits == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, bits - 127);
}

std::uint8_t to_e8m0(double value, NarrowRounding rounding) {
  if (std::isnan(value)) return 255;
  value = std::abs(value);
  if (value == 0) return 0;
  if (std::isinf(value)) return rounding.saturate ? 254 : 255;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  --exponent;
  const bool whole = fraction == 0.5;
  if (rounding.direction == 'u' ? !whole : rounding.direction == 'n' && fraction >= 0.75) ++exponent;
  if (exponent > 127) return rounding.saturate ? 254 : 255;
  return static_cast<std::uint8_t>(std::max(exponent, -127) + 127);
}

}  // namespace

int narrow_bits(OnnxElement element) {
  switch (element) {
    case OnnxElement::u4:
    case OnnxElement::i4:
    case OnnxElement::f4e2m1: return 4;
    case OnnxElement::u2:
    case OnnxElement::i2: return 2;
    default: return 8;
  }
}

double from_narrow(OnnxElement element, std::uint8_t bits) {
  if (element == OnnxElement::f8e8m0) return from_e8m0(bits);
  const int count = narrow_bits(element);
  if (is_integer(element))
    return is_signed(element) && bits >> (count - 1) ? bits - (1 << count) : static_cast<double>(bits);
  const Format format = format_of(element);
  const int sign = bits >> (format.bits - 1),
            exponent = bits >> format.mantissa & ((1 << (format.bits - 1 - format.mantissa)) - 1),
            mantissa = bits & ((1 << format.mantissa) - 1);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (format.zero_nan && bits == 0x80) return kNan;
  const int top = (1 << (format.bits - 1 - format.mantissa)) - 1;
  if (format.infinite && exponent == top)
    return mantissa ? kNan : (sign ? -1 : 1) * std::numeric_limits<double>::infinity();
  if (element == OnnxElement::f8e4m3fn && exponent == top && mantissa == 7) return kNan;
  const double size = exponent == 0
                          ? std::ldexp(mantissa, 1 - format.bias - format.mantissa)
                          : std::ldexp(mantissa + (1 << format.mantissa), exponent - format.bias - format.mantissa);
  return sign ? -size : size;
}

std::uint8_t to_narrow(OnnxElement element, double value, NarrowRounding rounding) {
  if (element == OnnxElement::f8e8m0) return to_e8m0(value, rounding);
  const int count = narrow_bits(element);
  if (is_integer(element)) {
    const double low = is_signed(element) ? -(1 << (count - 1)) : 0, high = low + (1 << count) - 1;
    const double whole = std::isnan(value) ? 0 : std::nearbyint(value);
    const double kept = whole < low ? low : whole > high ? high : whole;
    return static_cast<std::uint8_t>(static_cast<int>(kept) & ((1 << count) - 1));
  }
  const Format format = format_of(element);
  const int exponent_bits = format.bits - 1 - format.mantissa, top = (1 << exponent_bits) - 1;
  const std::uint8_t sign = std::signbit(value) ? 1 << (format.bits - 1) : 0;
  const std::uint8_t nan = format.zero_nan                    ? 0x80
                           : element == OnnxElement::f8e4m3fn ? sign | 0x7f
                           : element == OnnxElement::f8e5m2   ? sign | 0x7e
                                                              : 0x8;  // f4e2m1 has no NaN: -0
  if (std::isnan(value)) return nan;
  const std::uint8_t most = format.infinite                    ? sign | ((top << format.mantissa) - 1)
                            : element == OnnxElement::f8e4m3fn ? sign | 0x7e
                                                               : sign | ((1 << (format.bits - 1)) - 1);
  const auto too_large = [&]() -> std::uint8_t {
    if (rounding.saturate || element == OnnxElement::f4e2m1) return most;
    return format.infinite ? sign | (top << format.mantissa) : nan;
  };
  const double size = std::abs(value);
  if (std::isinf(size)) return too_large();
  int exponent = 0;
  std::frexp(size, &exponent);
  const int least = 1 - format.bias;  // of normal numbers
  const int unit = std::max(exponent - 1, least) - format.mantissa;
  const double units = std::nearbyint(std::ldexp(size, -unit)), rounded = std::ldexp(units, unit);
  if (rounded > format.largest) return too_large();
  if (rounded == 0) return format.zero_nan ? 0 : sign;
  int normal = 0;
  std::frexp(rounded, &normal);
  const int stored = normal - 1 < least ? 0 : normal - 1 + format.bias;
  const int mantissa = static_cast<int>(std::ldexp(rounded, -(std::max(normal - 1, least) - format.mantissa))) &
                       ((1 << format.mantissa) - 1);
  return static_cast<std::uint8_t>(sign | stored << format.mantissa | mantissa);
}

}  // namespace neurim
