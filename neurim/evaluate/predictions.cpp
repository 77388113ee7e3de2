#include "neurim/evaluate/predictions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/evaluate/csv.h"

namespace neurim {

Predictions::Predictions(std::vector<std::string> class_names)
    : names_(std::move(class_names)), probabilities_(static_cast<int>(names_.size())) {}

void Predictions::add_logits(std::int64_t sample, const std::string& name, std::span<const float> logits,
                             std::int64_t label) {
  if (std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); }))
    fail(Fault::failure, name, ": the model gives NaN; it has probably diverged, try a lower learning rate");
  const auto most = std::max_element(logits.begin(), logits.end());
  std::vector<double> shares;
  double sum = 0;
  for (const float x : logits) sum += shares.emplace_back(x == *most ? 1 : std::exp(static_cast<double>(x) - *most));
  std::vector<float> probabilities;
  for (const double share : shares) probabilities.push_back(static_cast<float>(share / sum));
  add_answer(sample, name, probabilities, label, static_cast<std::size_t>(most - logits.begin()));
}

void Predictions::add(std::int64_t sample, const std::string& name, std::span<const float> probabilities,
                      std::int64_t label) {
  if (std::any_of(probabilities.begin(), probabilities.end(), [](float x) { return std::isnan(x); }))
    fail(Fault::failure, name, ": the model gives NaN");
  const auto most = std::max_element(probabilities.begin(), probabilities.end());
  add_answer(sample, name, probabilities, label, static_cast<std::size_t>(most - probabilities.begin()));
}

void Predictions::add_answer(std::int64_t sample, const std::string& name, std::span<const float> probabilities,
                             std::int64_t label, std::size_t predicted) {
  probabilities_.add(probabilities, {&label, 1});
  const double probability = probabilities[static_cast<std::size_t>(label)];
  samples_.push_back({.sample = sample,
                      .name = name,
                      .label = label,
                      .predicted = static_cast<std::int64_t>(predicted),
                      .confidence = probabilities[predicted],
                      .probability = probability,
                      .loss = Probabilities::loss(probability)});
}

std::vector<std::size_t> Predictions::mistakes() const {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < samples_.size(); ++i)
    if (!samples_[i].right()) out.push_back(i);
  std::stable_sort(out.begin(), out.end(), [&](auto a, auto b) { return samples_[a].loss > samples_[b].loss; });
  return out;
}

std::vector<LabelIssue> label_issues(const Predictions& predictions) {
  std::vector<LabelIssue> out;
  for (std::size_t i = 0; i < predictions.samples().size(); ++i)
    if (const Prediction& one = predictions.samples()[i]; !one.right())
      out.push_back({i, one.predicted, one.probability});
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.score < b.score; });
  return out;
}

namespace {

/// The first columns of a sample's row.
std::string answer_fields(const Predictions& predictions, const Prediction& one) {
  const auto class_of = [&](std::int64_t c) {
    return csv_field(predictions.class_names()[static_cast<std::size_t>(c)]);
  };
  return text(csv_field(one.name), ',', class_of(one.label), ',', class_of(one.predicted), ',', one.confidence, ',',
              one.probability, ',', one.loss);
}

}  // namespace

std::string predictions_csv(const Predictions& predictions) {
  constexpr std::size_t kMostColumns = 100;
  const bool all = predictions.class_names().size() <= kMostColumns;
  std::string out = "file,label,predicted,confidence,probability,loss,correct";
  if (all)
    for (const std::string& name : predictions.class_names()) out += ',' + csv_field("p:" + name);
  out += '\n';
  for (std::size_t i = 0; i < predictions.samples().size(); ++i) {
    const Prediction& one = predictions.samples()[i];
    out += text(answer_fields(predictions, one), ',', one.right() ? 1 : 0);
    if (all)
      for (const float p : predictions.probabilities().row(i)) append(out, ','), append(out, static_cast<double>(p));
    out += '\n';
  }
  return out;
}

std::string mistakes_csv(const Predictions& predictions) {
  std::string out = "file,label,predicted,confidence,probability,loss\n";
  for (const std::size_t place : predictions.mistakes())
    out += answer_fields(predictions, predictions.samples()[place]) + '\n';
  return out;
}

std::string label_issues_csv(const Predictions& predictions) {
  std::string out = "file,label,suggested,score\n";
  for (const LabelIssue& issue : label_issues(predictions)) {
    const Prediction& one = predictions.samples()[issue.place];
    out += text(csv_field(one.name), ',', csv_field(predictions.class_names()[static_cast<std::size_t>(one.label)]),
                ',', csv_field(predictions.class_names()[static_cast<std::size_t>(issue.suggested)]), ',', issue.score,
                '\n');
  }
  return out;
}

}  // namespace neurim
