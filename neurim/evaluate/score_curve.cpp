#include "neurim/evaluate/score_curve.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace neurim {

namespace {

constexpr double kNoArea = std::numeric_limits<double>::quiet_NaN();

double positives(std::span<const CurvePoint> curve) { return static_cast<double>(curve.back().true_positives); }
double negatives(std::span<const CurvePoint> curve) { return static_cast<double>(curve.back().false_positives); }

/// A number that grows as the score falls; the same for both zeros.
std::uint32_t falling_key(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);
  return bits >> 31 ? bits : ~bits & 0x7fffffff;
}

/// The mean over classes of a metric, and how each sample moves it.
class MeanOverClasses {
 public:
  explicit MeanOverClasses(std::int64_t samples) : influence_(samples) {}

  /// Adds the metric of a class. `places` are the points of its scores; `change` is called where it is a number.
  template <class Change>
  void add(double value, std::span<const Score> scores, std::span<const std::uint32_t> places,
           std::span<const CurvePoint> curve, const Change& change) {
    if (std::isnan(value)) return;
    sum_ += value, ++count_;
    least_ += std::min(curve.back().true_positives, std::max<std::int64_t>(1, curve.back().false_positives));
    const Influence influence = change(curve);
    for (std::size_t i = 0; i < scores.size(); ++i)
      influence_[i] += (scores[i].positive ? influence.positive : influence.negative)[places[i]];
  }

  Estimate mean() const {
    ExactSum squares;
    for (const double one : influence_) squares.add_product(one, one);
    return estimate(sum_ / count_, squares.value() / (count_ * count_),
                    std::min(least_, static_cast<std::int64_t>(influence_.size())));
  }

 private:
  std::vector<double> influence_;  // of each sample, on the sum
  double sum_ = 0, count_ = 0;
  std::int64_t least_ = 0;
};

}  // namespace

std::vector<CurvePoint> score_curve(std::span<const Score> scores, std::vector<std::uint32_t>* places) {
  std::vector<std::uint64_t> order;  // scores in the upper half, samples in the lower
  order.reserve(scores.size());
  for (const Score& one : scores) order.push_back(std::uint64_t{falling_key(one.score)} << 32 | order.size());
  std::sort(order.begin(), order.end());
  if (places) places->resize(scores.size());
  std::vector<CurvePoint> points{{std::numeric_limits<double>::infinity(), 0, 0}};
  for (const std::uint64_t key : order) {
    const Score& one = scores[key & 0xffffffff];
    if (points.size() == 1 || one.score != points.back().score)
      points.push_back({one.score, points.back().true_positives, points.back().false_positives});
    ++(one.positive ? points.back().true_positives : points.back().false_positives);
    if (places) (*places)[key & 0xffffffff] = static_cast<std::uint32_t>(points.size() - 1);
  }
  return points;
}

double roc_auc(std::span<const CurvePoint> curve) {
  const double p = positives(curve), n = negatives(curve);
  if (p == 0 || n == 0) return kNoArea;
  double twice = 0;  // of the area, in whole numbers
  for (std::size_t i = 1; i < curve.size(); ++i)
    twice += static_cast<double>((curve[i].false_positives - curve[i - 1].false_positives) *
                                 (curve[i].true_positives + curve[i - 1].true_positives));
  return twice / (2 * p * n);
}

double average_precision(std::span<const CurvePoint> curve) {
  const double p = positives(curve);
  if (p == 0) return kNoArea;
  double sum = 0;
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const auto [score, right, wrong] = curve[i];
    sum += static_cast<double>(right - curve[i - 1].true_positives) * static_cast<double>(right) /
           static_cast<double>(right + wrong);
  }
  return sum / p;
}

Influence roc_auc_influence(std::span<const CurvePoint> curve) {
  const double p = positives(curve), n = negatives(curve), area = roc_auc(curve);
  Influence out{std::vector<double>(curve.size()), std::vector<double>(curve.size())};
  for (std::size_t i = 1; i < curve.size(); ++i) {
    // The share of the others that are on the right side, those of an equal score by half.
    const double wrong_above = static_cast<double>(curve[i].false_positives + curve[i - 1].false_positives) / 2;
    const double right_above = static_cast<double>(curve[i].true_positives + curve[i - 1].true_positives) / 2;
    out.positive[i] = (1 - wrong_above / n - area) / p;
    out.negative[i] = (right_above / p - area) / n;
  }
  return out;
}

Influence average_precision_influence(std::span<const CurvePoint> curve) {
  const double p = positives(curve), whole = average_precision(curve);
  Influence out{std::vector<double>(curve.size()), std::vector<double>(curve.size())};
  // One more sample at a point changes the precision of all points below.
  double more_right = 0, more_wrong = 0;
  for (std::size_t i = curve.size(); i-- > 1;) {
    const auto right = static_cast<double>(curve[i].true_positives);
    const auto wrong = static_cast<double>(curve[i].false_positives), said = right + wrong;
    const double growth = right - static_cast<double>(curve[i - 1].true_positives);
    more_right += growth * wrong / (said * said);
    more_wrong -= growth * right / (said * said);
    out.positive[i] = (right / said + more_right - whole) / p;
    out.negative[i] = more_wrong / p;
  }
  return out;
}

Estimate estimate(double value, double variance, std::int64_t least) {
  if (std::isnan(value)) return {value, {value, value}};
  return {value, wilson(value, variance > 0 ? value * (1 - value) / variance : static_cast<double>(least))};
}

ClassAreas class_areas(std::int64_t samples, int classes, int first,
                       const std::function<std::vector<Score>(int)>& scores) {
  ClassAreas out{.first = first};
  MeanOverClasses area(samples), precision(samples);
  std::vector<std::uint32_t> places;
  for (int c = 0; c < classes; ++c) {
    const std::vector<Score> of_class = scores(c);
    const std::vector<CurvePoint> curve = score_curve(of_class, &places);
    out.roc_auc.push_back(roc_auc(curve));
    out.average_precision.push_back(average_precision(curve));
    if (c < first) continue;
    area.add(out.roc_auc.back(), of_class, places, curve, roc_auc_influence);
    precision.add(out.average_precision.back(), of_class, places, curve, average_precision_influence);
  }
  out.mean_roc_auc = area.mean();
  out.mean_average_precision = precision.mean();
  return out;
}

}  // namespace neurim
