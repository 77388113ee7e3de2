#include "neurim/backend/cpu/pointwise/pointwise.h"

#include <bit>
#include <cstring>

#include "neurim/backend/cpu/simd/math.h"
#include "neurim/backend/cpu/simd/storage.h"
#include "neurim/ops/common/formulas.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

// ---- the functions
// ----------------------------------------------------------------------------------------------

/// An element function as a step: of one to three values, and of the attributes when it takes them.
template <class F>
constexpr StepFunction step(F) {
  return [](float* out, const float* x, const float* y, const float* z, int n, Numbers numbers) {
    constexpr F f{};
#pragma GCC ivdep
    for (int i = 0; i < n; ++i) {
      if constexpr (requires { f(0.f); })
        out[i] = f(x[i]);
      else if constexpr (requires { f(0.f, numbers); })
        out[i] = f(x[i], numbers);
      else if constexpr (requires { f(0.f, 0.f); })
        out[i] = f(x[i], y[i]);
      else if constexpr (requires { f(0.f, 0.f, numbers); })
        out[i] = f(x[i], y[i], numbers);
      else if constexpr (requires { f(0.f, 0.f, 0.f, numbers); })
        out[i] = f(x[i], y[i], z[i], numbers);
      else
        out[i] = f(x[i], y[i], z[i]);
    }
  };
}

/// The elementary functions of the formulas.
struct Floats {
  using T = float;
  static T abs(T x) { return __builtin_fabsf(x); }
  static T exp(T x) { return exp_of(x); }
  static T expm1(T x) { return expm1_of(x); }
  static T log(T x) { return log_of(x); }
  static T log1p(T x) { return log1p_of(x); }
  static T sqrt(T x) { return __builtin_sqrtf(x); }
  static T pow(T x, T y) { return __builtin_powf(x, y); }
  static T floor(T x) { return __builtin_floorf(x); }
  /// Ties to even, of x below 2^22: floats of the sum have no digits after the point.
  static T nearest(T x) { return (x + kRound) - kRound; }
  static T erf(T x) { return erf_of(x); }
  static T tanh(T x) { return tanh_of(x); }
  static T sigmoid_inverse(T x) { return neurim::cpu::NEURIM_ISA::sigmoid_inverse(x); }
  static T sigmoid(T x) { return sigmoid_of(x); }
  static T clamp(T x, T low, T high) { return x < low ? low : x > high ? high : x; }
  static T gelu(T x) { return gelu_of(x); }
  static T gelu_slope(T x) { return neurim::cpu::NEURIM_ISA::gelu_slope(x); }
};

constexpr int kMostRows = 96;

struct Rows {
  StepRow row[kMostRows] = {};
  int count = 0;
};

constexpr Rows kRows = [] {
  Rows rows;
  const auto add = [&](const char* name, auto function) { rows.row[rows.count++] = {name, step(function)}; };
  each_formula<Floats>(add);
  // several steps in one
  add("mul add", [](float x, float y, float z) { return x * y + z; });
  add("mul add limited",
      [](float x, float y, float z, Numbers limit) { return Floats::clamp(x * y + z, limit.a, limit.b); });
  return rows;
}();

// ---- operands
// -----------------------------------------------------------------------------------------------------

enum class Truth : std::uint8_t {};  // any but 0 is true

enum class Rounded : std::uint16_t {};     // bf16: a float's upper half
enum class RoundedF16 : std::uint16_t {};  // f16

float number(Rounded x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16); }
float number(RoundedF16 x) { return float_of_f16(static_cast<std::uint16_t>(x)); }
float number(Truth x) { return x != Truth{} ? 1.f : 0.f; }
template <class T>
float number(T x) {
  return x;
}

/// Calls a function with the memory of a value as what stands there.
template <class Function>
void with_stored(PointwiseValue::Stored stored, void* at, Function function) {
  switch (stored) {
    case PointwiseValue::f32: return function(static_cast<float*>(at));
    case PointwiseValue::bf16: return function(static_cast<Rounded*>(at));
    case PointwiseValue::f16: return function(static_cast<RoundedF16*>(at));
    case PointwiseValue::truth: return function(static_cast<Truth*>(at));
    case PointwiseValue::u8: return function(static_cast<std::uint8_t*>(at));
    case PointwiseValue::i8: return function(static_cast<std::int8_t*>(at));
  }
}

template <class T>
void convert(float* out, const T* from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = number(from[i]);
}

void fill(float* out, float value, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = value;
}

/// n elements of a row of memory whose elements lie `stride` apart in the operand.
template <class T>
void spread_row(float* out, const T* from, std::int64_t stride, std::int64_t n) {
  if (stride == 0) return fill(out, number(*from), n);
  if (stride == 1) return convert(out, from, n);
  for (std::int64_t i = 0; i < n; ++i) out[i] = number(from[i * stride]);
}

/// Repeats the first `row` floats of `out` until n are written, n a multiple of `row`.
void repeat(float* out, std::int64_t row, std::int64_t n) {
  if (row == 16)
    for (std::int64_t i = 16; i < n; i += 16) std::memcpy(out + i, out, 64);
  else
    for (std::int64_t i = row; i < n; i += row) std::memcpy(out + i, out, row * sizeof(float));
}

/// Writes what a smaller operand is at elements [first, first + n) of memory.
template <class T>
void spread(const PointwiseGroup& group, const PointwiseValue& value, const T* from, std::int64_t first, std::int64_t n,
            float* out) {
  const int inner = value.axes - 1;
  const std::int64_t row = value.size[inner], stride = value.stride[inner];
  std::int64_t at[kMostAxes], base = 0, rest = first;
  for (int axis = inner; axis >= 0; --axis) {
    at[axis] = rest % value.size[axis];
    rest /= value.size[axis];
    base += at[axis] * value.stride[axis];
  }
  while (n > 0) {
    std::int64_t m = row - at[inner] < n ? row - at[inner] : n;
    const std::int64_t inside = group.last_channels && at[1] == group.blocks - 1 && group.last_channels < m
                                    ? group.last_channels
                                    : m;
    spread_row(out, from + base, stride, inside);
    fill(out + inside, 0, m - inside);
    base -= at[inner] * stride;  // to the beginning of the row
    int axis = inner - 1;
    if (m == row && axis >= 0 && value.stride[axis] == 0) {
      const std::int64_t left = value.size[axis] - at[axis], rows = left < n / row ? left : n / row;
      repeat(out, row, rows * row);
      at[axis] += rows - 1;
      m = rows * row;
    }
    out += m;
    n -= m;
    at[inner] = 0;
    for (; axis >= 0; --axis) {
      base += value.stride[axis];
      if (++at[axis] < value.size[axis]) break;
      base -= value.size[axis] * value.stride[axis];
      at[axis] = 0;
    }
  }
}

/// Makes the lanes beyond the channels zero in elements [first, first + n) of memory, whole vectors of 16.
void clear_tail(const PointwiseGroup& group, float* out, std::int64_t first, std::int64_t n) {
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t block = (first + i) / group.block_elements;
    std::int64_t end = (block + 1) * group.block_elements - first;
    if (end > n) end = n;
    if (block % group.blocks == group.blocks - 1)
      for (; i < end; i += 16)
        for (int lane = 0; lane < 16; ++lane) out[i + lane] = lane < group.last_channels ? out[i + lane] : 0;
    i = end;
  }
}

void store_rounded(StorageDtype storage, void* out, const float* from, int n) {
  const Stored rounded{storage};
  for (int i = 0; i < n; i += kLanes) rounded.put(static_cast<float*>(out), i, load(from + i));
}
void store(Rounded* out, const float* from, int n) { store_rounded(StorageDtype::bf16, out, from, n); }
void store(RoundedF16* out, const float* from, int n) { store_rounded(StorageDtype::f16, out, from, n); }
void store(Truth* out, const float* from, int n) {
  for (int i = 0; i < n; ++i) out[i] = static_cast<Truth>(from[i] != 0);
}
template <class T>
void store(T* out, const float* from, int n) {
  for (int i = 0; i < n; ++i) out[i] = static_cast<T>(static_cast<std::int32_t>(from[i]));
}

}  // namespace

StepTable step_table() { return {kRows.row, kRows.count}; }

void run_pointwise(const PointwiseGroup& group, void* const* in, void* const* out, std::int64_t first,
                   std::int64_t last) {
  alignas(64) float buffers[kMostValues][kPointwiseBlock];
  float* at[kMostValues];
  std::int64_t run[kMostValues];  // of a value that repeats: the run that its buffer holds
  for (int v = 0; v < group.values; ++v) {
    const PointwiseValue& value = group.value[v];
    run[v] = -1;
    if (value.buffer >= 0) at[v] = buffers[value.buffer];
    if (value.form != PointwiseValue::one) continue;
    with_stored(value.stored, in[value.in], [&](const auto* from) { fill(at[v], number(*from), kPointwiseBlock); });
  }
  // Whether the buffer of a spread value has what it is at these elements; where it repeats there, it is made so.
  const auto held = [&](int v, std::int64_t begin, int n) {
    const PointwiseValue& value = group.value[v];
    const bool repeats = value.run > 0 && begin / value.run == (begin + n - 1) / value.run;
    const std::int64_t before = run[v];
    run[v] = repeats ? begin / value.run : -1;
    if (!repeats || run[v] == before) return repeats;
    with_stored(value.stored, in[value.in], [&](const auto* from) { spread(group, value, from, begin, 16, at[v]); });
    repeat(at[v], 16, kPointwiseBlock);
    return true;
  };
  for (std::int64_t begin = first; begin < last; begin += kPointwiseBlock) {
    const int n = static_cast<int>(last - begin < kPointwiseBlock ? last - begin : kPointwiseBlock);
    for (int v = 0; v < group.values; ++v) {
      const PointwiseValue& value = group.value[v];
      if (value.buffer < 0 && value.form == PointwiseValue::inner)
        continue;  // two steps are one
      else if (value.buffer < 0)
        at[v] = static_cast<float*>(value.in >= 0 ? in[value.in] : out[value.out]) + begin;
      else if (value.in < 0 || value.form == PointwiseValue::one)
        continue;
      else if (value.form == PointwiseValue::whole)
        with_stored(value.stored, in[value.in], [&](const auto* from) { convert(at[v], from + begin, n); });
      else if (!held(v, begin, n))
        with_stored(value.stored, in[value.in], [&](const auto* from) { spread(group, value, from, begin, n, at[v]); });
    }
    for (int s = 0; s < group.steps; ++s) {
      const PointwiseStep& step = group.step[s];
      step.run(at[step.out], at[step.in[0]], at[step.in[1]], at[step.in[2]], n, step.numbers);
    }
    for (int v = 0; v < group.values; ++v) {
      const PointwiseValue& value = group.value[v];
      if (value.out < 0) continue;
      if (group.last_channels) clear_tail(group, at[v], begin, n);
      if (value.buffer >= 0) with_stored(value.stored, out[value.out], [&](auto* to) { store(to + begin, at[v], n); });
    }
  }
}

}  // namespace neurim::cpu::NEURIM_ISA
