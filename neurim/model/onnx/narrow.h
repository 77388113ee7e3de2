// Numbers of 8 and fewer bits that have no DType: ONNX's 8-bit and 4-bit floating types (OCP 8-bit Floating Point
// Specification 1.0, OCP Microscaling Formats 1.0; the "uz" ones: arXiv 2206.02915) and integers of 4 and 2 bits.
#pragma once
#include <cstdint>

#include "neurim/model/onnx/value.h"

namespace neurim {

int narrow_bits(OnnxElement element);  ///< 8, 4 or 2

/// The number that these bits are; exact in f32.
double from_narrow(OnnxElement element, std::uint8_t bits);

/// How numbers that a narrow type does not have become one that it has.
struct NarrowRounding {
  bool saturate = true;  ///< too large: the largest, else infinity or NaN
  /// Of f8e8m0, which has powers of two alone: "up", "down" or "nearest".
  char direction = 'u';
};
/// The bits of the nearest number, ties to even.
std::uint8_t to_narrow(OnnxElement element, double value, NarrowRounding rounding = {});

}  // namespace neurim
