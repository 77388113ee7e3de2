// Models as the verbs name them.
#pragma once
#include "neurim/cli/command_line.h"
#include "neurim/train/checkpoint.h"
#include "neurim/train/console.h"

namespace neurim::cli {

/// A checkpoint where `name` is a file or a folder (see open_weights); else the known model of that name, or
/// the network of a model file for images of `imgsz`, with drawn weights and a card without class names.
/// Throws Error(usage) for neither. `seed` is that of the drawn weights, `arch` that of load_checkpoint.
Checkpoint open_model(const std::string& name, const std::string& arch, std::optional<InputSize> imgsz = {},
                      std::int64_t seed = 0);

inline constexpr const char* kArchOfWeights =
    "the model that a weights file is of which does not say it: a name of `neurim models`, or a model file";

inline constexpr const char*
    kSeedOfWeights = "of the weights that are drawn where the model is a known name or a model file";

/// Whether a word names a model: a known name, a model file, a weights file, a run folder, or a model folder.
bool names_model(const std::string& word);

/// The files that such a name may stand for: itself, and of a checkpoint all beside its weights, or in its run, that
/// models are read from.
std::vector<fs::path> files_of_model(const std::string& name, const Checkpoint& checkpoint);

/// What was chosen among several things in its files, a line each.
void say_notes(const Checkpoint& checkpoint, Console& console);

/// What people are told of a model that comes by its name alone.
std::string drawn_weights_note(const Checkpoint& checkpoint);

/// The probability below which an answer of the model is rejected, as the option `reject` says: none (0),
/// auto (the one that training found) or a number. Throws Error(usage) where the model has none.
double reject_threshold(const std::string& reject, const Checkpoint& checkpoint);

/// Throws Error(usage) where one of these options, which mean nothing to a model of this kind, was given.
void refuse_options(const CommandLine& line, const std::vector<std::string>& names, const Checkpoint& checkpoint);

/// Throws Error(usage) where the model is none of images, which `what` is for.
void refuse_sequence(const Checkpoint& checkpoint, std::string_view what);

/// (N,C,H,W) of a model's input.
Type image_type(const Preprocess& preprocess, std::int64_t batch);
/// (N,T,columns) of a forecaster's, (N,T) of a language model's.
Type sequence_type(const ModelConfig& config, std::int64_t batch);

}  // namespace neurim::cli
