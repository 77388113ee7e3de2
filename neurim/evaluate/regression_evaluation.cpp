#include "neurim/evaluate/regression_evaluation.h"

#include <algorithm>
#include <cmath>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/evaluate/csv.h"

namespace neurim {

/// The mean of a metric over the targets.
template <class Metric>
static double mean_over(const std::vector<Regression>& targets, const Metric& metric) {
  double sum = 0;
  for (const Regression& one : targets) sum += metric(one);
  return sum / static_cast<double>(targets.size());
}

RegressionEvaluation::RegressionEvaluation(std::vector<std::string> names)
    : names_(std::move(names)), targets_(names_.size()) {
  require(!names_.empty(), "regression: there are no targets; give the names of one or more");
}

void RegressionEvaluation::add(std::span<const float> predicted, std::span<const float> truths) {
  const std::size_t count = names_.size();
  require(predicted.size() == truths.size() && truths.size() % count == 0, "regression: ", predicted.size(),
          " numbers for ", truths.size(), " of ", count, " targets");
  for (std::size_t i = 0; i < truths.size(); ++i) {
    const double says = predicted[i], is = truths[i];
    targets_[i % count].add({&says, 1}, {&is, 1});
  }
  predicted_.insert(predicted_.end(), predicted.begin(), predicted.end());
  truths_.insert(truths_.end(), truths.begin(), truths.end());
}

void RegressionEvaluation::add_loss(double loss, std::int64_t samples) {
  loss_ += loss * static_cast<double>(samples);
  losses_ += samples;
}

double RegressionEvaluation::predicted(std::int64_t sample, std::size_t target) const {
  return predicted_[static_cast<std::size_t>(sample) * names_.size() + target];
}

double RegressionEvaluation::truth(std::int64_t sample, std::size_t target) const {
  return truths_[static_cast<std::size_t>(sample) * names_.size() + target];
}

double RegressionEvaluation::loss() const { return losses_ ? loss_ / static_cast<double>(losses_) : std::nan(""); }

double RegressionEvaluation::mae() const {
  return mean_over(targets_, [](const Regression& one) { return one.mae().mean(); });
}

double RegressionEvaluation::rmse() const {
  return std::sqrt(mean_over(targets_, [](const Regression& one) { return one.mse().mean(); }));
}

double RegressionEvaluation::r2() const {
  return mean_over(targets_, [](const Regression& one) { return one.r2(); });
}

std::vector<std::int64_t> RegressionEvaluation::worst() const {
  std::vector<double> stds;
  for (std::size_t t = 0; t < names_.size(); ++t) {
    SampleMean truths;
    for (std::int64_t i = 0; i < samples(); ++i) truths.add(truth(i, t));
    const double std = std::sqrt(truths.variance());
    stds.push_back(std > 0 ? std : 1);  // NaN too
  }
  std::vector<std::pair<double, std::int64_t>> errors;
  for (std::int64_t i = 0; i < samples(); ++i) {
    double most = 0;
    for (std::size_t t = 0; t < stds.size(); ++t)
      most = std::max(most, std::abs(predicted(i, t) - truth(i, t)) / stds[t]);
    errors.emplace_back(most, i);
  }
  std::stable_sort(errors.begin(), errors.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::int64_t> places;
  for (const auto& [error, place] : errors) places.push_back(place);
  return places;
}

std::string predictions_csv(const RegressionEvaluation& evaluation, const std::vector<NamedSample>& names) {
  std::string out = "file";
  for (const std::string& name : evaluation.names())
    out += text(',', csv_field(name), ',', csv_field(name + "_predicted"));
  out += '\n';
  for (std::int64_t i = 0; i < evaluation.samples(); ++i) {
    out += csv_field(names[static_cast<std::size_t>(i)].name);
    for (std::size_t t = 0; t < evaluation.names().size(); ++t)
      out += text(',', static_cast<float>(evaluation.truth(i, t)), ',', static_cast<float>(evaluation.predicted(i, t)));
    out += '\n';
  }
  return out;
}

std::string per_target_csv(const RegressionEvaluation& evaluation) {
  std::string out = "target,mae,rmse,r2,mape\n";
  for (std::size_t t = 0; t < evaluation.names().size(); ++t) {
    const Regression& one = evaluation.of(t);
    out += text(csv_field(evaluation.names()[t]), ',', one.mae().mean(), ',', one.rmse(), ',', one.r2(), ',',
                one.mape().mean(), '\n');
  }
  return out;
}

}  // namespace neurim
