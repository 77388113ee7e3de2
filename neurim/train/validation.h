// Evaluates a classifier on a split of a data set.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "neurim/compile/plan.h"
#include "neurim/data/open_loader.h"
#include "neurim/evaluate/multi_label_csv.h"
#include "neurim/evaluate/predictions.h"
#include "neurim/evaluate/regression_evaluation.h"
#include "neurim/model/model.h"
#include "neurim/train/job.h"
#include "neurim/train/train_options.h"

namespace neurim {

/// Evaluates a model on a split, any number of times; later changes of its weights are seen. Samples that cannot be
/// decoded are left out. The same options give the same metrics, bit for bit.
class Validation {
 public:
  /// `options` are resolved. Images are changed by `augment` as in training, the same in every run. With a
  /// `compute_dtype` other than f32, later changes of the weights are not seen. The ranks of a job share the samples,
  /// and all of them get the evaluation of all.
  Validation(const Model& model, const Dataset& dataset, Split split, const Preprocess& preprocess,
             const TrainOptions& options, DType compute_dtype = DType::f32, const Augment& augment = {},
             const Job& job = {});

  /// Called after each batch with the share that is done; false ends the evaluation.
  using Watch = std::function<bool(double share)>;
  /// Nothing if `watch` ended it. The first is for one class a sample, the second for multi-label data, the third for
  /// numbers; the wrong one throws Error(usage). Adds each answer to `predictions`. Throws Error(failure) with the name
  /// of a sample for which the model gives NaN.
  std::optional<Evaluation> run(const Watch& watch = {}, Predictions* predictions = nullptr);
  /// The same of multi-label data; adds each sample to `names`.
  std::optional<MultiLabelEvaluation> run_multi_label(const Watch& watch = {},
                                                      std::vector<NamedSample>* names = nullptr);

  /// The same of numbers.
  std::optional<RegressionEvaluation> run_regression(const Watch& watch = {},
                                                     std::vector<NamedSample>* names = nullptr);

  /// Samples that could not be decoded.
  std::vector<BadSample> bad() const { return loader_->bad(); }

 private:
  using Answer = std::function<void(std::int64_t sample, std::span<const float> logits, std::int64_t label)>;
  Answer naming_into(std::vector<NamedSample>* names) const;
  template <class Evaluator>
  std::optional<Evaluator> evaluate(const Watch& watch, const Answer& answer);
  /// What the model says of a batch.
  struct Answers {
    std::vector<std::int64_t> indices, labels;   ///< as Batch
    std::vector<float> targets, logits, losses;  ///< (N,classes) as Batch, (N,classes), (N)
  };
  Answers answers_to(const Batch& batch);
  /// Those of all ranks, in the order of the samples.
  Answers gathered(const Answers& own) const;
  template <class Evaluator>
  void count(Answers& batch, Evaluator& evaluation, std::vector<bool>& seen, const Answer& answer);

  const Dataset dataset_;
  const Split split_;
  Preprocess preprocess_;
  std::unique_ptr<BatchSource> loader_;
  Compiled plans_;
  Job job_;
  std::int64_t batches_;  // of all ranks together
};

/// The share of right answers on the split, of a multi-label set the mean average precision, in [0, 1], or of numbers
/// R2.
double accuracy_of(const Model& model, const Dataset& dataset, Split split, const Preprocess& preprocess,
                   const TrainOptions& options);

/// Copies a batch to a plan's inputs and runs it.
void run_batch(const Plan& plan, const Batch& batch);

}  // namespace neurim
