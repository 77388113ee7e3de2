// The metrics of an evaluation by their names, as console, files and pages show them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "neurim/base/json.h"
#include "neurim/evaluate/evaluation.h"
#include "neurim/evaluate/probabilities.h"

namespace neurim {

struct HeadlineMetric {
  std::string name, title;  ///< in files, and for people
  double value = 0;         ///< NaN: it is none
  std::optional<Interval> interval = {};
  bool percent = false;  ///< people read it as a percentage
};

/// Accuracies, F1 and log-loss with 95 % intervals (Wilson's, by bootstrap, normal), then kappa, Matthews' correlation,
/// Brier score, areas and the calibration error.
std::vector<HeadlineMetric> headline_metrics(const Evaluation& evaluation, const Probabilities& probabilities);

/// "91.20 % (90.40 to 91.95)", "0.2411", "none"
std::string shown(const HeadlineMetric& metric);

/// {"accuracy": {"value": 0.912, "low": 0.904, "high": 0.9195}, …}
JsonObject headline_json(const std::vector<HeadlineMetric>& metrics);

}  // namespace neurim
