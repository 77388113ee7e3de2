// Trains forecasters and language models.
#pragma once
#include <optional>

#include "neurim/train/job.h"
#include "neurim/train/training_task.h"

namespace neurim {

/// Whether the options name a recurrent model and a series (.csv, .tsv, .jsonl), or one and anything else.
bool is_forecast(const TrainOptions& options);
bool is_language(const TrainOptions& options);

/// Reads the series or the text that the options name, and builds the recurrent model that they name for it. A run that
/// goes on gives its model config: columns and characters are then the ones it knows. Throws Error(usage) on options
/// that do not fit, Error(data) on data that cannot be learnt from.
PreparedRun prepare_forecast(const TrainOptions& options, const std::optional<ModelConfig>& config, const Job& job);
PreparedRun prepare_language(const TrainOptions& options, const std::optional<ModelConfig>& config, const Job& job);

}  // namespace neurim
