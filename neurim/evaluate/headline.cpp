#include "neurim/evaluate/headline.h"

#include <cmath>

#include "neurim/base/text.h"

namespace neurim {

std::vector<HeadlineMetric> headline_metrics(const Evaluation& e, const Probabilities& p) {
  const auto f1 = [](Average kind) { return [kind](const Evaluation& drawn) { return drawn.average(kind).f1; }; };
  std::vector<HeadlineMetric> out{{"accuracy", "accuracy", e.accuracy(), e.accuracy_interval(), true}};
  if (e.classes() > 5) out.push_back({"top5", "top-5 accuracy", e.top_k(5), e.top_k_interval(5), true});
  out.push_back({"balanced_accuracy", "balanced accuracy", e.balanced_accuracy(),
                 e.interval(&Evaluation::balanced_accuracy), true});
  out.push_back({"f1_macro", "F1, macro average", e.average(Average::macro).f1, e.interval(f1(Average::macro)), true});
  out.push_back({"f1_weighted", "F1, weighted average", e.average(Average::weighted).f1,
                 e.interval(f1(Average::weighted)), true});
  out.push_back({"precision_macro", "precision, macro average", e.average(Average::macro).precision, {}, true});
  out.push_back({"recall_macro", "recall, macro average", e.average(Average::macro).recall, {}, true});
  out.push_back({"log_loss", "log-loss", p.log_loss().mean(), p.log_loss().interval()});
  out.push_back({"brier", "Brier score", p.brier().mean(), p.brier().interval()});
  out.push_back({"calibration_error", "expected calibration error", p.calibration_error()});
  out.push_back({"kappa", "Cohen's kappa", e.kappa(), e.interval(&Evaluation::kappa)});
  out.push_back({"matthews", "Matthews' correlation", e.matthews(), e.interval(&Evaluation::matthews)});
  out.push_back({"roc_auc", "area under the ROC curve", p.roc_auc()});
  out.push_back({"average_precision", "average precision", p.average_precision()});
  return out;
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
