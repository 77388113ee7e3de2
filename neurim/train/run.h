// A training run.
#pragma once
#include <memory>
#include <string>

#include "neurim/compile/plan.h"
#include "neurim/train/results_csv.h"
#include "neurim/train/scaling.h"
#include "neurim/train/stepping.h"
#include "neurim/train/tensorboard.h"
#include "neurim/train/trainer.h"
#include "neurim/train/training_task.h"

namespace neurim {

class Tuning;

/// metrics.jsonl: one line for each epoch, for programs that follow a run.
class MetricsFile {
 public:
  /// Keeps the lines of the first `epochs_done` epochs.
  MetricsFile(fs::path path, std::int64_t epochs_done);
  void append(const std::string& line);  ///< Throws Error(resource)

 private:
  fs::path path_;
  std::string content_;
};

/// A run before it writes anything: data, model and plans are there.
class OpenRun {
 public:
  /// `control` has a console.
  OpenRun(PreparedRun prepared, fs::path folder, const TrainControl& control, bool resumed);
  void describe();
  bool untouched() const { return progress_.step == 0; }  ///< no step is done
  TrainResult result() const;                             ///< the result so far

 protected:
  bool out_of_patience() const {
    return options_.patience > 0 && progress_.epoch - progress_.best_epoch >= options_.patience;
  }
  std::int64_t epochs() const { return *options_.epochs; }

  const TrainOptions options_;
  const TrainControl control_;
  Console& console_;
  const fs::path folder_;
  Model model_;
  const std::unique_ptr<TrainingTask> task_;
  const Schedule schedule_;
  std::unique_ptr<Optimizer> optimizer_;
  Tensor random_;
  Progress progress_;
  ModelConfig config_;
  const TaskInfo& goal_;
  const std::vector<std::string> notes_;
  const std::string facts_;
  const bool data_changed_;  // since the run was begun
};

/// A run from its first step to its last.
class Run : public OpenRun {
 public:
  /// `place`: the folder or, for a new run, place_of_new_run.
  Run(PreparedRun prepared, fs::path folder, fs::path place, const TrainControl& control, bool resumed);
  TrainResult go();  ///< Error(resource) says how to resume
  /// Whether the folder has a state to resume from.
  bool resumable() const { return !untouched() && place_ == folder_; }

 private:
  TrainResult train_epochs();
  void leave_operations() const;
  void report_scaling();
  RankTimes times() const;
  PlanOptions plan_options() const;
  /// Steps of the optimizer so far, those that moved nothing too.
  std::int64_t optimizer_steps() const;
  /// Whether the run is to end: where several processes train, once all know it.
  bool stopping() const { return control_.job.alone() ? asked_to_stop() : stops_; }
  bool asked_to_stop() const { return control_.stop && control_.stop->load() != 0; }
  fs::path weights() const { return place_ / "weights"; }
  bool train_epoch();
  bool train_batches();
  void begin_table();
  void estimate();
  void train_batch();
  void count(const std::vector<StepSums>& known);
  void end_steps();
  bool validate();
  void forget_validation();
  void finish_epoch();
  void illustrate(bool best);
  void introduce();
  void save();
  void write_state();
  void settle();
  void record();
  std::string begin_of_row() const;
  std::vector<std::string> rates() const;
  std::string row(const std::string& middle, const std::string& tail) const;
  std::string progress_row(std::string label, double share, std::string tail) const;
  std::string evaluation() const;

  double data_pct() const { return 100 * waited_ / std::max(progress_.seconds, 1e-9); }

  fs::path place_;                  // where files are written
  std::shared_ptr<Tuning> tuning_;  // null: none
  const std::unique_ptr<Stepping> stepping_;
  ResultsCsv results_;
  MetricsFile metrics_;
  TensorBoardWriter board_;
  double validation_seconds_ = 0;
  double first_step_seconds_ = 0;  // of this process's first epoch, with the time to make its plan
  std::int64_t timed_steps_ = 0;   // after that one
  bool estimated_ = false, table_begun_ = false;
  bool stops_ = false;  // what the ranks of a job have agreed on
  RankTimes times_;     // of this process's epochs
  RankMemory memory_;   // of its first one
  double waited_ = 0;   // for batches of the current epoch in this process, seconds
};

}  // namespace neurim
