// Training from data to a run folder.
#pragma once
#include <atomic>
#include <functional>

#include "neurim/train/checkpoint.h"
#include "neurim/train/console.h"
#include "neurim/train/train_options.h"

namespace neurim {

/// Who watches a run and may stop it.
struct TrainControl {
  Console* console = nullptr;              ///< null: a silent one
  const std::atomic<int>* stop = nullptr;  ///< other than 0: finish the step, save, and return
  /// Checks and says all that comes before the first step, and neither trains nor writes: the result tells of
  /// the run that would be.
  bool dry_run = false;
  /// Called with the folder of the run each time that a state is saved there from which resume goes on.
  std::function<void(const fs::path& run)> saved = {};
};

struct TrainResult {
  fs::path run;     ///< the folder
  fs::path model;   ///< the best weights
  Metrics metrics;  ///< of those, on the validation split; NaN without one
  std::int64_t best_epoch = 0, epochs = 0;
  bool stopped = false;                    ///< by TrainControl::stop, with the state saved: resume goes on from there
  std::int64_t all_epochs = 0, steps = 0;  ///< of the run when it is done, and of each epoch
  std::string validation;                  ///< how the validation split was taken from training; "": it was not
};

/// Trains the model that the options name on the data that they name.
TrainResult train(const TrainOptions& options, const TrainControl& control = {});

/// Trains a model of the caller's on a data set of the caller's, from the weights that it has.
TrainResult train(Model model, const Dataset& dataset, const TrainOptions& options, const TrainControl& control = {});

/// Goes on with a run where its last saved state stands, as if it had never stopped: on the same machine and
/// with the same number of threads every weight comes out the same bit for bit. With more `epochs` a finished
/// run goes on; its schedule is then the one of a run of that length, from here on. `device`: where to go on,
/// "" for where it was.
TrainResult resume(const fs::path& run, std::optional<std::int64_t> epochs = {}, const TrainControl& control = {},
                   const std::string& device = {});

/// The same for a run of a model and a data set of the caller's: give both as they were given to train. The
/// model takes its weights from the run. Throws Error(data) where the classes are others.
TrainResult resume(Model model, const Dataset& dataset, const fs::path& run, std::optional<std::int64_t> epochs = {},
                   const TrainControl& control = {}, const std::string& device = {});

}  // namespace neurim
