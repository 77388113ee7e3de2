// What the samples of an op give to whatever checks it: inputs, which are a pure function of (sample, dtype,
// seed), and comparing.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "neurim/backend/reference/view.h"
#include "neurim/base/text.h"
#include "neurim/core/random.h"
#include "neurim/graph/op.h"

namespace neurim::op_table {

/// The input types of a sample with every floating one turned into `dtype`.
inline Types in_dtype(Types types, DType dtype) {
  for (Type& type : types)
    if (is_floating(type.dtype)) type.dtype = dtype;
  return types;
}

inline bool any_floating(const Types& types) {
  return std::any_of(types.begin(), types.end(), [](const Type& type) { return is_floating(type.dtype); });
}

/// The dtypes to try a sample in: each floating one, or its own when it has no floating input.
inline std::vector<DType> dtypes(const Sample& sample) {
  if (!any_floating(sample.in)) return {sample.in.empty() ? DType::f32 : sample.in[0].dtype};
  return {DType::f64, DType::f32, DType::f16, DType::bf16};
}

/// One line that names a failing case: op, attributes, input types and seed.
inline std::string reproducer(const Op& op, const Types& in, std::uint64_t seed) {
  std::vector<std::string> types;
  for (const Type& type : in) types.push_back(text(type));
  return text(op.name(), ' ', attributes(op), " (", join(types, ", "), ") seed ", seed);
}

/// The distance from 1 to the next number: the relative rounding of a stored result. 0 for integers.
inline double epsilon(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-52;
    case DType::f32: return 0x1p-23;
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    default: return 0;
  }
}

inline Tensor from_doubles(const Type& type, const std::vector<double>& values) {
  std::vector<std::byte> host(bytes(type));
  const reference::View view{type, host.data()};
  for (std::size_t i = 0; i < values.size(); ++i) view.set(static_cast<std::int64_t>(i), values[i]);
  return Tensor::from(type, host.data());
}

/// Numbers for one input. A distinct fill is a shuffled arithmetic sequence; `offset` in (0, 1) places it
/// within its spacing, so that no two inputs tie and no element falls on 0.
inline std::vector<double> numbers(const Type& type, const Fill& fill, Random& random, double offset = 0.37) {
  const auto count = static_cast<std::size_t>(type.shape.numel());
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = fill.distinct
                    ? fill.low + (fill.high - fill.low) * (static_cast<double>(i) + offset) / static_cast<double>(count)
                    : random.uniform(fill.low, fill.high);
  if (fill.distinct) shuffle(values, random);
  if (!is_floating(type.dtype))
    for (double& value : values) value = std::floor(value);
  return values;
}

/// Inputs for a sample whose types may have been changed by in_dtype. With `distinct` every floating input is
/// filled so.
inline Tensors inputs(const Sample& sample, const Types& types, std::uint64_t seed, bool distinct = false) {
  Tensors tensors;
  for (std::size_t i = 0; i < types.size(); ++i) {
    Fill fill = i < sample.fill.size() ? sample.fill[i] : Fill{};
    if (distinct && is_floating(types[i].dtype)) fill.distinct = true;
    Random random(seed, i);
    tensors.push_back(from_doubles(types[i], numbers(types[i], fill, random, 0.37 + 0.005 * static_cast<double>(i))));
  }
  return tensors;
}

/// The same numbers in other types.
inline Tensors converted(const Tensors& tensors, const Types& types) {
  Tensors result;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    result.push_back(from_doubles(types[i], tensors[i].values<double>()));
  return result;
}

/// Whether both hold the same bits.
inline bool identical(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type()) return false;
  std::vector<std::byte> x(bytes(a.type())), y(x.size());
  a.read(x.data());
  b.read(y.data());
  return x.empty() || std::memcmp(x.data(), y.data(), x.size()) == 0;
}

/// "" if each output equals the expected one within `tolerance` times the largest expected magnitude; otherwise where
/// it differs. Equal infinities agree, and NaN with NaN.
inline std::string difference(const Tensors& expected, const Tensors& actual, double tolerance) {
  if (expected.size() != actual.size()) return text(actual.size(), " outputs instead of ", expected.size());
  for (std::size_t output = 0; output < expected.size(); ++output) {
    if (expected[output].shape() != actual[output].shape())
      return text("output ", output, " is ", actual[output].type(), " instead of ", expected[output].type());
    if (identical(expected[output], actual[output])) continue;
    const std::vector<double> want = expected[output].values<double>(), got = actual[output].values<double>();
    double largest = 0;
    for (double value : want)
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < want.size(); ++i) {
      const bool same = want[i] == got[i] || (std::isnan(want[i]) && std::isnan(got[i]));
      if (!same && !(std::abs(want[i] - got[i]) <= tolerance * largest))
        return text("output ", output, " element ", i, " is ", got[i], " instead of ", want[i], " (tolerance ",
                    tolerance * largest, ")");
    }
  }
  return {};
}

}  // namespace neurim::op_table
