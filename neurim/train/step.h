// The functions on tensors that training and validation plan.
#pragma once
#include <cstdint>
#include <functional>

#include "neurim/graph/op.h"
#include "neurim/model/model.h"
#include "neurim/ops/cross_entropy.h"
#include "neurim/optim/optimizer.h"

namespace neurim {

/// images f32(N,C,H,W), labels i64(N) -> the mean loss and the number of correct predictions, both f32
/// scalars. Of a multi-label model the labels are targets f32(N,classes) in [0, 1], the loss is the binary
/// cross entropy, smoothing moves targets towards a half, class_weights count the samples that have the
/// class, and a prediction is correct where each class is on the right side of a half. Where images are
/// mixed (MixUp, CutMix) two inputs more: the labels of the partners i64(N) and the share of the own image,
/// lambda, a f32 scalar; the loss is lambda of the own label's and the rest of the partner's. Records the
/// gradients and one step of the optimizer; for plans with PlanOptions::training. The optimizer outlives the
/// result. class_weights f32(classes) where given.
std::function<Tensors(Tensors)> training_step(const Model& model, Optimizer& optimizer, const CrossEntropyOptions& loss,
                                              const Tensor& class_weights = {});

/// images f32(N,C,H,W), labels as above -> logits (N,classes) and the loss of each sample (N), which of a
/// multi-label model is the mean over the classes.
std::function<Tensors(Tensors)> validation_step(const Model& model);

/// The loss of regression, of errors in stds of the targets: their squares, their absolute values, or Huber's, which is
/// quadratic up to 1 and linear beyond (Huber, "Robust estimation of a location parameter", 1964).
enum class NumberLoss : std::uint8_t { mse, l1, huber };

/// Of a model of numbers: images f32(N,C,H,W), targets f32(N,targets) in the units of the data -> the mean loss, and
/// the sum over the samples of the mean |error| of their targets, in these units. Records what training_step records.
std::function<Tensors(Tensors)> regression_training_step(const Model& model, Optimizer& optimizer, NumberLoss loss);

/// The same inputs -> the numbers (N,targets) and the loss of each sample (N).
std::function<Tensors(Tensors)> regression_validation_step(const Model& model, NumberLoss loss);

/// Of a forecaster: x f64(N,T,columns), the values to come f64(N,horizon) -> the mean of the squared errors,
/// each over `std`, as f32, and the sum over the samples of their mean absolute errors. Records what
/// training_step records.
std::function<Tensors(Tensors)> forecast_training_step(const Model& model, Optimizer& optimizer, double std);

/// Of a language model: characters i64(N,T), those after each of them i64(N,T) -> the mean cross entropy, and
/// the sum over the samples of the shares of characters that were named rightly. Records what training_step
/// records.
std::function<Tensors(Tensors)> language_training_step(const Model& model, Optimizer& optimizer);

/// The same inputs -> the cross entropy of each character (N*T), and the number of those that were named rightly.
std::function<Tensors(Tensors)> language_validation_step(const Model& model);

/// The input types of training_step and validation_step; `mixed`: those of training on mixed images, which
/// multi-label targets do not need.
Types batch_types(std::int64_t batch, std::int64_t channels, std::int64_t height, std::int64_t width,
                  bool mixed = false);
/// The same of multi-label data and of regression: `targets` of a sample.
Types target_types(std::int64_t batch, std::int64_t channels, std::int64_t height, std::int64_t width,
                   std::int64_t targets);

}  // namespace neurim
