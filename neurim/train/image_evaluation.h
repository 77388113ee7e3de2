// Everything that `neurim val` says of a classifier of one class an image.
#pragma once
#include <string>
#include <vector>

#include "neurim/train/checkpoint.h"
#include "neurim/train/evaluation_report.h"
#include "neurim/train/validation.h"

namespace neurim {

struct ImageEvaluationOptions {
  EvaluationSubject subject = {};  ///< of it the split is evaluated
  Preprocess preprocess = {};
  TrainOptions options = {};  ///< resolved ones
  DType compute_dtype = DType::f32;
  std::vector<Augment> views = {};  ///< of each image, of which probabilities are averaged: parse_views
  bool allow_subset = false;        ///< whether macro averages leave classes without samples out
  bool calibrate = false;           ///< whether predictions are those of fitted_temperature
  bool corruptions = false;         ///< whether with_corruptions is asked
  std::string slice_by = {};        ///< see slices_by; "": nothing
};

struct ImageEvaluation {
  Evaluation evaluation;
  Predictions predictions;
  ClassAreas areas;
  std::vector<HeadlineMetric> headline;
  EvaluationExtras extras;
  std::vector<BadSample> unreadable;
  double temperature;            ///< what the model's logits have to be divided by for these predictions
  std::string calibration_note;  ///< what calibration has changed; "" without
};

/// Evaluates a checkpoint on a split.
ImageEvaluation evaluate_images(const Checkpoint& checkpoint, const Dataset& dataset,
                                const ImageEvaluationOptions& options, const Validation::Watch& watch = {});

}  // namespace neurim
