#include "neurim/evaluate/probabilities.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "neurim/base/error.h"

namespace neurim {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The mean over classes of what is not NaN, in the order of the classes.
double mean_over(int classes, const std::function<double(int)>& metric) {
  if (classes == 2) return metric(1);
  double sum = 0, count = 0;
  for (int c = 0; c < classes; ++c)
    if (const double value = metric(c); !std::isnan(value)) sum += value, ++count;
  return count == 0 ? kNaN : sum / count;
}

}  // namespace

Probabilities::Probabilities(int classes) : classes_(classes) {
  require(classes >= 2, "probabilities: needs at least two classes, got ", classes);
}

void Probabilities::add(std::span<const float> probabilities, std::span<const std::int64_t> labels) {
  const auto classes = static_cast<std::size_t>(classes_);
  require(probabilities.size() == labels.size() * classes, "probabilities: ", probabilities.size(), " numbers for ",
          labels.size(), " labels and ", classes, " classes; expected ", labels.size() * classes);
  for (const std::int64_t label : labels)
    require(label >= 0 && label < classes_, "probabilities: label ", label, " is outside [0, ", classes_, ")");
  if (std::any_of(probabilities.begin(), probabilities.end(), [](float p) { return std::isnan(p); }))
    fail(Fault::failure, "probabilities: one is NaN");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto row = probabilities.subspan(i * classes, classes);
    const auto label = static_cast<std::size_t>(labels[i]);
    log_loss_.add(loss(row[label]));
    ExactSum squares;  // whose order of classes does not matter either
    for (std::size_t c = 0; c < classes; ++c) {
      const double off = static_cast<double>(row[c]) - (c == label ? 1 : 0);
      squares.add_product(off, off);
    }
    brier_.add(squares.value() * (classes_ == 2 ? 0.5 : 1));
  }
  probabilities_.insert(probabilities_.end(), probabilities.begin(), probabilities.end());
  labels_.insert(labels_.end(), labels.begin(), labels.end());
}

std::span<const float> Probabilities::row(std::size_t place) const {
  return std::span(probabilities_)
      .subspan(place * static_cast<std::size_t>(classes_), static_cast<std::size_t>(classes_));
}

double Probabilities::loss(double probability) {
  constexpr double kLeast = std::numeric_limits<double>::epsilon();
  return -std::log(std::clamp(probability, kLeast, 1 - kLeast));
}

void Probabilities::merge(const Probabilities& other) {
  require(classes_ == other.classes_, "probabilities: cannot merge those of ", classes_, " and of ", other.classes_,
          " classes");
  probabilities_.insert(probabilities_.end(), other.probabilities_.begin(), other.probabilities_.end());
  labels_.insert(labels_.end(), other.labels_.begin(), other.labels_.end());
  log_loss_.merge(other.log_loss_);
  brier_.merge(other.brier_);
}

std::vector<ReliabilityBin> Probabilities::reliability(int bins) const {
  require(bins >= 1, "reliability: there are ", bins, " bins; expected at least 1");
  std::vector<ReliabilityBin> out(static_cast<std::size_t>(bins) + 1);
  std::vector<ExactSum> sums(out.size());
  std::vector<std::int64_t> right(out.size());
  const auto classes = static_cast<std::size_t>(classes_);
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    const auto row = std::span(probabilities_).subspan(i * classes, classes);
    const auto most = std::max_element(row.begin(), row.end());
    const auto bin = static_cast<std::size_t>(
        std::clamp(static_cast<int>(std::floor(*most * static_cast<double>(bins))), 0, bins));
    ++out[bin].samples;
    sums[bin].add(*most);
    right[bin] += most - row.begin() == labels_[i];
  }
  for (std::size_t bin = 0; bin < out.size(); ++bin)
    if (const auto n = static_cast<double>(out[bin].samples); n > 0)
      out[bin].confidence = sums[bin].value() / n, out[bin].accuracy = static_cast<double>(right[bin]) / n;
  return out;
}

double Probabilities::calibration_error(int bins) const {
  if (labels_.empty()) return kNaN;
  double sum = 0;
  for (const ReliabilityBin& bin : reliability(bins))
    sum += std::abs(bin.accuracy - bin.confidence) * static_cast<double>(bin.samples);
  return sum / static_cast<double>(labels_.size());
}

std::vector<CurvePoint> Probabilities::curve(int c) const {
  require(c >= 0 && c < classes_, "probabilities: there is no class ", c);
  struct Score {
    float score;
    bool positive;
  };
  std::vector<Score> falling;
  falling.reserve(labels_.size());
  for (std::size_t i = 0; i < labels_.size(); ++i)
    falling.push_back(
        {probabilities_[i * static_cast<std::size_t>(classes_) + static_cast<std::size_t>(c)], labels_[i] == c});
  std::sort(falling.begin(), falling.end(), [](const Score& a, const Score& b) { return a.score > b.score; });
  std::vector<CurvePoint> points{{std::numeric_limits<double>::infinity(), 0, 0}};
  for (const Score& one : falling) {
    if (points.size() == 1 || one.score != points.back().score)
      points.push_back({one.score, points.back().true_positives, points.back().false_positives});
    ++(one.positive ? points.back().true_positives : points.back().false_positives);
  }
  return points;
}

double Probabilities::roc_auc(int c) const {
  const std::vector<CurvePoint> points = curve(c);
  const double positives = static_cast<double>(points.back().true_positives),
               negatives = static_cast<double>(points.back().false_positives);
  if (positives == 0 || negatives == 0) return kNaN;
  double twice = 0;  // of the area, in whole numbers
  for (std::size_t i = 1; i < points.size(); ++i)
    twice += static_cast<double>((points[i].false_positives - points[i - 1].false_positives) *
                                 (points[i].true_positives + points[i - 1].true_positives));
  return twice / (2 * positives * negatives);
}

double Probabilities::average_precision(int c) const {
  const std::vector<CurvePoint> points = curve(c);
  const double positives = static_cast<double>(points.back().true_positives);
  if (positives == 0) return kNaN;
  double sum = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const auto [score, right, wrong] = points[i];
    sum += static_cast<double>(right - points[i - 1].true_positives) * static_cast<double>(right) /
           static_cast<double>(right + wrong);
  }
  return sum / positives;
}

double Probabilities::roc_auc() const {
  return mean_over(classes_, [&](int c) { return roc_auc(c); });
}

double Probabilities::average_precision() const {
  return mean_over(classes_, [&](int c) { return average_precision(c); });
}

}  // namespace neurim
