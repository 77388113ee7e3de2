// Casts between element types, and what quantizes.
#include "neurim/ops/cast.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/model/onnx/narrow.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/ops/add.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/div.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/integer.h"
#include "neurim/ops/math_function.h"
#include "neurim/ops/maximum.h"
#include "neurim/ops/minimum.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/neg.h"
#include "neurim/ops/quantize.h"
#include "neurim/ops/reduce_max.h"
#include "neurim/ops/reduce_min.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/sub.h"

namespace neurim {

namespace {

bool whole_dtype(DType dtype) { return !is_floating(dtype) && dtype != DType::boolean; }
bool has_sign(DType dtype) { return name(dtype)[0] == 'i'; }
bool narrow_whole(OnnxElement element) {
  return element == OnnxElement::u4 || element == OnnxElement::i4 || element == OnnxElement::u2 ||
         element == OnnxElement::i2;
}
Tensor whole_scalar(std::int64_t value, DType dtype) {
  return cast(Tensor::from(Shape{}, std::vector<std::int64_t>{value}), dtype);
}

/// The same bits as another dtype of the same size, of stored numbers.
Tensor same_bits(const Tensor& x, const Type& type) {
  std::vector<std::byte> host(bytes(x.type()));
  x.read(host.data());
  return Tensor::from(type, host.data());
}

/// Whole numbers as another whole dtype: its lowest bits, as C's casts keep them.
Tensor wrapped_cast(const Tensor& x, DType to) {
  const int from_bits = bits(x.dtype()), to_bits = bits(to);
  const bool fits = from_bits < to_bits ? has_sign(to) || !has_sign(x.dtype())
                                        : from_bits == to_bits && has_sign(to) == has_sign(x.dtype());
  if (fits) return cast(x, to);
  if (to_bits == 64) {
    const Tensor wide = from_bits == 64 ? x : cast(x, DType::i64);
    if (wide.traced()) throw OnnxNeedsData("Cast of whole numbers to 64 bits of another sign needs them");
    return same_bits(wide, {to, x.shape()});
  }
  // Of 64 bits the lowest 32 first, as a number of 64 bits with a sign.
  Tensor wide = x.dtype() == DType::u64
                    ? cast(integer("and", {x, whole_scalar((std::int64_t{1} << 32) - 1, DType::u64)}), DType::i64)
                    : cast(x, DType::i64);
  const std::int64_t range = std::int64_t{1} << to_bits, half = has_sign(to) ? range / 2 : 0;
  wide = integer("modulo", {integer("add", {wide, whole_scalar(half, DType::i64)}), whole_scalar(range, DType::i64)});
  return cast(integer("subtract", {wide, whole_scalar(half, DType::i64)}), to);
}

std::string number_text(double value, DType dtype) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "INF" : "-INF";
  std::array<char, 64> buffer{};
  const auto [end, error] = dtype == DType::f64 ? std::to_chars(buffer.data(), buffer.data() + buffer.size(), value)
                                                : std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                                                static_cast<float>(value));
  return {buffer.data(), error == std::errc() ? end : buffer.data()};
}

OnnxValue to_texts(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  OnnxStrings texts{x.shape(), {}};
  if (is_floating(x.dtype()))
    for (const double value : call.numbers(0)) texts.values.push_back(number_text(value, x.dtype()));
  else if (x.dtype() == DType::boolean)
    for (const std::int64_t value : call.integers(0)) texts.values.emplace_back(value ? "1" : "0");
  else
    for (const std::int64_t value : call.integers(0))
      texts.values.push_back(x.dtype() == DType::u64 ? std::to_string(static_cast<std::uint64_t>(value))
                                                     : std::to_string(value));
  return texts;
}

OnnxValue from_texts(const OnnxStrings& texts, DType to) {
  std::vector<double> values;
  std::vector<std::int64_t> whole;
  for (const std::string& each : texts.values) {
    std::string word = lower(each);
    if (starts_with(word, "+")) word = word.substr(1);
    const char* end = word.data() + word.size();
    if (whole_dtype(to)) {
      std::int64_t value = 0;
      if (const auto read = std::from_chars(word.data(), end, value); read.ec == std::errc() && read.ptr == end) {
        whole.push_back(value);
        continue;
      }
    }
    double value = 0;
    const auto [at, error] = std::from_chars(word.data(), end, value);
    if (error != std::errc() || at != end) fail(Fault::data, "'", each, "' is no number");
    values.push_back(value);
    whole.push_back(static_cast<std::int64_t>(value));
  }
  if (whole_dtype(to)) return wrapped_cast(Tensor::from(texts.shape, whole), to);
  return cast(Tensor::from({DType::f64, texts.shape}, values.data()), to);
}

/// As a narrow type: floating ones round, whole ones take the lowest bits.
OnnxValue to_narrow_type(const OnnxCall& call, const Tensor& x, OnnxElement to, NarrowRounding rounding) {
  if (x.traced()) throw OnnxNeedsData(text(call.op(), " to ", to, " needs the numbers"));
  const std::vector<double> values = x.values<double>();
  std::vector<double> rounded(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (narrow_whole(to)) {
      const int count = narrow_bits(to);
      const auto lowest = static_cast<std::uint8_t>(
          static_cast<std::int64_t>(std::isfinite(values[i]) ? values[i] : 0) & ((1 << count) - 1));
      rounded[i] = from_narrow(to, lowest);
    } else {
      rounded[i] = from_narrow(to, to_narrow(to, values[i], rounding));
    }
  }
  return {cast(Tensor::from({DType::f64, x.shape()}, rounded.data()), dtype_of(to)), to};
}

OnnxValue cast_to(const OnnxCall& call, OnnxElement to) {
  const OnnxValue& from = call.in(0);
  if (to == OnnxElement::string) return from.is_strings() ? from : to_texts(call);
  const DType dtype = dtype_of(to);
  if (from.is_strings()) {
    const OnnxValue numbers = from_texts(from.strings(), is_narrow(to) ? DType::f32 : dtype);
    return is_narrow(to) ? to_narrow_type(call, numbers.tensor(), to, {}) : numbers;
  }
  const Tensor& x = call.tensor(0);
  if (from.element() == to) return from;
  if (is_narrow(to)) {
    const std::string mode = call.word("round_mode", "up");
    return to_narrow_type(call, x, to, {call.integer("saturate", std::int64_t{1}) != 0, mode.empty() ? 'u' : mode[0]});
  }
  return whole_dtype(x.dtype()) && whole_dtype(dtype) ? wrapped_cast(x, dtype) : cast(x, dtype);
}

OnnxValues cast_rule(const OnnxCall& call) {
  if (call.version() < 6) {  // a name then
    const std::string to = lower(call.word("to", ""));
    static const std::map<std::string, OnnxElement> names{
        {"float", OnnxElement::f32},   {"uint8", OnnxElement::u8},      {"int8", OnnxElement::i8},
        {"uint16", OnnxElement::u16},  {"int16", OnnxElement::i16},     {"int32", OnnxElement::i32},
        {"int64", OnnxElement::i64},   {"string", OnnxElement::string}, {"bool", OnnxElement::boolean},
        {"float16", OnnxElement::f16}, {"double", OnnxElement::f64},    {"uint32", OnnxElement::u32},
        {"uint64", OnnxElement::u64}};
    if (const auto found = names.find(to); found != names.end()) return {cast_to(call, found->second)};
    fail(Fault::data, "to is '", to, "', no element type");
  }
  return {cast_to(call, static_cast<OnnxElement>(call.integer("to", std::int64_t{0})))};
}

OnnxValues bit_cast(const OnnxCall& call) {
  const auto to = static_cast<OnnxElement>(call.integer("to", std::int64_t{0}));
  const Tensor& x = call.tensor(0);
  if (x.traced()) throw OnnxNeedsData("BitCast needs the numbers");
  const auto element_bits = [](OnnxElement element) {
    return is_narrow(element) ? narrow_bits(element) : bits(dtype_of(element));
  };
  const OnnxElement from = call.in(0).element();
  require(element_bits(from) == element_bits(to), "casts the bits of ", from, " to ", to, ", which have others");
  if (!is_narrow(from) && !is_narrow(to)) return {OnnxValue(same_bits(x, {dtype_of(to), x.shape()}), to)};
  // Bytes, or what is in them.
  const std::vector<double> values = x.values<double>();
  std::vector<double> cast_values;
  for (const double value : values) {
    const std::uint8_t bits = is_narrow(from) ? to_narrow(from, value, {.saturate = false})
                                              : static_cast<std::uint8_t>(static_cast<std::int64_t>(value) & 255);
    cast_values.push_back(is_narrow(to)           ? from_narrow(to, bits)
                          : to == OnnxElement::i8 ? static_cast<std::int8_t>(bits)
                                                  : static_cast<double>(bits));
  }
  return {OnnxValue(cast(Tensor::from({DType::f64, x.shape()}, cast_values.data()), dtype_of(to)), to)};
}

/// A scale or zero point as it meets x: of one number, of an axis, or of blocks along it.
Tensor spread(const OnnxCall& call, const Tensor& of, const Shape& x) {
  const std::int64_t block = call.integer("block_size", std::int64_t{0});
  if (of.numel() == 1 && block == 0) return reshape(of, Shape{});
  const int axis = normal_axis(call.integer("axis", std::int64_t{1}), x.rank(), call.op());
  if (of.rank() == 1 && block == 0) {
    require(of.size(0) == x[axis], "there are ", of.size(0), " scales for axis ", axis, " of ", x);
    Shape shape;
    for (int i = 0; i < x.rank(); ++i) shape.push_back(i == axis ? x[axis] : Dim(1));
    return reshape(of, shape);
  }
  require(of.rank() == x.rank() && block > 0, "the scale is ", of.shape(), " for ", x, " in blocks of ", block);
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < x[axis]; ++i) places.push_back(i / block);
  return gather(of, Tensor::from({std::ssize(places)}, places), axis);
}

/// The zero point, if it is one number that is known.
std::optional<std::int64_t> single_zero(const OnnxCall& call) {
  if (!call.has(2)) return 0;
  if (!call.known(2) || is_floating(call.tensor(2).dtype())) return std::nullopt;
  const std::vector<std::int64_t> all = call.integers(2);
  for (const std::int64_t each : all)
    if (each != all[0]) return std::nullopt;
  return all.empty() ? std::nullopt : std::optional(all[0]);
}

bool byte_element(OnnxElement element) { return element == OnnxElement::u8 || element == OnnxElement::i8; }

OnnxValues quantize_linear(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  OnnxElement to = call.has(2) ? call.in(2).element() : OnnxElement::u8;
  if (const std::int64_t wanted = call.integer("output_dtype", std::int64_t{0}); wanted != 0)
    to = static_cast<OnnxElement>(wanted);
  const Tensor scale = spread(call, call.tensor(1), x.shape());
  const std::optional<std::int64_t> zero = single_zero(call);
  if (byte_element(to) && zero && x.dtype() == DType::f32 && scale.dtype() == DType::f32 &&
      call.integer("block_size", std::int64_t{0}) == 0)
    return {quantize(x, scale, *zero, dtype_of(to))};
  const Tensor ratio = cast(x, DType::f32) / cast(scale, DType::f32);
  const Tensor shift = call.has(2) ? cast(spread(call, call.tensor(2), x.shape()), DType::f32) : Tensor();
  if (is_narrow(to) && !narrow_whole(to))
    return {to_narrow_type(call, shift ? ratio + shift : ratio, to, {call.integer("saturate", std::int64_t{1}) != 0})};
  const int count = is_narrow(to) ? narrow_bits(to) : bits(dtype_of(to));
  const bool sign = has_sign(dtype_of(to));
  const double low = sign ? -std::ldexp(1.0, count - 1) : 0, high = std::ldexp(1.0, count - (sign ? 1 : 0)) - 1;
  const Tensor rounded = math_function(ratio, "round");
  return {OnnxValue(cast(clamp(shift ? rounded + shift : rounded, low, high), dtype_of(to)), to)};
}

OnnxValues dequantize_linear(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  const Tensor scale = spread(call, call.tensor(1), x.shape());
  const std::int64_t wanted = call.integer("output_dtype", std::int64_t{0});
  const DType to = wanted ? dtype_of(static_cast<OnnxElement>(wanted)) : scale.dtype();
  const std::optional<std::int64_t> zero = single_zero(call);
  if (byte_element(call.in(0).element()) && zero && scale.dtype() == DType::f32 && to == DType::f32 &&
      call.integer("block_size", std::int64_t{0}) == 0)
    return {dequantize(x, scale, *zero)};
  const DType wide = whole_dtype(x.dtype()) && bits(x.dtype()) >= 32 ? DType::f64 : DType::f32;
  Tensor y = cast(x, wide);
  if (call.has(2)) y = y - cast(spread(call, call.tensor(2), x.shape()), wide);
  return {cast(y * cast(scale, wide), to)};
}

OnnxValues dynamic_quantize_linear(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  const Tensor zero = Tensor::scalar(0);
  const Tensor low = minimum(reduce_min(x), zero), high = maximum(reduce_max(x), zero);
  const Tensor scale = (high - low) / 255.0;
  const Tensor shift = math_function(clamp(-low / scale, 0, 255), "round");
  const Tensor y = clamp(math_function(x / scale, "round") + shift, 0, 255);
  return {cast(y, DType::u8), scale, cast(shift, DType::u8)};
}

}  // namespace

void add_cast_operators(OnnxOperators& to) {
  to.add("Cast", 1, cast_rule);
  to.add("CastLike", 15, [](const OnnxCall& call) { return OnnxValues{cast_to(call, call.in(1).element())}; });
  to.add("BitCast", 26, bit_cast);
  to.add("QuantizeLinear", 10, quantize_linear);
  to.add("DequantizeLinear", 10, dequantize_linear);
  to.add("DynamicQuantizeLinear", 11, dynamic_quantize_linear);
}

}  // namespace neurim
