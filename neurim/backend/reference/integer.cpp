#include "neurim/ops/integer.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

template <class T>
using Unsigned = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;

/// Wraps as two's complements do; arithmetic of unsigned numbers has no overflow that C++ leaves open.
template <class T>
T wrapped(Unsigned<T> value) {
  return static_cast<T>(value);
}

template <class T>
T power(T base, T exponent) {
  if constexpr (std::is_signed_v<T>)
    if (exponent < 0) return base == 1 ? T(1) : base == -1 ? (exponent % 2 ? T(-1) : T(1)) : T(0);
  Unsigned<T> result = 1, square = static_cast<Unsigned<T>>(+base);
  for (auto left = static_cast<std::make_unsigned_t<T>>(exponent); left > 0;
       left = static_cast<decltype(left)>(left >> 1)) {
    if (left & 1) result *= square;
    square *= square;
  }
  return wrapped<T>(result);
}

/// The quotient towards zero and what is left; -1 is a divisor of its own, as the least number has no opposite.
template <class T>
T quotient(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return wrapped<T>(Unsigned<T>{0} - static_cast<Unsigned<T>>(+a));
  return static_cast<T>(a / b);
}
template <class T>
T remainder_of(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}

template <class T>
T shifted(T a, T b, bool left) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(b);
  if (bits >= sizeof(T) * 8) return 0;
  const auto value = static_cast<std::make_unsigned_t<T>>(a);
  return static_cast<T>(left ? static_cast<Unsigned<T>>(value) << bits : static_cast<Unsigned<T>>(value) >> bits);
}

template <class T>
T computed(std::string_view function, T a, T b) {
  using U = Unsigned<T>;
  const U x = static_cast<U>(+a), y = static_cast<U>(+b);
  if (function == "add") return wrapped<T>(x + y);
  if (function == "subtract") return wrapped<T>(x - y);
  if (function == "multiply") return wrapped<T>(x * y);
  if (function == "divide") return quotient(a, b);
  if (function == "remainder") return remainder_of(a, b);
  if (function == "modulo") {
    const T left = remainder_of(a, b);
    return left != 0 && (left < 0) != (b < 0) ? static_cast<T>(left + b) : left;
  }
  if (function == "power") return power(a, b);
  if (function == "minimum") return std::min(a, b);
  if (function == "maximum") return std::max(a, b);
  if (function == "and") return wrapped<T>(x & y);
  if (function == "or") return wrapped<T>(x | y);
  if (function == "xor") return wrapped<T>(x ^ y);
  if (function == "not") return wrapped<T>(~x);
  if (function == "negative") return wrapped<T>(U{0} - x);
  if (function == "absolute") return a < 0 ? wrapped<T>(U{0} - x) : a;
  return shifted(a, b, function == "shift_left");
}

template <class T>
void each_element(std::string_view function, std::span<const View> in, const View& out) {
  const auto* a = static_cast<const T*>(in[0].data);
  const auto* b = static_cast<const T*>(in.back().data);
  auto* to = static_cast<T*>(out.data);
  const reference::BroadcastIndex place_a(in[0].shape(), out.shape()), place_b(in.back().shape(), out.shape());
  for (std::int64_t i = 0, count = out.numel(); i < count; ++i)
    to[i] = computed(function, a[place_a(i)], b[place_b(i)]);
}

void integer_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const std::string& function = static_cast<const Integer&>(op).function;
  switch (out[0].type.dtype) {
    case DType::i64: return each_element<std::int64_t>(function, in, out[0]);
    case DType::i32: return each_element<std::int32_t>(function, in, out[0]);
    case DType::i16: return each_element<std::int16_t>(function, in, out[0]);
    case DType::i8: return each_element<std::int8_t>(function, in, out[0]);
    case DType::u64: return each_element<std::uint64_t>(function, in, out[0]);
    case DType::u32: return each_element<std::uint32_t>(function, in, out[0]);
    case DType::u16: return each_element<std::uint16_t>(function, in, out[0]);
    default: return each_element<std::uint8_t>(function, in, out[0]);
  }
}

}  // namespace

void reference_integer() { reference::define_reference("integer", integer_body); }

}  // namespace neurim
