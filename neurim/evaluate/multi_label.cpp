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

std::vector<MultiLabelEvaluation::Decision> MultiLabelEvaluation::falling(std::size_t c) const {
  std::vector<Decision> all;
  for (std::size_t at = c; at < logits_.size(); at += names_.size()) all.push_back({logits_[at], truths_[at] != 0});
  std::sort(all.begin(), all.end(), [](const Decision& a, const Decision& b) { return a.logit > b.logit; });
  return all;
}

std::vector<double> MultiLabelEvaluation::average_precision() const {
  std::vector<double> precisions;
  for (std::size_t c = 0; c < names_.size(); ++c) {
    const std::vector<Decision> all = falling(c);
    double sum = 0, right = 0, right_before = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      right += all[i].truth;
      if (i + 1 < all.size() && all[i + 1].logit == all[i].logit) continue;
      sum += (right - right_before) * right / static_cast<double>(i + 1);
      right_before = right;
    }
    precisions.push_back(right == 0 ? kNone : sum / right);
  }
  return precisions;
}

double MultiLabelEvaluation::mean_average_precision() const {
  double sum = 0, count = 0;
  for (const double precision : average_precision())
    if (!std::isnan(precision)) sum += precision, ++count;
  return count == 0 ? kNone : sum / count;
}

void MultiLabelEvaluation::set_thresholds(std::vector<double> thresholds) {
  require(thresholds.size() == names_.size(), "evaluation: ", thresholds.size(), " thresholds for ", classes(),
          " classes");
  thresholds_ = std::move(thresholds);
}

void MultiLabelEvaluation::fit_thresholds() {
  for (std::size_t c = 0; c < names_.size(); ++c) {
    const std::vector<Decision> all = falling(c);
    double& threshold = thresholds_[c] = 0.5;
    Hits hits;
    for (const Decision& one : all) hits.support += one.truth;
    if (hits.support == 0) continue;
    double best = -1;
    for (std::size_t i = 0; i < all.size(); ++i) {
      hits.right += all[i].truth;
      ++hits.said;
      const bool last = i + 1 == all.size();
      const double above = probability_of(all[i].logit), below = last ? 0 : probability_of(all[i + 1].logit);
      if (above == below) continue;
      const double f1 = hits.scores().f1, middle = (above + below) / 2;
      if (f1 > best || (f1 == best && std::abs(middle - 0.5) < std::abs(threshold - 0.5)))
        best = f1, threshold = middle;
    }
  }
}

bool MultiLabelEvaluation::says(std::size_t at, std::size_t c) const {
  return probability_of(logits_[at]) >= thresholds_[c];
}

std::vector<ClassScores> MultiLabelEvaluation::per_class() const {
  std::vector<ClassScores> scores;
  for (std::size_t c = 0; c < names_.size(); ++c) {
    Hits hits;
    for (std::size_t at = c; at < logits_.size(); at += names_.size()) {
      hits.said += says(at, c);
      hits.support += truths_[at];
      hits.right += truths_[at] && says(at, c);
    }
    scores.push_back(hits.scores());
  }
  return scores;
}

ClassScores MultiLabelEvaluation::average(Average kind) const {
  if (kind != Average::micro) return average_of(per_class(), kind);
  Hits hits;
  for (std::size_t at = 0; at < logits_.size(); ++at) {
    const bool said = says(at, at % names_.size());
    hits.said += said;
    hits.support += truths_[at];
    hits.right += truths_[at] && said;
  }
  return hits.scores();
}

double MultiLabelEvaluation::exact_match() const {
  std::int64_t right = 0;
  for (std::size_t at = 0; at < logits_.size(); at += names_.size()) {
    std::size_t c = 0;
    while (c < names_.size() && says(at + c, c) == (truths_[at + c] != 0)) ++c;
    right += c == names_.size();
  }
  return ratio(static_cast<double>(right), static_cast<double>(samples()));
}

}  // namespace neurim
