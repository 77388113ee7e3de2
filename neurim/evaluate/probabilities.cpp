#include "neurim/evaluate/probabilities.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neurim/base/error.h"

namespace neurim {

namespace {

/// The answered class of a row, the first of the most likely.
std::size_t answer(std::span<const float> row) {
  return static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

std::size_t bin_of(double confidence, int bins) {
  return static_cast<std::size_t>(std::clamp(static_cast<int>(std::floor(confidence * bins)), 0, bins));
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
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    const std::size_t most = answer(row(i)), bin = bin_of(row(i)[most], bins);
    ++out[bin].samples;
    sums[bin].add(row(i)[most]);
    right[bin] += static_cast<std::int64_t>(most) == labels_[i];
  }
  for (std::size_t bin = 0; bin < out.size(); ++bin)
    if (const auto n = static_cast<double>(out[bin].samples); n > 0)
      out[bin].confidence = sums[bin].value() / n, out[bin].accuracy = static_cast<double>(right[bin]) / n;
  return out;
}

SampleMean Probabilities::calibration_error(int bins) const {
  // The sum of |hits - confidences| over bins is that of (hit - confidence) over samples, with the sign of their bin.
  const std::vector<ReliabilityBin> reached = reliability(bins);
  SampleMean error;
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    const std::size_t most = answer(row(i));
    const double confidence = row(i)[most], hit = static_cast<std::int64_t>(most) == labels_[i] ? 1 : 0;
    const ReliabilityBin& bin = reached[bin_of(confidence, bins)];
    error.add(bin.accuracy >= bin.confidence ? hit - confidence : confidence - hit);
  }
  return error;
}

std::vector<Score> Probabilities::scores(int c) const {
  require(c >= 0 && c < classes_, "probabilities: there is no class ", c);
  std::vector<Score> out;
  out.reserve(labels_.size());
  for (std::size_t i = 0; i < labels_.size(); ++i)
    out.push_back({row(i)[static_cast<std::size_t>(c)], labels_[i] == c});
  return out;
}

std::vector<CurvePoint> Probabilities::curve(int c) const { return score_curve(scores(c)); }

ClassAreas Probabilities::areas() const {
  return class_areas(samples(), classes_, classes_ == 2 ? 1 : 0, [&](int c) { return scores(c); });
}

}  // namespace neurim
