#include "neurim/evaluate/headline.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <utility>

#include "neurim/base/text.h"
#include "neurim/evaluate/regression.h"

namespace neurim {

namespace {

/// A metric that is never below 0.
HeadlineMetric loss_metric(const char* name, const char* title, const SampleMean& mean) {
  const Interval known = mean.interval();
  return {name, title, mean.mean(), Interval{std::max(0.0, known.low), known.high}};
}

HeadlineMetric times(HeadlineMetric metric, double unit) {
  metric.value *= unit, metric.interval->low *= unit, metric.interval->high *= unit;
  return metric;
}

HeadlineMetric root_metric(const Regression& r, double unit) {
  const Interval squares = r.mse().interval();
  return times({"rmse", "root mean squared error", r.rmse(),
                Interval{std::sqrt(std::max(0.0, squares.low)), std::sqrt(squares.high)}},
               unit);
}

/// A power of two in which no square of a forecast leaves the range of numbers; 1 unless they are extreme.
double unit_of(const ForecastEvaluation& evaluation) {
  double largest = 0;
  for (const Forecast& one : evaluation.forecasts())
    largest = std::max({largest, std::abs(one.forecast), std::abs(one.actual)});
  return largest == 0 || (largest > 1e-100 && largest < 1e100) ? 1 : std::exp2(std::ilogb(largest));
}

HeadlineMetric share_metric(const char* name, const char* title, const Estimate& known, bool percent = true) {
  return {name, title, known.value, known.interval, percent};
}

}  // namespace

std::vector<HeadlineMetric> headline_metrics(const Evaluation& e, const Probabilities& p, const ClassAreas& areas) {
  std::vector<HeadlineMetric> out{{"accuracy", "accuracy", e.accuracy(), e.accuracy_interval(), true}};
  if (e.classes() > 5) out.push_back({"top5", "top-5 accuracy", e.top_k(5), e.top_k_interval(5), true});
  const auto average = [](Average kind, double ClassScores::*score) {
    return [=](const Evaluation& drawn) { return drawn.average(kind).*score; };
  };
  const Evaluation::Metric metrics[] = {&Evaluation::balanced_accuracy,
                                        average(Average::macro, &ClassScores::f1),
                                        average(Average::weighted, &ClassScores::f1),
                                        average(Average::macro, &ClassScores::precision),
                                        average(Average::macro, &ClassScores::recall),
                                        &Evaluation::kappa,
                                        &Evaluation::matthews};
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"balanced_accuracy", "balanced accuracy"}, {"f1_macro", "F1, macro average"},
      {"f1_weighted", "F1, weighted average"},    {"precision_macro", "precision, macro average"},
      {"recall_macro", "recall, macro average"},  {"kappa", "Cohen's kappa"},
      {"matthews", "Matthews' correlation"}};
  constexpr std::size_t kPercentages = 5;
  const std::vector<Interval> known = e.intervals(metrics);
  for (std::size_t i = 0; i < std::size(metrics); ++i)
    out.push_back({kNames[i].first, kNames[i].second, metrics[i](e), known[i], i < kPercentages});
  out.push_back(loss_metric("log_loss", "log-loss", p.log_loss()));
  out.push_back(loss_metric("brier", "Brier score", p.brier()));
  out.push_back(loss_metric("calibration_error", "expected calibration error", p.calibration_error()));
  out.push_back(share_metric("roc_auc", "area under the ROC curve", areas.mean_roc_auc, false));
  out.push_back(share_metric("average_precision", "average precision", areas.mean_average_precision, false));
  return out;
}

std::vector<HeadlineMetric> headline_metrics(const MultiLabelEvaluation& e, const ClassAreas& areas) {
  return {share_metric("map", "mean average precision", areas.mean_average_precision),
          share_metric("f1_macro", "F1, macro average", e.f1(Average::macro)),
          share_metric("f1_micro", "F1, micro average", e.f1(Average::micro)),
          {"exact_match", "every class right", e.exact_match(), e.exact_match_interval(), true},
          share_metric("roc_auc", "area under the ROC curve", areas.mean_roc_auc, false)};
}

std::vector<HeadlineMetric> headline_metrics(const RegressionEvaluation& e) {
  const std::size_t targets = e.names().size();
  const auto of_one = [](const Regression& r, const std::string& name, const std::string& title) {
    std::vector<HeadlineMetric> own{loss_metric("mae", "mean absolute error", r.mae()),
                                    root_metric(r, 1),
                                    {"r2", "R2", r.r2()},
                                    loss_metric("mape", "mean absolute relative error", r.mape())};
    for (HeadlineMetric& one : own) one.name += name, one.title += title;
    return own;
  };
  if (targets == 1) return of_one(e.of(0), "", "");
  std::vector<HeadlineMetric> all{{"mae", "mean absolute error", e.mae()},
                                  {"rmse", "root mean squared error", e.rmse()},
                                  {"r2", "R2, mean of the targets", e.r2()}};
  for (std::size_t t = 0; t < targets; ++t)
    for (HeadlineMetric& one : of_one(e.of(t), "." + e.names()[t], ", " + e.names()[t])) all.push_back(std::move(one));
  return all;
}

std::vector<HeadlineMetric> headline_metrics(const ForecastEvaluation& e, double naive_mae) {
  const double unit = unit_of(e);
  Regression r;
  for (const Forecast& one : e.forecasts()) {
    const double forecast = one.forecast / unit, actual = one.actual / unit;
    r.add({&forecast, 1}, {&actual, 1});
  }
  const HeadlineMetric mae = loss_metric("mae", "mean absolute error", r.mae());
  HeadlineMetric mase = times(mae, naive_mae > 0 ? unit / naive_mae : std::nan(""));
  mase.name = "mase", mase.title = "mean absolute scaled error";
  return {times(mae, unit),
          root_metric(r, unit),
          mase,
          {"r2", "R2", r.r2()},
          loss_metric("mape", "mean absolute relative error", r.mape()),
          {"naive_mae", "of the last known value", e.naive_mae()},
          {"seasonal_naive_mae", "of the season before", e.seasonal_naive_mae()}};
}

std::vector<HeadlineMetric> headline_metrics(const SampleMean& loss, double right, double bigram_bits) {
  const HeadlineMetric nats = loss_metric("loss", "loss, in nats", loss);
  HeadlineMetric bits = times(nats, 1 / std::numbers::ln2);
  bits.name = "bits_per_character", bits.title = "bits a character";
  return {{"perplexity", "perplexity", std::exp(nats.value),
           Interval{std::exp(nats.interval->low), std::exp(nats.interval->high)}},
          bits,
          nats,
          {"top1", "accuracy", right, wilson(right, static_cast<double>(loss.samples())), true},
          {"bigram_bits_per_character", "bits of pairs of characters", bigram_bits}};
}

std::string shown(const HeadlineMetric& metric) {
  if (std::isnan(metric.value)) return "none";
  const auto number = [&](double value) { return metric.percent ? fixed(100 * value, 2) : fixed(value, 4); };
  const bool sure = metric.interval && !std::isnan(metric.interval->low);
  return text(number(metric.value), metric.percent ? " %" : "",
              sure ? text(" (", number(metric.interval->low), " to ", number(metric.interval->high), ")") : "");
}

JsonObject headline_json(const std::vector<HeadlineMetric>& metrics) {
  JsonObject json;
  for (const HeadlineMetric& one : metrics) {
    JsonObject value{{"value", one.value}};
    if (one.interval) value.add("low", one.interval->low), value.add("high", one.interval->high);
    json.add(one.name, value);
  }
  return json;
}

}  // namespace neurim
