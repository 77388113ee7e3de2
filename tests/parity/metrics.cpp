// Computes metrics for metrics_test.py: metrics CASES.json prints a list with an object for each case, which is
// {"probabilities": [[…]…], "labels": […], "beta"}, or {"predicted": […], "truth": […]} of numbers. "parts": the
// samples after which a part ends, which are merged in the order "order". Numbers that are not finite are null.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "neurim/evaluate/probabilities.h"
#include "neurim/evaluate/regression.h"
#include "tests/parity/answer.h"

namespace neurim {
namespace {

using Json = nlohmann::json;

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(std::isfinite(value) ? Json(value) : Json());
  return list;
}

Json number(double value) { return numbers({value})[0]; }

/// What the parts of the samples give, merged.
template <class Metrics, class Fill>
Metrics merged(const Json& test, std::size_t samples, Metrics empty, const Fill& fill) {
  std::vector<std::size_t> ends = test.value("parts", std::vector<std::size_t>{});
  ends.push_back(samples);
  std::vector<Metrics> parts;
  for (std::size_t i = 0; i < ends.size(); ++i) fill(parts.emplace_back(empty), i == 0 ? 0 : ends[i - 1], ends[i]);
  std::vector<std::size_t> order = test.value("order", std::vector<std::size_t>{});
  for (std::size_t i = order.size(); i < parts.size(); ++i) order.push_back(i);
  for (const std::size_t part : order) empty.merge(parts[part]);
  return empty;
}

std::vector<double> estimates(const ClassAreas& areas) {
  std::vector<double> out;
  for (const Estimate& one : {areas.mean_roc_auc, areas.mean_average_precision})
    for (const double number : {one.value, one.interval.low, one.interval.high}) out.push_back(number);
  return out;
}

Json of_classes(const Json& test) {
  std::vector<float> scores;
  for (const Json& row : test.at("probabilities"))
    for (const Json& one : row) scores.push_back(one.get<float>());
  const std::vector<std::int64_t> labels = test.at("labels");
  const auto classes = test.at("classes").get<std::size_t>();
  const auto fill = [&](auto& metrics, std::size_t from, std::size_t to) {
    metrics.add(std::span(scores).subspan(from * classes, (to - from) * classes),
                std::span(labels).subspan(from, to - from));
  };
  const auto said = merged(test, labels.size(), Evaluation(std::vector<std::string>(classes, "c")), fill);
  const auto sure = merged(test, labels.size(), Probabilities(static_cast<int>(classes)), fill);
  std::vector<double> precision, recall, f1, averages;
  for (const ClassScores& one : said.per_class())
    precision.push_back(one.precision), recall.push_back(one.recall), f1.push_back(one.f1);
  const ClassAreas areas = sure.areas();
  const Evaluation::Metric kappa[] = {&Evaluation::kappa};
  const Interval drawn = said.intervals(kappa)[0];
  for (const Average kind : {Average::macro, Average::micro, Average::weighted})
    for (const double value : {said.average(kind).precision, said.average(kind).recall, said.average(kind).f1})
      averages.push_back(value);
  return {{"precision", numbers(precision)},
          {"recall", numbers(recall)},
          {"f1", numbers(f1)},
          {"averages", numbers(averages)},
          {"f_beta", numbers(said.f_beta(test.at("beta")))},
          {"specificity", numbers(said.specificity())},
          {"iou", numbers(said.iou())},
          {"accuracy", number(said.accuracy())},
          {"top2", number(said.top_k(2))},
          {"balanced_accuracy", number(said.balanced_accuracy())},
          {"kappa", number(said.kappa())},
          {"matthews", number(said.matthews())},
          {"log_loss", number(sure.log_loss().mean())},
          {"brier", number(sure.brier().mean())},
          {"calibration_error", number(sure.calibration_error().mean())},
          {"roc_auc", numbers(areas.roc_auc)},
          {"average_precision", numbers(areas.average_precision)},
          {"interval", numbers({drawn.low, drawn.high})},
          {"areas", numbers(estimates(areas))},
          {"deviation", number(std::sqrt(sure.log_loss().variance()))}};
}

Json of_numbers(const Json& test) {
  const std::vector<double> predicted = test.at("predicted"), truth = test.at("truth");
  const auto metrics = merged(
      test, truth.size(), Regression(), [&](Regression& part, std::size_t from, std::size_t to) {
        part.add(std::span(predicted).subspan(from, to - from), std::span(truth).subspan(from, to - from));
      });
  return {{"mae", number(metrics.mae().mean())},
          {"mse", number(metrics.mse().mean())},
          {"rmse", number(metrics.rmse())},
          {"mape", number(metrics.mape().mean())},
          {"r2", number(metrics.r2())}};
}

}  // namespace
}  // namespace neurim

int main(int argc, char** argv) {
  return neurim::print_answer("metrics", argc, argv, [](const std::vector<std::string>& words) {
    std::ifstream file(words.at(0));
    neurim::Json answers = neurim::Json::array();
    for (const neurim::Json& test : neurim::Json::parse(file))
      answers.push_back(test.contains("labels") ? neurim::of_classes(test) : neurim::of_numbers(test));
    return answers.dump();
  });
}
