// What train, resume and demo share from the first step to the last line, which val prints too.
#pragma once
#include <optional>

#include "neurim/base/json.h"
#include "neurim/cli/command_line.h"
#include "neurim/cli/interrupt.h"
#include "neurim/train/trainer.h"

namespace neurim::cli {

/// {"event":"summary","loss":…,"top1":…,"top5":…,"f1_macro":…,"samples":…,"run":…,"model":…}, of other
/// tasks with their figures instead; figures that were not taken are null.
JsonObject summary_json(const Metrics& metrics, const fs::path& run, const fs::path& model);

/// "top1 96.19  top5 100.00  macro-F1 96.02  loss 0.1204", and what other tasks have: of a series and a text also
/// how much of the error of a simple model is left.
std::string metrics_line(const Metrics& metrics);

/// The path as a shell takes it.
std::string shell_word(const std::string& path);

/// A training that the signals stop, and that tells them where a run is to go on with. Both have to outlive it.
TrainControl control_of(const Interrupt& interrupt, Console& console, bool dry_run = false);

/// Says how a run ended and gives the exit code of the process.
int close_run(const TrainResult& result, const Interrupt& interrupt, Console& console);

/// The same of a run that was only described.
int close_dry_run(const TrainResult& result, const CommandLine& line, Console& console);

}  // namespace neurim::cli
