// The last line that train, resume, val and demo print.
#pragma once
#include <optional>

#include "neurim/cli/interrupt.h"
#include "neurim/train/trainer.h"

namespace neurim::cli {

/// {"event":"summary","top1":…,"top5":…,"loss":…,"f1_macro":…,"run":…,"model":…}; figures that were not taken
/// are null.
std::string summary_json(const Figures& figures, const fs::path& run, const fs::path& model);

/// The path as a shell takes it.
std::string shell_word(const std::string& path);

/// Says how a run ended and gives the exit code of the process.
int close_run(const TrainResult& result, const Interrupt& interrupt, Console& console);

}  // namespace neurim::cli
