// What val and predict do with models of series and texts. Each gives the exit code of the process.
#pragma once
#include <functional>
#include <string>

#include "neurim/cli/command_line.h"
#include "neurim/train/checkpoint.h"
#include "neurim/train/console.h"
#include "neurim/train/language.h"

namespace neurim::cli {

/// Has `write` fill the folder of a report, and ends the command with the figures.
using SaveReport = std::function<void(const Metrics& metrics, const std::function<void(const fs::path&)>& write)>;

/// Ends a dry run of val that would evaluate by so many samples, and write a report or only say the figures.
using DryRunOfVal = std::function<int(std::int64_t samples, bool report)>;

/// Evaluates the model on a split of the data that the options name, and saves where there is more to tell than
/// figures; with `end_dry_run` it ends there before it evaluates.
int val_sequence(const Checkpoint& checkpoint, TrainOptions options, Split split, const DryRunOfVal& end_dry_run,
                 const SaveReport& save, Console& console);

/// Prints the values that follow after the end of the series in a file ("": the one that the model was
/// trained on) as CSV, ahead and the target, and writes them to `save_csv` unless that is "".
int predict_series(const Checkpoint& checkpoint, const std::string& source, const std::string& save_csv,
                   const CommandLine& line, Console& console);

/// Prints the prompt ("": usual_prompt) and what the model writes behind it.
int predict_text(const Checkpoint& checkpoint, std::string prompt, const GenerateOptions& options,
                 const CommandLine& line, Console& console);

}  // namespace neurim::cli
