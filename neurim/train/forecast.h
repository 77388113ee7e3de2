// Forecasts of a series: its samples, how good a forecaster is on them, and what comes next.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "neurim/compile/plan.h"
#include "neurim/data/sequences/series.h"
#include "neurim/data/sequences/windows.h"
#include "neurim/evaluate/forecast_evaluation.h"
#include "neurim/train/training_task.h"

namespace neurim {

/// A series of the columns that a forecaster sees, and its samples.
struct ForecastData {
  Series series;
  Windows windows;
  std::int64_t target;  ///< the column to forecast

  /// Of some samples of a split: the steps that the model sees (samples,window,columns), and the values of
  /// the target that follow (samples,horizon), both in the units of the series.
  void copy(Split split, std::span<const std::int64_t> samples, std::vector<double>& steps,
            std::vector<double>& following) const;
  /// What a user should know of the series and of a split that is evaluated, a line each.
  std::vector<std::string> notes(Split split) const;
};

/// The std that the model scales one of its columns by: training measured it, and the loss is in units
/// of it.
double std_of(const Model& forecaster, std::int64_t column);

/// Runs a forecaster over a split as often as wanted; sees later changes of its weights.
class ForecastValidation {
 public:
  /// `season` as in SequenceConfig; `options` are resolved ones. The data outlive it.
  ForecastValidation(const Model& model, const ForecastData& data, Split split, std::int64_t season,
                     const TrainOptions& options);
  /// Nothing where `watch` ended it.
  std::optional<ForecastEvaluation> run(const TrainingTask::Watch& watch = {});

 private:
  void add(std::int64_t sample, std::span<const double> forecast, ForecastEvaluation& evaluation) const;

  const ForecastData& data_;
  Split split_;
  std::int64_t season_, batch_;
  Compiled plans_;
  std::vector<double> steps_, following_, forecasts_;
};

/// The loss is the mean squared error in units of `std`.
Metrics metrics_of(const ForecastEvaluation& evaluation, double std);

/// Throws what forecast throws before it computes anything.
void check_forecast(const Checkpoint& checkpoint, const Series& series);

/// The next values of the target after the end of a series of the checkpoint's columns: `horizon` of them, in
/// its units. Throws Error(usage) where the model is no forecaster, Error(data) where the series is shorter
/// than its window.
std::vector<double> forecast(const Checkpoint& checkpoint, const Series& series);

/// What is lost where a forecaster takes its series as f32, in one line: a level that is large beside the changes is
/// rounded. "" where that is nothing to speak of. Throws Error(data) where f32 cannot hold the scale of a column at
/// all.
std::string lost_in_f32(const Checkpoint& checkpoint);

}  // namespace neurim
