// Everything that `neurim val` says of a model of images.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "neurim/train/evaluation_report.h"
#include "neurim/train/validation.h"

namespace neurim {

struct ImageEvaluationOptions {
  EvaluationSubject subject = {};  ///< of it the split is evaluated
  Preprocess preprocess = {};
  TrainOptions options = {};  ///< resolved ones
  DType compute_dtype = DType::f32;
  std::vector<double> thresholds = {};  ///< of the classes of a multi-label model; else, and by default, none
  std::optional<double> reject = {};    ///< the probability below which answers are rejected for ImageEvaluation::kept
  std::vector<Augment> views = {};      ///< of each image, of which probabilities are averaged: parse_views
  bool allow_subset = false;            ///< whether macro averages leave classes without samples out
  bool calibrate = false;               ///< whether predictions are those of fitted_temperature
  bool corruptions = false;             ///< whether with_corruptions is asked
  std::string slice_by = {};            ///< see slices_by; "": nothing
};

struct ImageEvaluation {
  Metrics metrics;
  std::vector<HeadlineMetric> headline;
  std::string table;  ///< the classes as rows for a terminal; "" of regression
  std::vector<BadSample> unreadable;
  /// Writes the files of the report into a folder: see write_evaluation.
  std::function<void(const fs::path&)> write;

  // Of one class an image:
  EvaluationExtras extras = {};
  std::optional<Kept> kept = {};      ///< where reject was given
  double temperature = 1;             ///< what logits have to be divided by once more for these predictions
  double reject_threshold = 0;        ///< what keeps reject_keep of these answers
  std::string calibration_note = {};  ///< what calibration has changed; "" without
};

/// Evaluates a model on a split, by the task of the data. Nothing if `watch` ended it.
std::optional<ImageEvaluation> evaluate_images(const Model& model, const Dataset& dataset,
                                               const ImageEvaluationOptions& options,
                                               const Validation::Watch& watch = {});

}  // namespace neurim
