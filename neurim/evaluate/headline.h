// The metrics of an evaluation by their names, as console, files and pages show them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "neurim/base/json.h"
#include "neurim/evaluate/evaluation.h"
#include "neurim/evaluate/forecast_evaluation.h"
#include "neurim/evaluate/multi_label.h"
#include "neurim/evaluate/probabilities.h"
#include "neurim/evaluate/regression_evaluation.h"

namespace neurim {

/// A metric as people read it.
struct HeadlineMetric {
  std::string name, title;                ///< in files, and for people
  double value = 0;                       ///< NaN: it is none
  std::optional<Interval> interval = {};  ///< of 95 %; none where it has none
  bool percent = false;                   ///< people read it as a percentage
};

/// Of one class a sample: accuracies, F1, log-loss, Brier score, calibration error, kappa, Matthews' correlation and
/// areas, each with its 95 % interval (Wilson's, by bootstrap, normal, or by derivatives).
std::vector<HeadlineMetric> headline_metrics(const Evaluation& evaluation, const Probabilities& probabilities,
                                             const ClassAreas& areas);
/// Of any number of classes a sample: mAP, F1, exact matches and the area under the ROC curve.
std::vector<HeadlineMetric> headline_metrics(const MultiLabelEvaluation& evaluation, const ClassAreas& areas);
/// Of numbers, in their units: over all targets, then of each one, where there are several, under its name.
std::vector<HeadlineMetric> headline_metrics(const RegressionEvaluation& evaluation);
/// Of forecasts, in the units of the series. `naive_mae` scales the error for MASE: the mean |change| of a step in the
/// training split (Hyndman & Koehler, 2006); 0 leaves MASE out.
/// Intervals are as if the errors did not depend on each other.
std::vector<HeadlineMetric> headline_metrics(const ForecastEvaluation& evaluation, double naive_mae);

/// Of the next characters of a text: `loss` of each in nats, the share that is right, and the bits of a Bigram.
std::vector<HeadlineMetric> headline_metrics(const SampleMean& loss, double right, double bigram_bits);

/// "91.20 % (90.40 to 91.95)", "0.2411", "none"
std::string shown(const HeadlineMetric& metric);

/// {"accuracy": {"value": 0.912, "low": 0.904, "high": 0.9195}, …}
JsonObject headline_json(const std::vector<HeadlineMetric>& metrics);

}  // namespace neurim
