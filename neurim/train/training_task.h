// What a run learns, as the one training loop asks for it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "neurim/compile/plan.h"
#include "neurim/train/checkpoint.h"
#include "neurim/train/console.h"

namespace neurim {

/// The data of a run, the step over a batch of them, and the evaluation of what was learnt. The model is the
/// run's, whose tensors a task shares.
class TrainingTask {
 public:
  /// Called with the share of a validation that is done; false ends it.
  using Watch = std::function<bool(double share)>;

  virtual ~TrainingTask() = default;

  virtual ModelConfig config() const = 0;      ///< of the model, before it is evaluated and without options
  virtual std::string facts() const = 0;       ///< data.json: what the data are, with a digest
  virtual std::string contents() const = 0;    ///< the same for people: "10 classes, 60 train / 20 val"
  virtual std::string input() const = 0;       ///< what the model sees: "1x28x28"
  virtual std::string validation() const = 0;  ///< how the validation split was taken from training; "": it was not
  virtual std::vector<std::string> notes() const = 0;  ///< what a user should know of the data, a line each

  /// What a training plan records over a batch: gives the mean loss, and the sum over the samples of the
  /// task's train_figure.
  virtual std::function<Tensors(Tensors)> step(Optimizer& optimizer) const = 0;

  // The batches of an epoch, which are a function of seed and epoch alone.
  virtual std::int64_t batches() const = 0;
  virtual void start(std::uint32_t epoch, std::int64_t first_batch) = 0;
  virtual bool next() = 0;                      ///< makes the next one ready; false at the end of the epoch
  virtual std::int64_t batch_size() const = 0;  ///< of the one that is ready
  /// Runs step number `step` of the run over it; the plan holds the results.
  virtual const Plan& run(Compiled& plans, std::int64_t step) = 0;

  virtual std::int64_t validation_samples() const = 0;  ///< 0: there is no validation split
  bool has_validation() const { return validation_samples() > 0; }
  /// Evaluates the model on the validation split, if there is one: figures and thresholds go into the card.
  /// False where `watch` ended it.
  virtual bool validate(const Watch& watch, ModelConfig& config) = 0;
  virtual void report(const fs::path& folder) const = 0;  ///< writes what the last validation found

  /// Images of what step number `step`, which was just run, saw, for people.
  virtual void draw(const fs::path&, std::int64_t /*step*/) const {}
  /// Says what turned out of the data since it was called last. `waited`: percent of the epoch's `seconds` of
  /// training that went by waiting for them.
  virtual void tell(Console&, double /*waited*/, double /*seconds*/) {}
};

/// What a run begins with.
struct PreparedRun {
  TrainOptions options;  ///< resolved ones
  Model model;
  std::unique_ptr<TrainingTask> task;
  std::vector<std::string> notes = {};  ///< to be said below the headline
};

}  // namespace neurim
