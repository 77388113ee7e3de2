// Forecasts of a series: samples, evaluation of a forecaster, and the next values.
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

/// The columns of a series that a forecaster reads, and its samples.
struct ForecastData {
  Series series;        ///< the columns
  Windows windows;      ///< the samples
  std::int64_t target;  ///< the index of the column to forecast

  /// Copies samples of a split: the input steps (samples,window,columns) and the target's next values
  /// (samples,horizon), both in the units of the series.
  void copy(Split split, std::span<const std::int64_t> samples, std::vector<double>& steps,
            std::vector<double>& following) const;
  /// The mean |change| of the target from a step to the next in the training split, which scales errors for MASE.
  double naive_mae() const;
  /// Notes for users on the series and on a split that is evaluated, a line each.
  std::vector<std::string> notes(Split split) const;
};

/// The std by which the model scales a column, measured in training. The loss is in units of it.
double std_of(const Model& forecaster, std::int64_t column);

/// Evaluates a forecaster on a split, any number of times; later changes of its weights are seen.
class ForecastValidation {
 public:
  /// `season` as in SequenceConfig; `options` are resolved. The data outlive it.
  ForecastValidation(const Model& model, const ForecastData& data, Split split, std::int64_t season,
                     const TrainOptions& options);
  /// Nothing if `watch` ended it.
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

/// Throws what forecast throws before it computes.
void check_forecast(const Checkpoint& checkpoint, const Series& series);

/// The next values of the target after the end of a series of the checkpoint's columns: `horizon` of them, in
/// its units. Throws Error(usage) where the model is no forecaster, Error(data) where the series is shorter
/// than its window.
std::vector<double> forecast(const Checkpoint& checkpoint, const Series& series);

/// A note on precision that a forecaster's f32 input loses: a level that is large beside the changes is rounded. "" if
/// it loses little. Throws Error(data) if f32 cannot hold a column's scale at all.
std::string lost_in_f32(const Checkpoint& checkpoint);

}  // namespace neurim
