// Probabilities that are as sure as they are right.
#pragma once
#include "neurim/evaluate/evaluation.h"
#include "neurim/evaluate/predictions.h"

namespace neurim {

/// The temperature in [0.001, 1000] by which to divide logits so that the log-loss of these predictions is least (Guo
/// et al., "On Calibration of Modern Neural Networks", ICML 2017). The order of the classes by their probability stays.
/// Throws Error(usage) without samples.
double fitted_temperature(const Predictions& predictions);

/// What the predictions are where logits are divided by `temperature`.
Predictions tempered(const Predictions& predictions, double temperature);

/// The predictions as an evaluation, whose confidences are theirs; without a loss.
Evaluation evaluation_of(const Predictions& predictions);

}  // namespace neurim
