#include "neurim/evaluate/multi_label.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "neurim/base/error.h"

namespace neurim {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double ratio(double part, double whole) { return whole == 0 ? 0 : part / whole; }

/// Decisions of yes and no beside the truth.
struct Hits {
  std::int64_t right = 0, said = 0, support = 0;
  void add(bool says, bool has) {
    said += says;
    support += has;
    right += says && has;
  }
  ClassScores scores() const {
    const auto r = static_cast<double>(right), p = static_cast<double>(said), s = static_cast<double>(support);
    return {ratio(r, p), ratio(r, s), ratio(2 * r, p + s), support};
  }
};

}  // namespace

double probability_of(float logit) { return 1 / (1 + std::exp(-static_cast<double>(logit))); }

MultiLabelEvaluation::MultiLabelEvaluation(std::vector<std::string> class_names)
    : names_(std::move(class_names)), thresholds_(names_.size(), 0.5) {
  require(!names_.empty(), "evaluation: needs at least one class");
}

void MultiLabelEvaluation::add(std::span<const float> logits, std::span<const float> targets) {
  require(logits.size() == targets.size() && logits.size() % names_.size() == 0, "evaluation: ", logits.size(),
          " logits for ", targets.size(), " targets of ", classes(), " classes");
  if (std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); }))
    fail(Fault::failure, "evaluation: the model gives NaN; it has probably diverged, try a lower learning rate");
  logits_.insert(logits_.end(), logits.begin(), logits.end());
  for (const float target : targets) truths_.push_back(target != 0);
}

void MultiLabelEvaluation::add_loss(double mean, std::int64_t samples) {
  loss_sum_ += mean * static_cast<double>(samples);
  loss_samples_ += samples;
}

double MultiLabelEvaluation::loss() const {
  return loss_samples_ == 0 ? kNone : loss_sum_ / static_cast<double>(loss_samples_);
}

std::vector<Score> MultiLabelEvaluation::scores(int c) const {
  require(c >= 0 && c < classes(), "evaluation: there is no class ", c);
  std::vector<Score> out;
  for (std::int64_t i = 0; i < samples(); ++i) out.push_back({logits_[at(i, c)], has(i, c)});
  return out;
}

std::vector<CurvePoint> MultiLabelEvaluation::curve(int c) const { return score_curve(scores(c)); }

ClassAreas MultiLabelEvaluation::areas() const {
  return class_areas(samples(), classes(), 0, [&](int c) { return scores(c); });
}

double MultiLabelEvaluation::mean_average_precision() const { return areas().mean_average_precision.value; }

double MultiLabelEvaluation::probability(std::int64_t sample, int c) const {
  return probability_of(logits_[at(sample, c)]);
}

bool MultiLabelEvaluation::says(std::int64_t sample, int c) const {
  return probability(sample, c) >= thresholds_[static_cast<std::size_t>(c)];
}

bool MultiLabelEvaluation::right(std::int64_t sample) const {
  for (int c = 0; c < classes(); ++c)
    if (says(sample, c) != has(sample, c)) return false;
  return true;
}

double MultiLabelEvaluation::sample_loss(std::int64_t sample) const {
  double sum = 0;
  for (int c = 0; c < classes(); ++c) {
    const double logit = logits_[at(sample, c)], wrong = has(sample, c) ? -logit : logit;
    sum += std::max(wrong, 0.0) + std::log1p(std::exp(-std::abs(wrong)));
  }
  return sum / classes();
}

void MultiLabelEvaluation::set_thresholds(std::vector<double> thresholds) {
  require(thresholds.size() == names_.size(), "evaluation: ", thresholds.size(), " thresholds for ", classes(),
          " classes");
  thresholds_ = std::move(thresholds);
}

void MultiLabelEvaluation::fit_thresholds() {
  for (int c = 0; c < classes(); ++c) {
    const std::vector<CurvePoint> points = curve(c);
    double& threshold = thresholds_[static_cast<std::size_t>(c)] = 0.5;
    const std::int64_t support = points.back().true_positives;
    if (support == 0) continue;
    double best = -1;
    for (std::size_t i = 1; i < points.size(); ++i) {
      const bool last = i + 1 == points.size();
      const double above = probability_of(static_cast<float>(points[i].score)),
                   below = last ? 0 : probability_of(static_cast<float>(points[i + 1].score));
      const Hits hits{points[i].true_positives, points[i].true_positives + points[i].false_positives, support};
      if (above == below) continue;
      const double f1 = hits.scores().f1, middle = (above + below) / 2;
      if (f1 > best || (f1 == best && std::abs(middle - 0.5) < std::abs(threshold - 0.5)))
        best = f1, threshold = middle;
    }
  }
}

std::vector<ClassScores> MultiLabelEvaluation::per_class() const {
  std::vector<ClassScores> scores;
  for (int c = 0; c < classes(); ++c) {
    Hits hits;
    for (std::int64_t i = 0; i < samples(); ++i) hits.add(says(i, c), has(i, c));
    scores.push_back(hits.scores());
  }
  return scores;
}

ClassScores MultiLabelEvaluation::average(Average kind) const {
  if (kind != Average::micro) return average_of(per_class(), kind);
  Hits hits;
  for (std::int64_t i = 0; i < samples(); ++i)
    for (int c = 0; c < classes(); ++c) hits.add(says(i, c), has(i, c));
  return hits.scores();
}

double MultiLabelEvaluation::exact_match() const {
  std::int64_t all = 0;
  for (std::int64_t i = 0; i < samples(); ++i) all += right(i);
  return ratio(static_cast<double>(all), static_cast<double>(samples()));
}

Interval MultiLabelEvaluation::exact_match_interval() const {
  return wilson(exact_match(), static_cast<double>(samples()));
}

Estimate MultiLabelEvaluation::f1(Average kind) const {
  require(kind != Average::weighted, "evaluation: f1 is macro or micro");
  const std::vector<ClassScores> scores = per_class();
  const double whole = average(kind).f1;
  std::vector<double> sizes;  // of each class, the number of times it is true and said
  double all = 0;
  for (int c = 0; c < classes(); ++c) {
    double size = 0;
    for (std::int64_t i = 0; i < samples(); ++i) size += has(i, c) + says(i, c);
    sizes.push_back(size), all += size;
  }
  double variance = 0;  // the sum of squares of derivatives to the weight of each sample
  for (std::int64_t i = 0; i < samples(); ++i) {
    double change = 0;
    for (int c = 0; c < classes(); ++c) {
      const auto place = static_cast<std::size_t>(c);
      const double f1 = kind == Average::micro ? whole : scores[place].f1,
                   size = kind == Average::micro ? all : sizes[place] * classes();
      const double once = has(i, c) + says(i, c), both = has(i, c) && says(i, c) ? 2 : 0;
      if (once > 0) change += (both - f1 * once) / size;
    }
    variance += change * change;
  }
  return estimate(whole, variance, samples());
}

}  // namespace neurim
