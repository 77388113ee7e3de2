// The metrics of a model on a split, in summaries and checkpoints.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "neurim/train/task.h"

namespace neurim {

/// The metrics of a task by their names, in its order. Accuracies, precisions and F1 are in [0, 1]; the loss is the
/// mean of what training minimizes; errors of forecasts are in the units of the series. NaN: not computed.
class Metrics {
 public:
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  ///< not computed

  Metrics() : Metrics(classify_task()) {}
  /// Others than the named ones are not computed.
  explicit Metrics(const TaskInfo& task, std::int64_t samples = 0,
                   std::initializer_list<std::pair<std::string_view, double>> named = {});

  /// Throws Error(usage) where the task has no such metric.
  double operator[](std::string_view name) const { return values_[index(name)]; }
  double& operator[](std::string_view name) { return values_[index(name)]; }  ///< the same, to be set
  double loss() const { return (*this)["loss"]; }                             ///< which every task has
  /// A value that is larger for better metrics; NaN is never better.
  double merit(std::string_view name) const;
  const TaskInfo& task() const { return *task_; }  ///< what it measures

  std::int64_t samples = 0;  ///< images, forecasts or characters

 private:
  std::size_t index(std::string_view name) const;
  const TaskInfo* task_;
  std::vector<double> values_;  // as in task().metrics
};

class Evaluation;
class MultiLabelEvaluation;
class RegressionEvaluation;
Metrics metrics_of(const Evaluation& evaluation);            ///< of one class a sample
Metrics metrics_of(const MultiLabelEvaluation& evaluation);  ///< at its thresholds
Metrics metrics_of(const RegressionEvaluation& evaluation);  ///< of numbers, in their units

}  // namespace neurim
