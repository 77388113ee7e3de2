// How a model bears worse images.
#pragma once
#include <string>
#include <vector>

#include "neurim/train/validation.h"

namespace neurim {

/// The answers for images with a fault.
struct Corrupted {
  std::string kind;     ///< noise, blur, jpeg, rotation or darkness
  int severity = 0;     ///< 1 to 5
  std::string changed;  ///< what was done to each image, as an entry of augment=
  double accuracy = 0;
  Interval interval;  ///< wilson's
};

/// Evaluates the model with each fault at each severity (after Hendrycks and Dietterich, "Benchmarking Neural Network
/// Robustness to Common Corruptions", ICLR 2019), applied to the resized image. `options` are resolved ones.
std::vector<Corrupted> with_corruptions(const Model& model, const Dataset& dataset, Split split,
                                        const Preprocess& preprocess, const TrainOptions& options,
                                        const Validation::Watch& watch = {});

/// Columns corruption, severity, changed, accuracy, low and high.
std::string corruptions_csv(const std::vector<Corrupted>& corrupted);

}  // namespace neurim
