#include "neurim/backend/cpu/reduce/softmax.h"

#include "neurim/backend/cpu/simd/math.h"
#include "neurim/backend/cpu/simd/simd.h"
#include "neurim/backend/cpu/simd/sum.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

constexpr std::int64_t kShort = 256;
constexpr auto greater = [](float a, float b) { return a > b ? a : b; };

float greatest(const float* x, std::int64_t n) {
  float lane[kSumLanes];
  for (float& l : lane) l = -kInfinity;
  std::int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes)
    for (int l = 0; l < kSumLanes; ++l) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
  for (int l = 0; i + l < n; ++l) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
  return joined(lane, greater);
}

/// A row of 16 to a few hundred elements. The last 16 are a vector too, which may overlap
/// the one before.
void softmax_of_short_row(const float* x, float* y, std::int64_t size) {
  const std::int64_t last = size - kLanes, whole = size / kLanes * kLanes;
  const Vec end = load(x + last);  // before the loop, since y may be x
  Vec all = end;
  for (std::int64_t i = 0; i < whole; i += kLanes) all = max(all, load(x + i));
  alignas(64) float lanes[kLanes];
  store(lanes, all);
  const float most = joined<kLanes>(lanes, greater);
  const auto power_of = [&, most](const Vec& from) {
    store(lanes, from);
    for (int l = 0; l < kLanes; ++l) lanes[l] = exp_below(lanes[l] - most);
    return load(lanes);
  };
  const Vec rest = power_of(end);
  Vec sums = select(first_mask(static_cast<int>(whole - last)), Vec{}, rest);
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    const Vec power = power_of(load(x + i));
    sums += power;
    store(y + i, power);
  }
  const float scale = 1 / sum(sums);
  for (std::int64_t i = 0; i < whole; i += kLanes) store(y + i, load(y + i) * scale);
  store(y + last, rest * scale);
}

/// log(sum(e^x)) as the sum of two terms.
struct LogSum {
  float most, rest;
  LogSum(const float* x, std::int64_t n) : most(greatest(x, n)) {
    const float m = most;
    rest = log_of(static_cast<float>(sum_of(n, [=](std::int64_t i) { return exp_below(x[i] - m); })));
  }
};

}  // namespace

void run_softmax(const float* x, float* y, std::int64_t size, std::int64_t first, std::int64_t last) {
  for (std::int64_t row = first; row < last; ++row) {
    const float* from = x + row * size;
    float* to = y + row * size;
    if (size >= kLanes && size <= kShort) {
      softmax_of_short_row(from, to, size);
      continue;
    }
    const float most = greatest(from, size);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < size; ++i) to[i] = exp_below(from[i] - most);
    const float scale = static_cast<float>(1 / sum_of(size, [=](std::int64_t i) { return to[i]; }));
    for (std::int64_t i = 0; i < size; ++i) to[i] *= scale;
  }
}

void run_log_softmax(const float* x, float* y, std::int64_t size, std::int64_t first, std::int64_t last) {
  for (std::int64_t row = first; row < last; ++row) {
    const float* from = x + row * size;
    float* to = y + row * size;
    const LogSum sum(from, size);
    const float most = sum.most, rest = sum.rest;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < size; ++i) to[i] = (from[i] - most) - rest;
  }
}

void run_softmax_grad(const float* y, const float* dy, float* dx, std::int64_t size, std::int64_t first,
                      std::int64_t last) {
  for (std::int64_t row = first; row < last; ++row) {
    const float *value = y + row * size, *d = dy + row * size;
    float* to = dx + row * size;
    const float dot = static_cast<float>(sum_of(size, [=](std::int64_t i) { return value[i] * d[i]; }));
#pragma GCC ivdep
    for (std::int64_t i = 0; i < size; ++i) to[i] = value[i] * (d[i] - dot);
  }
}

void run_log_softmax_grad(const float* y, const float* dy, float* dx, std::int64_t size, std::int64_t first,
                          std::int64_t last) {
  for (std::int64_t row = first; row < last; ++row) {
    const float *value = y + row * size, *d = dy + row * size;
    float* to = dx + row * size;
    const float total = static_cast<float>(sum_of(size, [=](std::int64_t i) { return d[i]; }));
#pragma GCC ivdep
    for (std::int64_t i = 0; i < size; ++i) to[i] = d[i] - exp_of(value[i]) * total;
  }
}

float cross_entropy_row(const CrossEntropyRows& rows, std::int64_t place) {
  const float *x = rows.logits + place * rows.classes, *weights = rows.weights;
  const std::int64_t label = rows.labels[place];
  const LogSum sum(x, rows.classes);
  const float most = sum.most, rest = sum.rest;
  const float sure = rows.sure * (weights ? weights[label] : 1);
  float loss = sure != 0 ? sure * (rest - (x[label] - most)) : 0;
  if (rows.spread != 0) {  // a class of probability 0 may have a logit of -infinity
    const double all = weights ? sum_of(rows.classes,
                                        [=](std::int64_t c) {
                                          return weights[c] != 0 ? weights[c] * (rest - (x[c] - most)) : 0;
                                        })
                               : sum_of(rows.classes, [=](std::int64_t c) { return rest - (x[c] - most); });
    loss += rows.spread * static_cast<float>(all);
  }
  return loss;
}

void cross_entropy_grad_row(const CrossEntropyRows& rows, std::int64_t place, float scale, float* dx) {
  const float *x = rows.logits + place * rows.classes, *weights = rows.weights;
  const std::int64_t label = rows.labels[place];
  const LogSum sum(x, rows.classes);
  const float most = sum.most, rest = sum.rest, spread = rows.spread;
  const float sure = rows.sure * (weights ? weights[label] : 1);
  float shares = sure;
  if (spread != 0)
    shares += spread * static_cast<float>(weights ? sum_of(rows.classes, [=](std::int64_t c) { return weights[c]; })
                                                  : static_cast<double>(rows.classes));
#pragma GCC ivdep
  for (std::int64_t c = 0; c < rows.classes; ++c)
    dx[c] = scale * (shares * exp_of((x[c] - most) - rest) - spread * (weights ? weights[c] : 1));
  dx[label] -= scale * sure;
}

}  // namespace neurim::cpu::NEURIM_ISA
