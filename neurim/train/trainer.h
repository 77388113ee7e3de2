// Trains a model from data to a run folder.
#pragma once
#include <atomic>
#include <functional>

#include "neurim/train/checkpoint.h"
#include "neurim/train/console.h"
#include "neurim/train/job.h"
#include "neurim/train/train_options.h"

namespace neurim {

/// Observes and stops a run.
struct TrainControl {
  Console* console = nullptr;              ///< null: no output
  const std::atomic<int>* stop = nullptr;  ///< not 0: finish the step, save, and return
  /// Checks and prints everything before the first step; neither trains nor writes. The result describes the run.
  bool dry_run = false;
  /// Called with the run's folder whenever a state was saved from which it can be resumed.
  std::function<void(const fs::path& run)> saved = {};
  Job job = {};              ///< this process and those that train with it
  std::string devices = {};  ///< those of all ranks that are threads of this process, as args.yaml keeps them
};

/// What train() did.
struct TrainResult {
  fs::path run;                             ///< the folder
  fs::path model;                           ///< the best weights
  Metrics metrics;                          ///< of those, on the validation split; NaN without one
  std::int64_t best_epoch = 0, epochs = 0;  ///< 0: none yet
  bool stopped = false;                     ///< by TrainControl::stop, with the state saved: resume continues
  std::int64_t all_epochs = 0, steps = 0;   ///< of the run when it is done, and of each epoch
  std::string validation;                   ///< how the validation split was taken from training; "": it was not
};

/// Trains the model on the data that the options name. With several devices, "cuda:0,cuda:1", as so many ranks, one on
/// each of them: threads of this process, which share every batch.
TrainResult train(const TrainOptions& options, const TrainControl& control = {});

/// Trains the caller's model, from its present weights, on the caller's data set; on one device.
TrainResult train(Model model, const Dataset& dataset, const TrainOptions& options, const TrainControl& control = {});

/// Resumes a run from its last saved state: on the same machine and with the same number of threads, all weights come
/// out bit for bit as if it had not stopped. A finished run continues with more `epochs`; from here on its schedule is
/// that of a run of this length. `device`: where to continue, "": where it was.
TrainResult resume(const fs::path& run, std::optional<std::int64_t> epochs = {}, const TrainControl& control = {},
                   const std::string& device = {});

/// The same for a run of the caller's model and data set: give both as they were given to train. The weights are those
/// of the run. Throws Error(data) if the classes differ.
TrainResult resume(Model model, const Dataset& dataset, const fs::path& run, std::optional<std::int64_t> epochs = {},
                   const TrainControl& control = {}, const std::string& device = {});

}  // namespace neurim
