// Prunes a trained classifier and trains it again.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "neurim/quantize/aware_training.h"
#include "neurim/quantize/prune.h"

namespace neurim {

/// How a classifier is pruned.
struct PruneModelOptions {
  PruneOptions channels = {};
  TrainOptions options = {};                ///< resolved ones of its training
  Split split = Split::val;                 ///< on which accuracy is measured
  std::optional<std::int64_t> epochs = {};  ///< of training afterwards; 0: none; unset: half of those of the training
  std::optional<double> lr = {};            ///< of these; unset: a hundredth of the training's
  fs::path run = {};                        ///< the folder of that training
};

/// What prune_model has made.
struct PrunedClassifier {
  bool stopped = false;          ///< by TrainControl::stop; the rest is then empty
  PrunedModel pruned;            ///< with the weights of the best epoch
  double before = 0, after = 0;  ///< top-1 or mAP, in [0, 1]
};

/// Measures the checkpoint, takes channels away, trains what is left, and measures again. `tell` gets a line on each
/// step, `control` is of the training. Throws as prune_channels.
PrunedClassifier prune_model(const Checkpoint& checkpoint, const Dataset& dataset, const PruneModelOptions& options,
                             const std::function<void(const std::string&)>& tell = {},
                             const TrainControl& control = {});

}  // namespace neurim
