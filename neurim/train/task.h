// What models are trained for: the names and metrics of each task, and how they are shown.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace neurim {

class Job;
struct ModelConfig;
struct PreparedRun;
struct TrainOptions;

/// What a model answers to an input.
enum class Answer : std::uint8_t {
  one_class,   ///< logits of the classes, of which one is right
  classes,     ///< logits of the classes, any of which may be there
  values,      ///< numbers
  characters,  ///< logits of the next character, after each of the input
};

/// A metric of a task.
struct TaskMetric {
  const char* name;              ///< in files
  bool lower_is_better = false;  ///< whether it falls as models improve
};

/// A metric as a column of an epoch's line.
struct ShownMetric {
  const char *title, *metric;  ///< of the column; its name
  bool percent = true;         ///< printed as a percentage
};

/// A metric in the line of results.
struct ResultMetric {
  const char *title, *metric;  ///< before the number; its name
  int decimals = 2;            ///< of a percentage or a number; -1: four significant digits
  bool percent = true;         ///< printed as a percentage
  /// Of a metric of something simpler: the model's own, which is said as a share of it; such metrics are left out where
  /// they are 0 or were not computed.
  const char* own = nullptr;
};

/// A curve over the epochs.
struct MetricCurve {
  const char *title, *metric;  ///< in the legend; its name; "": the train_metric in training
  bool marks_best = false;     ///< a mark at its best point
  std::int64_t classes = 0;    ///< drawn where there are more classes than that
};

/// What a task is. There is one object of each.
struct TaskInfo {
  const char* name;                   ///< "classify": in files, and of the folder of the runs
  const char* data;                   ///< what it learns from, "images of one class"
  const char* sample;                 ///< what Metrics::samples counts, in the singular
  const char *rate, *rate_title;      ///< "images_per_second" and "img/s"
  const char* train_metric;           ///< the metric besides the loss in training: one of `metrics`
  const char* monitor;                ///< the metric that decides which epoch is best, by default
  Answer answer;                      ///< of its models
  const char* output;                 ///< the name of that in exported files
  std::vector<TaskMetric> metrics;    ///< in the order of files, the loss first
  std::vector<ShownMetric> shown;     ///< in an epoch's line
  std::vector<ResultMetric> results;  ///< in the line of results
  const char* curves_title;           ///< of the panel of its metrics
  std::vector<MetricCurve> curves;    ///< in it
  bool percent = true;                ///< whether that is of shares
  const char* folder = name;          ///< of its runs, in "runs"
  /// Whether these options are for it; null: it is chosen by the classes of a data set of images.
  bool (*takes)(const TrainOptions& options) = nullptr;
  /// Then: reads its data and makes the model. `config`: of the run that goes on.
  PreparedRun (*prepare)(const TrainOptions& options, const std::optional<ModelConfig>& config,
                         const Job& job) = nullptr;

  /// The metric of that name; null: it has none.
  const TaskMetric* find(std::string_view metric) const;
  bool operator==(const TaskInfo& other) const { return this == &other; }
};

// The tasks.
const TaskInfo& classify_task();     ///< images of one class
const TaskInfo& multi_label_task();  ///< images of any number of classes
const TaskInfo& regress_task();      ///< images with numbers
const TaskInfo& forecast_task();     ///< the next values of a series
const TaskInfo& language_task();     ///< the next characters of a text

/// All of them.
const std::vector<const TaskInfo*>& tasks();
/// The one that takes these options; null: one of images.
const TaskInfo* task_that_takes(const TrainOptions& options);

}  // namespace neurim
