// val and predict for models of series and texts. Each returns the exit code.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "neurim/cli/command_line.h"
#include "neurim/train/checkpoint.h"
#include "neurim/train/console.h"
#include "neurim/train/language.h"

namespace neurim::cli {

/// Prints and saves the metrics; `write` puts more into the report's folder, if there is more.
using SaveReport = std::function<void(const Metrics& metrics, const std::vector<HeadlineMetric>& headline,
                                      const std::function<void(const fs::path&)>& write)>;

/// Ends a dry run of val that would evaluate so many samples.
using DryRunOfVal = std::function<int(std::int64_t samples)>;

/// Evaluates the model on a split of the data in `options`, and saves a report. With `end_dry_run` it ends before
/// evaluating.
int val_sequence(const Checkpoint& checkpoint, TrainOptions options, Split split, const DryRunOfVal& end_dry_run,
                 const SaveReport& save, Console& console);

/// Prints the values that follow the end of the series in a file ("": the training data) as CSV with columns ahead and
/// target, and writes them to `save_csv` unless it is "".
int predict_series(const Checkpoint& checkpoint, const std::string& source, const std::string& save_csv,
                   const CommandLine& line, Console& console);

/// Prints the prompt ("": usual_prompt) and the text that the model generates after it.
int predict_text(const Checkpoint& checkpoint, std::string prompt, const GenerateOptions& options,
                 const CommandLine& line, Console& console);

}  // namespace neurim::cli
