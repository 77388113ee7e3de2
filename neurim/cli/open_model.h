// Opens models by the names that verbs take.
#pragma once
#include <span>

#include "neurim/cli/command_line.h"
#include "neurim/train/checkpoint.h"
#include "neurim/train/console.h"

namespace neurim::cli {

/// Opens the checkpoint if `name` is a file or a folder (see open_weights); else creates the known model of that name,
/// or the network of a model file for images of `imgsz`, with random weights from `seed` and a model config without
/// class names. Throws Error(usage) for neither. `arch`: see load_checkpoint.
Checkpoint open_model(const std::string& name, const std::string& arch, std::optional<InputSize> imgsz = {},
                      std::int64_t seed = 0);

inline constexpr const char* kArchOfWeights =
    "the model that a weights file is of which does not say it: a name of `neurim models`, or a model file";

inline constexpr const char*
    kSeedOfWeights = "of the weights that are drawn where the model is a known name or a model file";

/// Whether the word names a model: a known name, a model file, a weights file, a run folder or a model folder.
bool names_model(const std::string& word);

/// All files that the name may refer to: itself and, for a checkpoint, every file next to its weights or in its run
/// that a model is read from.
std::vector<fs::path> files_of_model(const std::string& name, const Checkpoint& checkpoint);

/// The options of the model's training, with those of `names` that the command was given in their place; 32 samples a
/// batch where it had none.
TrainOptions options_of_training(const Checkpoint& checkpoint, std::span<const char* const> names,
                                 const CommandLine& line);

/// Options of training that say how images are read, for options_of_training.
inline constexpr const char* kOptionsOfReading[] = {"batch", "workers", "threads", "split_seed", "max_bad"};

/// What verbs are told of a classifier and its data.
struct ClassifierWords {
  std::string_view verb;               ///< for messages
  const std::string &model, &arch,     ///< see load_checkpoint
      &data;                           ///< takes the place of that of training; "": that
  Split split;                         ///< which must not be empty
  std::span<const char* const> names;  ///< see options_of_training
};
/// A classifier of images with its data.
struct TrainedClassifier {
  Checkpoint checkpoint;
  TrainOptions options;  ///< resolved ones of its training
  Dataset dataset;
};
/// Opens both. Throws Error(usage) for other models, Error(data) where the split is empty.
TrainedClassifier open_trained(const ClassifierWords& words, const CommandLine& line, Console& console);

/// Prints the choices that were made among several files, a line each.
void print_notes(const Checkpoint& checkpoint, Console& console);

/// The note that a model created by name has random weights.
std::string drawn_weights_note(const Checkpoint& checkpoint);

/// The probability below which an answer is rejected, from the option `reject`: none (0), auto (as training found) or a
/// number. Throws Error(usage) for auto if the model has none.
double reject_threshold(const std::string& reject, const Checkpoint& checkpoint);

/// Throws Error(usage) if one of these options, which have no meaning for this kind of model, was given.
void refuse_options(const CommandLine& line, const std::vector<std::string>& names, const Checkpoint& checkpoint);

/// Throws Error(usage) where the model gives numbers, and `what` is for models of classes.
void refuse_numbers(const Checkpoint& checkpoint, std::string_view what);
/// Throws Error(usage) for a model of sequences; `what` is for images only.
void refuse_sequence(const Checkpoint& checkpoint, std::string_view what);

}  // namespace neurim::cli
