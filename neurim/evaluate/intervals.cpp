#include "neurim/evaluate/intervals.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neurim/core/random.h"

namespace neurim {

namespace {

constexpr double kNormal = 1.959963984540054;  // the normal quantile of 0.975
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// How often something that is expected `mean` times occurs.
std::int64_t poisson(Random& random, double mean) {
  constexpr double kMany = 64;  // the normal distribution is near enough
  if (mean > kMany) return std::max<std::int64_t>(0, std::llround(mean + std::sqrt(mean) * random.normal()));
  std::int64_t events = 0;
  for (double left = std::exp(mean) * random.uniform(); left >= 1; left *= random.uniform()) ++events;
  return events;
}

}  // namespace

Interval wilson(std::int64_t part, std::int64_t whole) {
  return wilson(static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, whole)),
                static_cast<double>(whole));
}

Interval wilson(double p, double n) {
  if (n == 0) return {0, 1};
  constexpr double z = kNormal;
  const double centre = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  return {p == 0 ? 0 : std::max(0.0, centre - half), p == 1 ? 1 : std::min(1.0, centre + half)};
}

std::vector<Interval> bootstrap(const std::vector<std::int64_t>& counts,
                                const std::function<std::vector<double>(const std::vector<std::int64_t>&)>& metrics,
                                int rounds) {
  Random random(0);
  const std::vector<double> whole = metrics(counts);
  std::vector<std::vector<double>> drawn_values(whole.size());
  std::vector<std::int64_t> drawn(counts.size());
  for (int round = 0; round < rounds; ++round) {
    // Each sample occurs a Poisson number of times, which for many samples is drawing with replacement.
    std::transform(counts.begin(), counts.end(), drawn.begin(),
                   [&](std::int64_t count) { return poisson(random, static_cast<double>(count)); });
    const std::vector<double> values = metrics(drawn);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!std::isnan(values[i])) drawn_values[i].push_back(values[i]);
  }
  std::vector<Interval> out;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::vector<double>& values = drawn_values[i];
    std::sort(values.begin(), values.end());
    const auto at = [&](double share) {
      return std::isnan(whole[i]) || values.empty()
                 ? kNaN
                 : values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
    };
    out.push_back({at(0.025), at(0.975)});
  }
  return out;
}

void SampleMean::add(double value) {
  sum_.add(value);
  squares_.add_product(value, value);
  ++samples_;
}

void SampleMean::merge(const SampleMean& other) {
  sum_.merge(other.sum_);
  squares_.merge(other.squares_);
  samples_ += other.samples_;
}

double SampleMean::mean() const { return samples_ == 0 ? kNaN : sum_.value() / static_cast<double>(samples_); }

double SampleMean::variance() const {
  if (samples_ < 2) return kNaN;
  // sum (x - mean)^2, where the mean's rounding is corrected by what is left of the sum.
  const double n = static_cast<double>(samples_), m = mean();
  ExactSum squares = squares_;
  squares.add_product(-2 * m, sum_.value());
  squares.add_product(-2 * m, sum_.rest());
  squares.add_product(m * m, n);
  squares.add_product(std::fma(m, m, -(m * m)), n);
  return std::max(0.0, squares.value()) / (n - 1);
}

Interval SampleMean::interval() const {
  const double half = kNormal * std::sqrt(variance() / static_cast<double>(samples_));
  return {mean() - half, mean() + half};
}

double mcnemar(std::int64_t only_first, std::int64_t only_second) {
  const std::int64_t n = only_first + only_second, least = std::min(only_first, only_second);
  if (n == 0) return 1;
  const double all = static_cast<double>(n);
  double sum = 0;  // P(X <= least) of B(n, 1/2)
  for (std::int64_t k = 0; k <= least; ++k) {
    const double i = static_cast<double>(k);
    sum += std::exp(std::lgamma(all + 1) - std::lgamma(i + 1) - std::lgamma(all - i + 1) - all * std::log(2.0));
  }
  return std::min(1.0, 2 * sum);
}

}  // namespace neurim
