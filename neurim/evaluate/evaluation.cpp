#include "neurim/evaluate/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "neurim/base/error.h"

namespace neurim {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

void add_all(std::vector<std::int64_t>& to, const std::vector<std::int64_t>& from) {
  std::transform(to.begin(), to.end(), from.begin(), to.begin(), std::plus<>());
}

/// The softmax of the largest of these logits.
float confidence_of(std::span<const float> logits) {
  const float most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += x == most ? 1 : std::exp(static_cast<double>(x) - most);
  return static_cast<float>(1 / sum);
}

std::int64_t count_from(const std::vector<float>& confidences, double threshold) {
  return std::count_if(confidences.begin(), confidences.end(), [&](float one) { return one >= threshold; });
}

}  // namespace

ClassScores average_of(const std::vector<ClassScores>& classes, Average kind) {
  NEURIM_ASSERT(kind != Average::micro);
  ClassScores sum;
  double total = 0;
  for (const ClassScores& one : classes) {
    const double weight = kind == Average::macro ? 1.0 : static_cast<double>(one.support);
    sum.precision += weight * one.precision;
    sum.recall += weight * one.recall;
    sum.f1 += weight * one.f1;
    sum.support += one.support;
    total += weight;
  }
  if (total > 0) sum.precision /= total, sum.recall /= total, sum.f1 /= total;
  return sum;
}

Evaluation::Evaluation(std::vector<std::string> class_names)
    : names_(std::move(class_names)),
      confusion_(names_.size() * names_.size()),
      counts_(names_.size()),
      ranks_(names_.size()) {
  require(names_.size() >= 2, "evaluation: needs at least two classes, got ", names_.size());
}

void Evaluation::check_labels(std::span<const std::int64_t> values, const char* what) const {
  for (const std::int64_t value : values)
    if (value < 0 || value >= classes())
      fail(Fault::data, "evaluation: ", what, " ", value, " is outside [0, ", classes(),
           "); the data and the model differ in their classes");
}

void Evaluation::add(std::span<const float> logits, std::span<const std::int64_t> labels) {
  const std::size_t classes = names_.size();
  require(logits.size() == labels.size() * classes, "evaluation: ", logits.size(), " logits for ", labels.size(),
          " labels and ", classes, " classes; expected ", labels.size() * classes);
  check_labels(labels, "label");
  check_scores(logits);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto row = logits.subspan(i * classes, classes);
    const auto most = std::max_element(row.begin(), row.end());
    count_answer(row, static_cast<std::size_t>(labels[i]), static_cast<std::size_t>(most - row.begin()),
                 confidence_of(row));
  }
}

void Evaluation::add_answer(std::span<const float> probabilities, std::int64_t predicted, std::int64_t label) {
  require(std::ssize(probabilities) == classes(), "evaluation: ", probabilities.size(), " probabilities for ",
          classes(), " classes");
  check_labels({&label, 1}, "label");
  check_labels({&predicted, 1}, "prediction");
  check_scores(probabilities);
  const auto best = static_cast<std::size_t>(predicted);
  count_answer(probabilities, static_cast<std::size_t>(label), best, probabilities[best]);
}

void Evaluation::tally(std::size_t truth, std::size_t predicted, std::int64_t samples) {
  confusion_[truth * names_.size() + predicted] += samples;
  counts_[truth].truth += samples, counts_[predicted].predicted += samples;
  if (truth == predicted) counts_[truth].hits += samples;
  samples_ += samples;
}

void Evaluation::check_scores(std::span<const float> scores) const {
  if (std::any_of(scores.begin(), scores.end(), [](float x) { return std::isnan(x); }))
    fail(Fault::failure, "evaluation: the model gives NaN; it has probably diverged, try a lower learning rate");
}

void Evaluation::count_answer(std::span<const float> scores, std::size_t label, std::size_t predicted,
                              float confidence) {
  std::size_t before = 0;  // of equal scores what is predicted is first, then the lower class
  for (std::size_t c = 0; c < scores.size(); ++c)
    before += scores[c] > scores[label] || (scores[c] == scores[label] && (c == predicted || c < label));
  ++ranks_[predicted == label ? 0 : before];
  tally(label, predicted, 1);
  (predicted == label ? sure_right_ : sure_wrong_).push_back(confidence);
  ++ranked_;
}

void Evaluation::add_predictions(std::span<const std::int64_t> predicted, std::span<const std::int64_t> labels) {
  require(predicted.size() == labels.size(), "evaluation: ", predicted.size(), " predictions for ", labels.size(),
          " labels");
  check_labels(labels, "label");
  check_labels(predicted, "prediction");
  for (std::size_t i = 0; i < labels.size(); ++i)
    tally(static_cast<std::size_t>(labels[i]), static_cast<std::size_t>(predicted[i]), 1);
}

void Evaluation::add_loss(double mean, std::int64_t samples) {
  loss_sum_.add_product(mean, static_cast<double>(samples));
  loss_samples_ += samples;
}

void Evaluation::merge(const Evaluation& other) {
  require(names_ == other.names_, "evaluation: cannot merge results over different classes (", classes(), " and ",
          other.classes(), " classes)");
  for (std::size_t t = 0; t < names_.size(); ++t)
    for (std::size_t p = 0; p < names_.size(); ++p) tally(t, p, other.confusion_[t * names_.size() + p]);
  add_all(ranks_, other.ranks_);
  sure_right_.insert(sure_right_.end(), other.sure_right_.begin(), other.sure_right_.end());
  sure_wrong_.insert(sure_wrong_.end(), other.sure_wrong_.begin(), other.sure_wrong_.end());
  ranked_ += other.ranked_;
  loss_samples_ += other.loss_samples_;
  loss_sum_.merge(other.loss_sum_);
}

std::int64_t Evaluation::correct() const {
  std::int64_t sum = 0;
  for (const ClassCount& one : counts_) sum += one.hits;
  return sum;
}

double Evaluation::accuracy() const { return ratio(correct(), samples_); }

double Evaluation::top_k(int k) const {
  require(k >= 1, "evaluation: top_k: k is ", k, ", expected at least 1");
  if (ranked_ == 0) return kNaN;
  std::int64_t within = 0;
  for (int r = 0; r < std::min(k, classes()); ++r) within += ranks_[r];
  return ratio(within, ranked_);
}

double Evaluation::loss() const {
  return loss_samples_ == 0 ? kNaN : loss_sum_.value() / static_cast<double>(loss_samples_);
}

double Evaluation::reject_threshold(double keep) const {
  require(keep >= 0 && keep <= 1, "reject_keep is ", keep, "; it is a share in [0, 1]");
  if (sure_right_.empty()) return kNaN;
  std::vector<float> falling = sure_right_;
  std::sort(falling.begin(), falling.end(), std::greater<>());
  const auto kept = static_cast<std::size_t>(std::ceil(keep * static_cast<double>(falling.size())));
  return std::floor(falling[std::max<std::size_t>(kept, 1) - 1] * 1e4) / 1e4;
}

Kept Evaluation::kept(double threshold) const {
  const std::int64_t right = count_from(sure_right_, threshold), wrong = count_from(sure_wrong_, threshold);
  return {ratio(right + wrong, ranked_), ratio(right, right + wrong)};
}

Interval Evaluation::accuracy_interval() const { return wilson(correct(), samples_); }

Interval Evaluation::top_k_interval(int k) const {
  return wilson(std::accumulate(ranks_.begin(), ranks_.begin() + std::clamp(k, 0, classes()), std::int64_t{0}),
                ranked_);
}

std::vector<ClassScores> Evaluation::per_class() const {
  std::vector<ClassScores> scores;
  for (const auto& [truth, predicted, hits] : counts_)
    scores.push_back({ratio(hits, predicted), ratio(hits, truth), ratio(2 * hits, predicted + truth), truth});
  return scores;
}

std::vector<double> Evaluation::specificity() const {
  std::vector<double> out;
  for (const auto& [truth, predicted, hits] : counts_)
    out.push_back(ratio(samples_ - truth - predicted + hits, samples_ - truth));
  return out;
}

std::vector<double> Evaluation::f_beta(double beta) const {
  require(beta >= 0, "f_beta: beta is ", beta, "; expected at least 0");
  std::vector<double> out;
  for (const auto& [truth, predicted, hits] : counts_) {
    const double weighted = beta * beta * static_cast<double>(truth) + static_cast<double>(predicted);
    out.push_back(weighted == 0 ? 0 : (1 + beta * beta) * static_cast<double>(hits) / weighted);
  }
  return out;
}

std::vector<double> Evaluation::iou() const {
  std::vector<double> out;
  for (const auto& [truth, predicted, hits] : counts_) out.push_back(ratio(hits, truth + predicted - hits));
  return out;
}

double Evaluation::balanced_accuracy() const {
  double sum = 0, there = 0;
  for (const auto& [truth, predicted, hits] : counts_)
    if (truth > 0) sum += ratio(hits, truth), ++there;
  return there == 0 ? kNaN : sum / there;
}

double Evaluation::kappa() const {
  const double n = static_cast<double>(samples_);
  double chance = 0;
  for (const auto& [truth, predicted, hits] : counts_)
    chance += static_cast<double>(truth) * static_cast<double>(predicted);
  const double above = n * n - chance;
  return above == 0 ? kNaN : (n * static_cast<double>(correct()) - chance) / above;
}

double Evaluation::matthews() const {
  const double n = static_cast<double>(samples_);
  double both = 0, truths = 0, answers = 0;
  for (const auto& [truth, predicted, hits] : counts_) {
    const double t = static_cast<double>(truth), p = static_cast<double>(predicted);
    both += t * p, truths += t * t, answers += p * p;
  }
  const double spread = (n * n - truths) * (n * n - answers);
  return spread == 0 ? 0 : (n * static_cast<double>(correct()) - both) / std::sqrt(spread);
}

std::vector<Interval> Evaluation::intervals(std::span<const Metric> metrics) const {
  std::vector<std::size_t> cells;
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < confusion_.size(); ++i)
    if (confusion_[i] > 0) cells.push_back(i), counts.push_back(confusion_[i]);
  Evaluation drawn = Evaluation(names_);
  drawn.subset_ = subset_;
  const auto of_counts = [&](const std::vector<std::int64_t>& of_cells) {
    for (const std::size_t cell : cells) drawn.confusion_[cell] = 0;
    std::fill(drawn.counts_.begin(), drawn.counts_.end(), ClassCount());
    drawn.samples_ = 0;
    for (std::size_t i = 0; i < cells.size(); ++i)
      drawn.tally(cells[i] / names_.size(), cells[i] % names_.size(), of_cells[i]);
    std::vector<double> values;
    for (const Metric& metric : metrics) values.push_back(metric(drawn));
    return values;
  };
  return bootstrap(counts, of_counts, classes() <= 100 ? 1000 : 200);
}

ClassScores Evaluation::average(Average kind) const {
  if (kind == Average::micro) return {accuracy(), accuracy(), accuracy(), samples_};
  std::vector<ClassScores> scores = per_class();
  if (subset_) std::erase_if(scores, [](const ClassScores& one) { return one.support == 0; });
  return average_of(scores, kind);
}

std::vector<Confusion> Evaluation::most_confused(std::size_t limit) const {
  const auto scores = per_class();
  std::vector<Confusion> all;
  for (int t = 0; t < classes(); ++t)
    for (int p = 0; p < classes(); ++p)
      if (t != p && count(t, p) > 0) all.push_back({t, p, count(t, p), ratio(count(t, p), scores[t].support)});
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  all.resize(std::min(limit, all.size()));
  return all;
}

}  // namespace neurim
