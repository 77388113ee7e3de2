#include "neurim/train/validation.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "neurim/base/error.h"
#include "neurim/core/device.h"
#include "neurim/train/step.h"

namespace neurim {

double accuracy_of(const Model& model, const Dataset& dataset, Split split, const Preprocess& preprocess,
                   const TrainOptions& options) {
  Validation validation(model, dataset, split, preprocess, options);
  return dataset.multi_label() ? validation.run_multi_label()->mean_average_precision() : validation.run()->accuracy();
}

void run_batch(const Plan& plan, const Batch& batch) {
  const Tensors& in = plan.inputs();
  in[0].write(batch.images.data());
  if (batch.targets.empty())
    in[1].write(batch.labels.data());
  else
    in[1].write(batch.targets.data());
  plan.run(in, plan.outputs());
}

Validation::Validation(const Model& model, const Dataset& dataset, Split split, const Preprocess& preprocess,
                       const TrainOptions& options, DType compute_dtype, const Augment& augment)
    : dataset_(dataset),
      split_(split),
      preprocess_(preprocess),
      loader_(open_loader(options.loader, dataset, split, preprocess, augment, loader_of(options))),
      plans_(validation_step(model), {.freeze = compute_dtype != DType::f32 || named_parameters(Model(model)).empty(),
                                      .deterministic = options.deterministic,
                                      .compute_dtype = compute_dtype,
                                      .device = device_named(options.device)}) {}

std::optional<Evaluation> Validation::run(const Watch& watch, Predictions* predictions) {
  require(!dataset_.multi_label(), "validation: the samples have any number of classes; use run_multi_label");
  Answer answer;
  if (predictions)
    answer = [&](std::int64_t sample, std::span<const float> logits, std::int64_t label) {
      predictions->add_logits(sample, dataset_.name(split_, sample), logits, label);
    };
  return evaluate<Evaluation>(watch, answer);
}

std::optional<MultiLabelEvaluation> Validation::run_multi_label(const Watch& watch, std::vector<NamedSample>* names) {
  require(dataset_.multi_label(), "validation: each sample has one class; use run");
  Answer answer;
  if (names)
    answer = [&](std::int64_t sample, std::span<const float>, std::int64_t) {
      names->push_back({sample, dataset_.name(split_, sample)});
    };
  return evaluate<MultiLabelEvaluation>(watch, answer);
}

template <class Evaluator>
std::optional<Evaluator> Validation::evaluate(const Watch& watch, const Answer& answer) {
  Evaluator evaluation(dataset_.class_names());
  std::vector<bool> seen(static_cast<std::size_t>(dataset_.size(split_)), false);
  loader_->start(0);
  Batch batch;
  for (std::int64_t done = 1; loader_->next(batch); ++done) {
    const Preprocess& p = preprocess_;
    const Plan& plan = plans_.plan_for(
        dataset_.multi_label()
            ? multi_label_types(batch.size, p.channels, p.height, p.width, std::ssize(dataset_.class_names()))
            : batch_types(batch.size, p.channels, p.height, p.width));
    run_batch(plan, batch);
    count(batch, plan, evaluation, seen, answer);
    const bool go_on = !watch || watch(static_cast<double>(done) / static_cast<double>(loader_->batches()));
    if (!go_on && done < loader_->batches()) return {};
  }
  return evaluation;
}

template <class Evaluator>
void Validation::count(const Batch& batch, const Plan& plan, Evaluator& evaluation, std::vector<bool>& seen,
                       const Answer& answer) {
  const std::size_t classes = dataset_.class_names().size(), size = batch.size;
  logits_.resize(size * classes);
  losses_.resize(size);
  plan.outputs()[0].read(logits_.data());
  plan.outputs()[1].read(losses_.data());
  // A sample that stands in for an undecodable one occurs twice and counts once.
  std::size_t kept = 0;
  double loss = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const auto index = static_cast<std::size_t>(batch.indices[i]);
    if (seen[index]) continue;
    seen[index] = true;
    const std::span<const float> row(logits_.data() + i * classes, classes);
    if (std::any_of(row.begin(), row.end(), [](float x) { return std::isnan(x); }))
      fail(Fault::failure, dataset_.name(split_, batch.indices[i]),
           ": the model gives NaN; it has probably diverged, try a lower learning rate");
    if (answer) answer(batch.indices[i], row, dataset_.multi_label() ? 0 : batch.labels[i]);
    std::copy_n(logits_.data() + i * classes, classes, logits_.data() + kept * classes);
    if (dataset_.multi_label())
      std::copy_n(batch.targets.data() + i * classes, classes, batch.targets.data() + kept * classes);
    else
      batch.labels[kept] = batch.labels[i];
    loss += losses_[i];
    ++kept;
  }
  if (kept == 0) return;
  const auto logits = std::span(logits_).first(kept * classes);
  if constexpr (std::is_same_v<Evaluator, MultiLabelEvaluation>)
    evaluation.add(logits, batch.targets.first(kept * classes));
  else
    evaluation.add(logits, batch.labels.first(kept));
  evaluation.add_loss(loss / static_cast<double>(kept), static_cast<std::int64_t>(kept));
}

}  // namespace neurim
