#include "neurim/backend/cpu/norm/norm.h"

#include "neurim/backend/cpu/simd/simd.h"
#include "neurim/backend/cpu/simd/sum.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

/// The sum over [0, n) of f, a function of 16 values of each row. Every kSumBlock additions, the floats are added to a
/// double.
template <class F, class... Row>
double sum_over(std::int64_t n, F f, const Row*... rows) {
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kSumBlock) {
    const std::int64_t end = n - begin < kSumBlock ? n : begin + kSumBlock;
    Vec even{}, odd{};  // two accumulators, since an addition waits for the one before
    std::int64_t i = begin;
    for (; i + 2 * kLanes <= end; i += 2 * kLanes) even += f(load(rows + i)...), odd += f(load(rows + i + kLanes)...);
    if (i + kLanes <= end) even += f(load(rows + i)...), i += kLanes;
    if (const int rest = static_cast<int>(end - i); rest > 0)
      odd += first_lanes(f(load_partial(rows + i, rest)...), rest);
    total += static_cast<double>(sum(even + odd));
  }
  return total;
}

/// The mean of a row and 1 / sqrt(variance + eps), in two passes; the second finds the row in the cache.
struct Statistics {
  float mean = 0, inverse;
  /// `share` is 1 / row length, computed once: a division would delay every row.
  Statistics(const NormShape& shape, double share, const float* x) {
    const std::int64_t n = shape.size();
    if (shape.centered) mean = static_cast<float>(sum_over(n, [](const Vec& v) { return v; }, x) * share);
    const Vec m = splat(mean);
    const double squares = sum_over(n, [&](const Vec& v) { return (v - m) * (v - m); }, x);
    inverse = static_cast<float>(1 / __builtin_sqrt(squares * share + static_cast<double>(shape.eps)));
  }
};

/// Normalizes a row with one weight for each element.
void norm_elements(std::int64_t n, float mean, float inverse, const float* x, const float* weight, const float* bias,
                   float* y) {
  if (bias) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * weight[i] + bias[i];
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * weight[i];
  }
}

void norm_channel(std::int64_t n, float mean, float scale, float shift, const float* x, float* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale + shift;
}

/// The means of dy * weight (0 where the mean is not subtracted) and of that times the normalized x.
struct Means {
  float lift, slope;
};

void grad_elements(std::int64_t n, const Statistics& s, Means means, const float* dy, const float* x,
                   const float* weight, float* dx, float* dweight, float* dbias) {
  const float mean = s.mean, inverse = s.inverse;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const float normal = (x[i] - mean) * inverse;
    dx[i] = inverse * (dy[i] * weight[i] - means.lift - normal * means.slope);
    dweight[i] += dy[i] * normal;
    dbias[i] += dy[i];
  }
}

void grad_channel(std::int64_t n, const Statistics& s, Means means, const float* dy, const float* x, float weight,
                  float* dx) {
  const float mean = s.mean, inverse = s.inverse;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    dx[i] = inverse * (dy[i] * weight - means.lift - (x[i] - mean) * inverse * means.slope);
}

/// Pixels normalized together, since each waits for its own mean and std.
constexpr int kPixels = 4;

template <int count>
void norm_some(const NormPixels& shape, const float* x, const float* weight, const float* bias, float* y) {
  const std::int64_t whole = shape.channels / kLanes;
  const int rest = static_cast<int>(shape.channels % kLanes);
  const double share = 1 / static_cast<double>(shape.channels);
  const auto value = [&](std::int64_t block, int p) { return load(x + block * shape.x_block + p * kLanes); };
  // Calls each(p) for all pixels.
  const auto all = [](auto each) {
#pragma GCC unroll 8
    for (int p = 0; p < count; ++p) each(p);
  };
  Vec mean[count]{}, squares[count]{}, inverse[count];
  if (shape.centered) {
    for (std::int64_t b = 0; b < whole + (rest > 0); ++b) all([&](int p) { mean[p] += value(b, p); });
    all([&](int p) { mean[p] = splat(static_cast<float>(static_cast<double>(sum(mean[p])) * share)); });
  }
  for (std::int64_t b = 0; b < whole; ++b)
    all([&](int p) {
      const Vec apart = value(b, p) - mean[p];
      squares[p] += apart * apart;
    });
  if (rest)
    all([&](int p) {
      const Vec apart = first_lanes(value(whole, p) - mean[p], rest);
      squares[p] += apart * apart;
    });
  all([&](int p) {
    const double variance = static_cast<double>(sum(squares[p])) * share;
    inverse[p] = splat(static_cast<float>(1 / __builtin_sqrt(variance + static_cast<double>(shape.eps))));
  });
  for (std::int64_t b = 0; b < whole; ++b) {
    const Vec scale = load(weight + b * kLanes), shift = bias ? load(bias + b * kLanes) : Vec{};
    all([&](int p) {
      store(y + b * shape.y_block + p * kLanes, (value(b, p) - mean[p]) * inverse[p] * scale + shift);
    });
  }
  if (!rest) return;
  const std::int64_t at = whole * kLanes;
  const Vec scale = load_partial(weight + at, rest), shift = bias ? load_partial(bias + at, rest) : Vec{};
  all([&](int p) {
    store(y + whole * shape.y_block + p * kLanes,
          first_lanes((value(whole, p) - mean[p]) * inverse[p], rest) * scale + shift);
  });
}

}  // namespace

void run_norm(const NormShape& shape, const float* x, const float* weight, const float* bias, float* y,
              std::int64_t first, std::int64_t last) {
  const std::int64_t inner = shape.inner;
  const double share = 1 / static_cast<double>(shape.size());
  for (std::int64_t row = first; row < last; ++row) {
    const float* from = x + row * shape.size();
    float* to = y + row * shape.size();
    const std::int64_t base = row % shape.groups * shape.channels;
    const Statistics s(shape, share, from);
    if (inner == 1)
      norm_elements(shape.channels, s.mean, s.inverse, from, weight + base, bias ? bias + base : nullptr, to);
    else
      for (std::int64_t c = 0; c < shape.channels; ++c)
        norm_channel(inner, s.mean, s.inverse * weight[base + c], bias ? bias[base + c] : 0, from + c * inner,
                     to + c * inner);
  }
}

void run_norm_grad(const NormShape& shape, const float* dy, const float* x, const float* weight, float* dx,
                   float* dweight, float* dbias, std::int64_t first, std::int64_t last) {
  const std::int64_t inner = shape.inner, size = shape.size();
  const double share = 1 / static_cast<double>(size);
  for (std::int64_t row = first; row < last; ++row) {
    const float *d = dy + row * size, *from = x + row * size;
    float* to = dx + row * size;
    const std::int64_t base = row % shape.groups * shape.channels;
    const float* scale = weight + base;
    const Statistics s(shape, share, from);
    const float mean = s.mean, inverse = s.inverse;
    double lift = 0, slope = 0;
    if (inner == 1) {
      if (shape.centered)
        lift = sum_over(size, [](const Vec& dv, const Vec& weights) { return dv * weights; }, d, scale);
      slope = sum_over(
          size,
          [&](const Vec& dv, const Vec& weights, const Vec& xv) { return dv * weights * ((xv - mean) * inverse); }, d,
          scale, from);
    } else {
      for (std::int64_t c = 0; c < shape.channels; ++c) {
        const float *dc = d + c * inner, *xc = from + c * inner;
        const double total = sum_over(inner, [](const Vec& dv) { return dv; }, dc);
        const double along = sum_over(
            inner, [&](const Vec& dv, const Vec& xv) { return dv * ((xv - mean) * inverse); }, dc, xc);
        dbias[base + c] += static_cast<float>(total);
        dweight[base + c] += static_cast<float>(along);
        if (shape.centered) lift += total * static_cast<double>(scale[c]);
        slope += along * static_cast<double>(scale[c]);
      }
    }
    const Means means{static_cast<float>(lift * share), static_cast<float>(slope * share)};
    if (inner == 1)
      grad_elements(size, s, means, d, from, scale, to, dweight + base, dbias + base);
    else
      for (std::int64_t c = 0; c < shape.channels; ++c)
        grad_channel(inner, s, means, d + c * inner, from + c * inner, scale[c], to + c * inner);
  }
}

void norm_pixels(const NormPixels& shape, const float* x, const float* weight, const float* bias, float* y) {
  std::int64_t p = 0;
  for (; p + kPixels <= shape.pixels; p += kPixels)
    norm_some<kPixels>(shape, x + p * kLanes, weight, bias, y + p * kLanes);
  for (; p < shape.pixels; ++p) norm_some<1>(shape, x + p * kLanes, weight, bias, y + p * kLanes);
}

}  // namespace neurim::cpu::NEURIM_ISA
