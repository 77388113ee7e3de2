// results.csv: one row per epoch, and the curves drawn from it.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "neurim/base/file.h"
#include "neurim/evaluate/curves.h"
#include "neurim/train/metrics.h"

namespace neurim {

/// What an epoch came to. NaN where a figure was not taken; its field in the file is then empty.
struct EpochResult {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  std::int64_t epoch = 0;             ///< from 1 on
  std::int64_t step = 0;              ///< optimizer steps taken by its end
  double seconds = kNone;             ///< wall time of the epoch, validation included
  double samples_per_second = kNone;  ///< in training: images or sequences
  double data_pct = kNone;            ///< of the time of training, what went by waiting for data, percent
  double learning_rate = kNone;       ///< at its last step
  double train_loss = kNone;          ///< the mean
  /// What training counts, over its samples: top-1, of multi-label samples the exact matches at 0.5, of forecasts the
  /// mean absolute error.
  double train_metric = kNone;
  Metrics val;  ///< those of the task
};

/// The rows of the first `epochs_done` epochs; none where there is no such file. Throws Error(data) when the
/// file is no results.csv of ours, with the columns of the task.
std::vector<EpochResult> read_results(const fs::path& path, std::int64_t epochs_done, TaskKind task);

/// The file, which always holds whole rows: each append replaces it in one move.
class ResultsCsv {
 public:
  /// Keeps the rows of read_results (epochs that the checkpoint contains; 0 starts afresh) and drops later
  /// ones. Throws Error(resource) when it cannot be written.
  ResultsCsv(fs::path path, std::int64_t epochs_done, TaskKind task = TaskKind::classify);

  /// Adds a row, with a later epoch than the last. Throws Error(resource); the file is then as before.
  void append(const EpochResult& result);

  const std::vector<EpochResult>& rows() const { return rows_; }

 private:
  void write() const;

  fs::path path_;
  TaskKind task_;
  std::vector<EpochResult> rows_;
};

/// The curves of the loss, of the task's figures and of the learning rate over the epochs. `classes`: of a classifier;
/// the accuracy of five answers is among the curves where there are more.
std::vector<Panel> results_panels(const std::vector<EpochResult>& rows, std::int64_t classes);

/// A PNG with them (results.png).
std::string results_image(const Heading& heading, const std::vector<EpochResult>& rows, std::int64_t classes);

}  // namespace neurim
