#include "neurim/train/validation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "neurim/base/error.h"
#include "neurim/core/device.h"
#include "neurim/train/step.h"

namespace neurim {

double accuracy_of(const Model& model, const Dataset& dataset, Split split, const Preprocess& preprocess,
                   const TrainOptions& options) {
  Validation validation(model, dataset, split, preprocess, options);
  if (dataset.regression()) return validation.run_regression()->r2();
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
                       const TrainOptions& options, DType compute_dtype, const Augment& augment, const Job& job)
    : dataset_(dataset),
      split_(split),
      preprocess_(preprocess),
      loader_(
          open_loader(options.loader, dataset, split, preprocess, augment, loader_of(options, job.rank(), job.size()))),
      plans_(dataset.regression() ? regression_validation_step(model, number_loss_of(options)) : validation_step(model),
             {.freeze = compute_dtype != DType::f32 || named_parameters(Model(model)).empty(),
              .deterministic = options.deterministic,
              .compute_dtype = compute_dtype,
              .device = device_named(options.device)}),
      job_(job),
      batches_(loader_->batches()) {}

std::optional<Evaluation> Validation::run(const Watch& watch, Predictions* predictions) {
  require(!dataset_.has_targets(), "validation: the samples have ",
          dataset_.regression() ? "numbers; use run_regression" : "any number of classes; use run_multi_label");
  Answer answer;
  if (predictions)
    answer = [&](std::int64_t sample, std::span<const float> logits, std::int64_t label) {
      predictions->add_logits(sample, dataset_.name(split_, sample), logits, label);
    };
  return evaluate<Evaluation>(watch, answer);
}

std::optional<MultiLabelEvaluation> Validation::run_multi_label(const Watch& watch, std::vector<NamedSample>* names) {
  require(dataset_.multi_label(), "validation: each sample has one class, or numbers; use run or run_regression");
  return evaluate<MultiLabelEvaluation>(watch, naming_into(names));
}

std::optional<RegressionEvaluation> Validation::run_regression(const Watch& watch, std::vector<NamedSample>* names) {
  require(dataset_.regression(), "validation: the samples have classes; use run or run_multi_label");
  return evaluate<RegressionEvaluation>(watch, naming_into(names));
}

Validation::Answer Validation::naming_into(std::vector<NamedSample>* names) const {
  if (!names) return {};
  return [this, names](std::int64_t sample, std::span<const float>, std::int64_t) {
    names->push_back({sample, dataset_.name(split_, sample)});
  };
}

template <class Evaluator>
std::optional<Evaluator> Validation::evaluate(const Watch& watch, const Answer& answer) {
  Evaluator evaluation(dataset_.class_names());
  std::vector<bool> seen(static_cast<std::size_t>(dataset_.size(split_)), false);
  loader_->start(0);
  Batch batch;
  for (std::int64_t done = 1; done <= batches_; ++done) {
    Answers answers;
    if (loader_->next(batch) && batch.size > 0)
      answers = answers_to(batch);  // a rank may have no sample of the last batch
    if (!job_.alone()) answers = gathered(answers);
    count(answers, evaluation, seen, answer);
    const bool go_on = !watch || watch(static_cast<double>(done) / static_cast<double>(batches_));
    if (!go_on && done < batches_) return {};
  }
  return evaluation;
}

Validation::Answers Validation::answers_to(const Batch& batch) {
  const Preprocess& p = preprocess_;
  const Plan& plan = plans_.plan_for(dataset_.has_targets() ? target_types(batch.size, p.channels, p.height, p.width,
                                                                           std::ssize(dataset_.class_names()))
                                                            : batch_types(batch.size, p.channels, p.height, p.width));
  run_batch(plan, batch);
  Answers answers{{batch.indices.begin(), batch.indices.end()},
                  {batch.labels.begin(), batch.labels.end()},
                  {batch.targets.begin(), batch.targets.end()}};
  const auto size = static_cast<std::size_t>(batch.size);
  answers.logits.resize(size * dataset_.class_names().size());
  answers.losses.resize(size);
  plan.outputs()[0].read(answers.logits.data());
  plan.outputs()[1].read(answers.losses.data());
  return answers;
}

Validation::Answers Validation::gathered(const Answers& own) const {
  const std::size_t classes = dataset_.class_names().size();
  std::string message;
  const auto put = [&](const auto& values) {
    message.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]);
  };
  for (const std::vector<std::int64_t>* part : {&own.indices, &own.labels}) put(*part);
  for (const std::vector<float>* part : {&own.targets, &own.logits, &own.losses}) put(*part);
  const std::size_t of_labels = dataset_.has_targets() ? classes * sizeof(float) : sizeof(std::int64_t);
  const std::size_t of_sample = sizeof(std::int64_t) + of_labels + (classes + 1) * sizeof(float);
  std::vector<Answers> ranks;
  std::size_t most = 0;
  for (const std::string& part : job_.group().all_gather(message)) {
    const std::size_t count = part.size() / of_sample;
    const char* at = part.data();
    const auto take = [&](auto& values, std::size_t size) {
      values.resize(size);
      std::copy_n(at, size * sizeof values[0], reinterpret_cast<char*>(values.data()));
      at += size * sizeof values[0];
    };
    Answers& rank = ranks.emplace_back();
    take(rank.indices, count);
    take(rank.labels, dataset_.has_targets() ? 0 : count);
    take(rank.targets, dataset_.has_targets() ? count * classes : 0);
    take(rank.logits, count * classes);
    take(rank.losses, count);
    most = std::max(most, count);
  }
  Answers all;
  for (std::size_t i = 0; i < most; ++i)
    for (const Answers& rank : ranks) {
      if (i >= rank.indices.size()) continue;
      const auto row = [&](const std::vector<float>& from, std::vector<float>& to) {
        if (!from.empty())
          to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(i * classes),
                    from.begin() + static_cast<std::ptrdiff_t>((i + 1) * classes));
      };
      all.indices.push_back(rank.indices[i]);
      if (!rank.labels.empty()) all.labels.push_back(rank.labels[i]);
      row(rank.targets, all.targets);
      row(rank.logits, all.logits);
      all.losses.push_back(rank.losses[i]);
    }
  return all;
}

template <class Evaluator>
void Validation::count(Answers& batch, Evaluator& evaluation, std::vector<bool>& seen, const Answer& answer) {
  const std::size_t classes = dataset_.class_names().size();
  // A sample that stands in for an undecodable one occurs twice and counts once.
  std::size_t kept = 0;
  double loss = 0;
  for (std::size_t i = 0; i < batch.indices.size(); ++i) {
    const auto index = static_cast<std::size_t>(batch.indices[i]);
    if (seen[index]) continue;
    seen[index] = true;
    const std::span<const float> row(batch.logits.data() + i * classes, classes);
    if (std::any_of(row.begin(), row.end(), [](float x) { return std::isnan(x); }))
      fail(Fault::failure, dataset_.name(split_, batch.indices[i]),
           ": the model gives NaN; it has probably diverged, try a lower learning rate");
    if (answer) answer(batch.indices[i], row, dataset_.has_targets() ? 0 : batch.labels[i]);
    std::copy_n(batch.logits.data() + i * classes, classes, batch.logits.data() + kept * classes);
    if (dataset_.has_targets())
      std::copy_n(batch.targets.data() + i * classes, classes, batch.targets.data() + kept * classes);
    else
      batch.labels[kept] = batch.labels[i];
    loss += batch.losses[i];
    ++kept;
  }
  if (kept == 0) return;
  const auto logits = std::span<const float>(batch.logits).first(kept * classes);
  if constexpr (std::is_same_v<Evaluator, Evaluation>)
    evaluation.add(logits, std::span(batch.labels).first(kept));
  else
    evaluation.add(logits, std::span(batch.targets).first(kept * classes));
  evaluation.add_loss(loss / static_cast<double>(kept), static_cast<std::int64_t>(kept));
}

}  // namespace neurim
