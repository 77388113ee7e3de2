// The interface between a task and the training loop.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "neurim/compile/plan.h"
#include "neurim/train/checkpoint.h"
#include "neurim/train/console.h"

namespace neurim {

/// A part of the samples of a batch: those at index, index + count, index + 2 count, …
struct Part {
  std::int64_t index = 0;  ///< which part
  std::int64_t count = 1;  ///< of how many
  /// How many of so many samples it has.
  std::int64_t size(std::int64_t samples) const { return (samples - index + count - 1) / count; }
};

/// A run's data, its training step, and its evaluation. The model is the run's; a task shares its tensors.
class TrainingTask {
 public:
  /// Called with the share of a validation that is done; false ends it.
  using Watch = std::function<bool(double share)>;

  virtual ~TrainingTask() = default;

  virtual ModelConfig config() const = 0;      ///< of the model, before evaluation and without options
  virtual std::string facts() const = 0;       ///< data.json: facts on the data, with a hash
  virtual std::string contents() const = 0;    ///< the same for people: "10 classes, 60 train / 20 val"
  virtual std::string input() const = 0;       ///< what the model sees: "1x28x28"
  virtual std::string validation() const = 0;  ///< how the validation split was taken from training; "": it was not
  virtual std::vector<std::string> notes() const = 0;  ///< notes for users on the data, a line each

  /// The function that a training plan records for a batch: it returns the mean loss, and the sum over the samples of
  /// the task's train_metric.
  virtual std::function<Tensors(Tensors)> step(Optimizer& optimizer) const = 0;

  // The batches of an epoch, a function of seed and epoch only.
  virtual std::int64_t batches() const = 0;                               ///< of an epoch
  virtual void start(std::uint32_t epoch, std::int64_t first_batch) = 0;  ///< begins an epoch at a batch
  virtual bool next() = 0;                      ///< loads the next batch; false at the end of the epoch
  virtual std::int64_t batch_size() const = 0;  ///< of the batch that is loaded; 0: all of it is other ranks'
  /// The inputs of the function that step() gives, for a batch of so many samples.
  virtual Types types(std::int64_t samples) const = 0;
  /// Runs step `step` of the run on a part of the loaded batch that has samples; the plan holds the results.
  virtual Plan run(Compiled& plans, std::int64_t step, const Part& part) = 0;

  virtual std::int64_t validation_samples() const = 0;  ///< 0 without a validation split
  /// Whether there is a validation split.
  bool has_validation() const { return validation_samples() > 0; }
  /// Evaluates the model on the validation split, if there is one. Sets metrics and thresholds in the model config.
  /// False if `watch` ended it.
  virtual bool validate(const Watch& watch, ModelConfig& config) = 0;
  virtual void report(const fs::path& folder) const = 0;  ///< writes the results of the last validation

  /// Draws images of the part of step `step` that was run last.
  virtual void draw(const fs::path&, std::int64_t /*step*/) const {}
  /// Prints new notes on the data. `waited`: percent of the epoch's `seconds` of training spent waiting for data.
  virtual void print_notes(Console&, double /*waited*/, double /*seconds*/) {}
};

/// A run's starting point.
struct PreparedRun {
  TrainOptions options;                 ///< resolved
  Model model;                          ///< with its first weights
  std::unique_ptr<TrainingTask> task;   ///< what it learns
  std::vector<std::string> notes = {};  ///< printed below the headline
};

}  // namespace neurim
