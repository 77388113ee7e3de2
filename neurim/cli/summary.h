// What train, resume, demo and val print at the end.
#pragma once
#include <optional>

#include "neurim/base/json.h"
#include "neurim/cli/command_line.h"
#include "neurim/cli/interrupt.h"
#include "neurim/distributed/place.h"
#include "neurim/train/trainer.h"

namespace neurim::cli {

/// {"event":"summary","loss":...,"top1":...,"top5":...,"f1_macro":...,"samples":...,"run":...,"model":...}; other tasks
/// have their own metrics. Metrics that were not computed are null.
JsonObject summary_json(const Metrics& metrics, const fs::path& run, const fs::path& model);

/// "top1 96.19  top5 100.00  macro-F1 96.02  loss 0.1204", or the task's metrics; for series and texts also the error
/// relative to a simple model's.
std::string metrics_line(const Metrics& metrics);

/// Lets signals stop a training, and tells them and the launcher, if there is one, where its run can be resumed. The
/// first two arguments have to outlive it.
TrainControl control_of(const Interrupt& interrupt, Console& console, bool dry_run = false, const Job& job = {});

/// The part of this process in a training, as its launcher says: it meets the others. Where it has no threads of its
/// own, those of the machine are shared among its processes.
Job join_training(const Place& place);

/// Prints how a run ended. Returns the exit code.
int close_run(const TrainResult& result, const Interrupt& interrupt, Console& console);

/// The same for a dry run.
int close_dry_run(const TrainResult& result, const CommandLine& line, Console& console);

}  // namespace neurim::cli
