// Answers for training samples by models that were not trained on them.
#pragma once
#include <cstdint>

#include "neurim/evaluate/predictions.h"
#include "neurim/train/trainer.h"

namespace neurim {

/// Cuts the training split into `folds` parts; trains a model on all parts but one, for each, in runs fold0, fold1, …
/// of options.project, and lets it answer the samples of that one. `options` are as those of train; of them folds,
/// fold, name and plots are set here. Throws what train throws, Error(usage) for multi-label data and fewer than two
/// folds. Stops early where the control says so: the predictions are then those of the folds that are done.
Predictions cross_validated(const TrainOptions& options, std::int64_t folds, const TrainControl& control);

}  // namespace neurim
