#include "neurim/train/metrics.h"

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/evaluate/multi_label.h"
#include "neurim/evaluate/regression_evaluation.h"

namespace neurim {

Metrics::Metrics(const TaskInfo& task, std::int64_t samples,
                 std::initializer_list<std::pair<std::string_view, double>> named)
    : samples(samples), task_(&task), values_(task.metrics.size(), kNone) {
  for (const auto& [name, value] : named) (*this)[name] = value;
}

std::size_t Metrics::index(std::string_view name) const {
  if (const TaskMetric* found = task_->find(name)) return static_cast<std::size_t>(found - task_->metrics.data());
  std::vector<std::string> names;
  for (const TaskMetric& one : task_->metrics) names.emplace_back(one.name);
  fail(Fault::usage, "there is no metric '", name, "' of ", task_->data, "; known are ", join(names, ", "));
}

double Metrics::merit(std::string_view name) const {
  const std::size_t at = index(name);
  return task_->metrics[at].lower_is_better ? -values_[at] : values_[at];
}

Metrics metrics_of(const Evaluation& evaluation) {
  return Metrics(classify_task(), evaluation.samples(),
                 {{"loss", evaluation.loss()},
                  {"top1", evaluation.accuracy()},
                  {"top5", evaluation.top_k(5)},
                  {"f1_macro", evaluation.average(Average::macro).f1}});
}

Metrics metrics_of(const MultiLabelEvaluation& evaluation) {
  return Metrics(multi_label_task(), evaluation.samples(),
                 {{"loss", evaluation.loss()},
                  {"map", evaluation.mean_average_precision()},
                  {"f1_macro", evaluation.average(Average::macro).f1},
                  {"f1_micro", evaluation.average(Average::micro).f1},
                  {"exact_match", evaluation.exact_match()}});
}

Metrics metrics_of(const RegressionEvaluation& evaluation) {
  return Metrics(
      regress_task(), evaluation.samples(),
      {{"loss", evaluation.loss()}, {"mae", evaluation.mae()}, {"rmse", evaluation.rmse()}, {"r2", evaluation.r2()}});
}

}  // namespace neurim
