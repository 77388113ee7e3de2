// Evaluates a model on several crops of each image.
#pragma once
#include "neurim/train/validation.h"

namespace neurim {

/// Throws Error(usage) for numbers of crops and preprocessing that validate_crops does not take.
void check_crops(std::int64_t crops, const Preprocess& preprocess);

/// Five-crop and ten-crop evaluation: the corners and the centre of each image, scaled as ResizeMode::crop
/// scales it, and with `crops` 10 the mirror image of each (torchvision's FiveCrop and TenCrop). The
/// prediction is the mean of the parts' probabilities (not of their logits), the loss its cross-entropy.
/// Holds classes floats a sample. `predictions` gets the answers; `preprocess` has ResizeMode::crop, `options` are
/// resolved ones, and `bad` gets what could not be decoded. Nothing when `watch` ended it. Throws what check_crops
/// throws.
std::optional<Evaluation> validate_crops(const Model& model, const Dataset& dataset, Split split,
                                         const Preprocess& preprocess, const TrainOptions& options, int crops,
                                         std::vector<BadSample>& bad, Predictions& predictions,
                                         const Validation::Watch& watch = {});

}  // namespace neurim
