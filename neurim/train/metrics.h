// The figures of a model on a split, as summaries and checkpoints state them.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <span>

namespace neurim {

/// What a model is for: images of one class or of any number of classes, the next values of a series, the next
/// character of a text.
enum class TaskKind : std::uint8_t { classify, multi_label, forecast, language };

/// Accuracies, precisions and F1 are shares in [0, 1], the loss is the mean of what training lessens; NaN: not taken.
struct Metrics {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double loss = kNone, f1_macro = kNone;
  double top1 = kNone, top5 = kNone;                          ///< of one class a sample; top1 of a text too
  double map = kNone, f1_micro = kNone, exact_match = kNone;  ///< of multi-label: see MultiLabelEvaluation
  /// Of forecasts, in the units of the series: see ForecastEvaluation.
  double mae = kNone, rmse = kNone, naive_mae = kNone, seasonal_naive_mae = kNone;
  /// Of a text, the model's and those of a Bigram of the same training part.
  double bits_per_character = kNone, bigram_bits_per_character = kNone;
  std::int64_t samples = 0;  ///< images, forecasts, or characters
  TaskKind task = TaskKind::classify;
};

/// A figure as files call it.
struct NamedMetric {
  const char* name;
  double Metrics::*value;
  bool lower_is_better = false;
};

/// A figure as an epoch's line shows it.
struct ShownMetric {
  const char* title;
  double Metrics::*value;
  bool percent = true;
};

/// How files and people call what a task has.
struct TaskNames {
  const char* task;                      ///< "classify": of the folder of the runs and of ONNX files
  const char* data;                      ///< what it learns from, "images of one class"
  const char* sample;                    ///< what Figures::samples counts, one of them
  const char *rate, *rate_title;         ///< "images_per_second" and "img/s"
  const char* train_metric;              ///< what training counts beside the loss: one of `figures`
  const char* monitor;                   ///< the figure that says which epoch is best, unless one is named
  std::span<const NamedMetric> metrics;  ///< in the order in which files have them
  std::array<ShownMetric, 2> shown;
};
const TaskNames& names_of(TaskKind task);

class Evaluation;
class MultiLabelEvaluation;
Metrics metrics_of(const Evaluation& evaluation);
Metrics metrics_of(const MultiLabelEvaluation& evaluation);  ///< at its thresholds

}  // namespace neurim
