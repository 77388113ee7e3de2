// The metrics of a model on a split, in summaries and checkpoints.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <span>

namespace neurim {

/// The kinds of task: images of one class, images of any number of classes, next values of a series, next characters of
/// a text.
enum class TaskKind : std::uint8_t { classify, multi_label, forecast, language };

/// Accuracies, precisions and F1 are in [0, 1]; the loss is the mean of what training minimizes. NaN: not computed.
struct Metrics {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  ///< not computed
  double loss = kNone, f1_macro = kNone;                                     ///< f1_macro: mean F1 of the classes
  double top1 = kNone, top5 = kNone;                          ///< of one class a sample; top1 of a text too
  double map = kNone, f1_micro = kNone, exact_match = kNone;  ///< of multi-label: see MultiLabelEvaluation
  /// Of forecasts, in the units of the series: see ForecastEvaluation.
  double mae = kNone, rmse = kNone, naive_mae = kNone, seasonal_naive_mae = kNone;
  /// Of a text: the model's, and those of a Bigram model of the same training part.
  double bits_per_character = kNone, bigram_bits_per_character = kNone;
  std::int64_t samples = 0;            ///< images, forecasts or characters
  TaskKind task = TaskKind::classify;  ///< what it measures
};

/// A metric by its name in files.
struct NamedMetric {
  const char* name;              ///< in files
  double Metrics::*value;        ///< which one
  bool lower_is_better = false;  ///< whether it falls as models improve
};

/// A metric as a column of an epoch's line.
struct ShownMetric {
  const char* title;       ///< of the column
  double Metrics::*value;  ///< which one
  bool percent = true;     ///< printed as a percentage
};

/// The names that a task has in files and output.
struct TaskNames {
  const char* task;                      ///< "classify": of the folder of the runs and of ONNX files
  const char* data;                      ///< what it learns from, "images of one class"
  const char* sample;                    ///< what Metrics::samples counts, in the singular
  const char *rate, *rate_title;         ///< "images_per_second" and "img/s"
  const char* train_metric;              ///< the metric besides the loss in training: one of `metrics`
  const char* monitor;                   ///< the metric that decides which epoch is best, by default
  std::span<const NamedMetric> metrics;  ///< in the order of files
  std::array<ShownMetric, 2> shown;      ///< in an epoch's line
};
const TaskNames& names_of(TaskKind task);  ///< the names of a task

class Evaluation;
class MultiLabelEvaluation;
Metrics metrics_of(const Evaluation& evaluation);            ///< of one class a sample
Metrics metrics_of(const MultiLabelEvaluation& evaluation);  ///< at its thresholds

}  // namespace neurim
