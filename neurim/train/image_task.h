// Trains image classifiers.
#pragma once
#include <optional>
#include <set>

#include "neurim/data/augmentations/mix.h"
#include "neurim/evaluate/multi_label.h"
#include "neurim/train/training_task.h"
#include "neurim/train/validation.h"

namespace neurim {

/// Batches of augmented, optionally mixed images, with cross entropy, for multi-label data binary cross entropy, or for
/// numbers a loss of their errors.
class ImageTask final : public TrainingTask {
 public:
  /// `options` are resolved.
  ImageTask(Model model, const Dataset& dataset, const TrainOptions& options, const Job& job = {});

  ModelConfig config() const override;
  std::string facts() const override;
  std::string contents() const override;
  std::string input() const override;
  std::string validation() const override { return has_validation() ? dataset_.validation() : ""; }
  std::vector<std::string> notes() const override;
  std::function<Tensors(Tensors)> step(Optimizer& optimizer) const override;
  std::int64_t batches() const override { return loader_->batches(); }
  void start(std::uint32_t epoch, std::int64_t first_batch) override { loader_->start(epoch, first_batch); }
  bool next() override { return loader_->next(batch_); }
  std::int64_t batch_size() const override { return batch_.size; }
  Types types(std::int64_t samples) const override;
  Plan run(Compiled& plans, std::int64_t step, const Part& part) override;
  std::int64_t validation_samples() const override { return dataset_.size(Split::val); }
  bool validate(const Watch& watch, ModelConfig& config) override;
  void report(const fs::path& folder) const override;
  void draw(const fs::path& folder, std::int64_t step) const override;
  void print_notes(Console& console, double waited, double seconds) override;

 private:
  bool multi_label() const { return dataset_.multi_label(); }
  bool regression() const { return dataset_.regression(); }
  bool mixes() const { return options_.mixup > 0 || options_.cutmix > 0; }
  void take(const Part& part);
  void mix(const Plan& plan, std::int64_t step);
  void check_bad() const;
  void add_class_notes(std::vector<std::string>& notes) const;

  const Model model_;
  const Dataset dataset_;
  const TrainOptions options_;
  const Preprocess preprocess_;
  const InputSize train_size_;
  std::unique_ptr<BatchSource> loader_;
  std::optional<Validation> validation_;
  Batch batch_, part_;  // part_: what is run of it
  struct {
    std::vector<float> images, targets;
    std::vector<std::int64_t> labels, indices;
  } of_part_;  // the memory of a part that is not the whole batch

  std::vector<int> partners_;  // for mixing
  std::vector<std::int64_t> partner_labels_;
  double lambda_ = 1;
  MixBuffers mix_buffers_;

  std::optional<Evaluation> evaluation_;  // of the last validation; the next ones for multi-label data and numbers
  std::optional<MultiLabelEvaluation> multi_label_evaluation_;
  std::optional<RegressionEvaluation> regression_evaluation_;
  bool hinted_ = false, turned_told_ = false;
  std::set<std::int64_t> train_bad_told_, val_bad_told_;
};

/// Sets the scale of the model's outputs to that of the numbers in training. Throws Error(data) where a target does not
/// vary, or less than f32 can tell.
void scale_targets(Model& model, const Dataset& dataset);

/// Checks that the model fits the data's classes, scales numbers by those of training unless the model has a scale,
/// resolves the options, and opens loaders. Throws Error(usage).
PreparedRun prepare_images(Model model, const Dataset& dataset, const TrainOptions& options, const Job& job = {});

}  // namespace neurim
