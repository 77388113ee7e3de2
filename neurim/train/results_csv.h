// results.csv: one row for each epoch, and its plots.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "neurim/base/file.h"
#include "neurim/evaluate/curves.h"
#include "neurim/train/metrics.h"

namespace neurim {

/// The results of an epoch. Metrics that were not computed are NaN, and empty in the file.
struct EpochResult {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  std::int64_t epoch = 0;             ///< from 1
  std::int64_t step = 0;              ///< optimizer steps up to its end
  double seconds = kNone;             ///< wall time of the epoch, validation included
  double samples_per_second = kNone;  ///< in training: images or sequences
  double data_pct = kNone;            ///< share of training time spent waiting for data, percent
  double learning_rate = kNone;       ///< at its last step
  double train_loss = kNone;          ///< the mean
  /// The training metric over its samples: top-1; exact matches at 0.5 of multi-label samples; the mean absolute error
  /// of forecasts.
  double train_metric = kNone;
  Metrics val;  ///< the task's metrics
};

/// The rows of the first `epochs_done` epochs; none if there is no file. Throws Error(data) if it is no results.csv
/// with the task's columns.
std::vector<EpochResult> read_results(const fs::path& path, std::int64_t epochs_done, const TaskInfo& task);

/// Writes the file, which always has whole rows: each append replaces it atomically.
class ResultsCsv {
 public:
  /// Keeps the rows of read_results (the epochs in the checkpoint; 0 starts anew) and drops later ones. Throws
  /// Error(resource) if it cannot be written.
  ResultsCsv(fs::path path, std::int64_t epochs_done, const TaskInfo& task = classify_task());

  /// Adds a row, of a later epoch than the last. Throws Error(resource); the file is then unchanged.
  void append(const EpochResult& result);

  const std::vector<EpochResult>& rows() const { return rows_; }

 private:
  void write() const;

  fs::path path_;
  const TaskInfo* task_;
  std::vector<EpochResult> rows_;
};

/// Plots of the loss, the task's metrics and the learning rate over the epochs. `classes`: of a classifier; with more
/// than five, top-5 accuracy is among the curves.
std::vector<Panel> results_panels(const std::vector<EpochResult>& rows, std::int64_t classes);

/// A PNG of them (results.png).
std::string results_image(const Heading& heading, const std::vector<EpochResult>& rows, std::int64_t classes);

}  // namespace neurim
