// Evaluates a model on several views of each image.
#pragma once
#include "neurim/data/views.h"
#include "neurim/train/validation.h"

namespace neurim {

/// The prediction for an image is the mean of the probabilities of its views (not of their logits), the loss its
/// cross-entropy. `predictions` gets the answers, `bad` what could not be decoded; `options` are resolved ones. Nothing
/// when `watch` ended it.
std::optional<Evaluation> validate_views(const Model& model, const Dataset& dataset, Split split,
                                         const Preprocess& preprocess, const TrainOptions& options,
                                         const std::vector<Augment>& views, std::vector<BadSample>& bad,
                                         Predictions& predictions, const Validation::Watch& watch = {});

}  // namespace neurim
