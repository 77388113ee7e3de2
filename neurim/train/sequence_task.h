// Trains forecasters and language models.
#pragma once
#include <optional>

#include "neurim/train/job.h"
#include "neurim/train/training_task.h"

namespace neurim {

/// Reads the data that the options name, a series (.csv, .tsv, .jsonl) or a text (any other file), and builds
/// the recurrent model that they name for them. A run that goes on gives its model config: columns and characters are
/// then the ones it knows. Throws Error(usage) on options that do not fit, Error(data) on data that cannot be
/// learnt from.
PreparedRun prepare_sequence(const TrainOptions& options, const std::optional<ModelConfig>& config = {},
                             const Job& job = {});

}  // namespace neurim
