// Runs side by side.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "neurim/base/file.h"

namespace neurim {

/// What a run folder says of itself.
/// By which epochs are compared.
struct Monitor {
  std::string metric;            ///< as an epoch's event names it
  bool lower_is_better = false;  ///< whether it falls as models improve
};
/// The run's option `monitor`, or what it stands for in a run of such epochs; the loss of training where they lack it.
Monitor monitor_of(const std::map<std::string, std::string>& options, const std::map<std::string, double>& epoch);

struct RunSummary {
  fs::path folder;
  std::map<std::string, std::string> options;         ///< args.yaml
  std::vector<std::map<std::string, double>> epochs;  ///< metrics.jsonl: the numbers of each epoch
  std::string data;                                   ///< data.json
  /// The epoch with the best value of the run's metric, which `monitor` names; none before the first.
  std::optional<std::size_t> best;
  std::string monitor;
  std::string option(const std::string& name) const;            ///< "" where there is none
  std::optional<double> metric(const std::string& name) const;  ///< of the best epoch
};

/// args.yaml of a run folder; none where there is no such file.
std::map<std::string, std::string> options_of_run(const fs::path& run);

/// Reads a run folder. Throws Error(data) with the file's name where it holds none or it is damaged.
RunSummary read_run(const fs::path& folder);

/// The run folders in `folder` and below, sorted by path.
std::vector<fs::path> runs_below(const fs::path& folder);

/// What differs between two runs.
struct RunDifference {
  struct Row {
    std::string name, a, b;
  };
  std::vector<Row> options;  ///< those that differ
  std::vector<Row> metrics;  ///< of the best epochs, all that one of them has
  bool same_data = true;     ///< samples, classes and contents of all splits
  /// Of the samples that both evaluated (predictions.csv of a report): how many only the first and only the second has
  /// right, and the p-value of McNemar's test; samples 0: there are none.
  std::int64_t samples = 0, only_a = 0, only_b = 0;
  double p_value = 1;
};

RunDifference difference(const RunSummary& a, const RunSummary& b);

}  // namespace neurim
