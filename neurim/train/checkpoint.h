// Trained models on disk: weights with all that is needed to use them, and what a run needs to go on.
#pragma once
#include <optional>

#include "neurim/data/preprocess.h"
#include "neurim/model/model.h"
#include "neurim/model/state_dict.h"
#include "neurim/optim/optimizer.h"
#include "neurim/train/metrics.h"
#include "neurim/train/train_options.h"

namespace neurim {

/// What a model of series or texts is built of and fed with: one of recurrent_models.h.
struct SequenceConfig {
  std::int64_t window = 0;  ///< steps or characters that it sees
  std::int64_t hidden_size = 0, num_layers = 0;
  // Of a forecaster alone:
  std::vector<std::string> columns;  ///< of each step
  std::string target;                ///< which of them is forecast
  std::int64_t horizon = 0;          ///< values of it that are forecast
  std::int64_t season = 0;           ///< steps after which the series repeats itself roughly; 0: none is known
  /// The place of the target among the columns.
  std::int64_t target_column() const;
};

/// What a weights file says of itself in its metadata.
struct ModelConfig {
  std::string model;  ///< the name for create_model, of a recurrent model, or of a model file
  std::int64_t in_chans = 0;
  std::vector<std::string> class_names;  ///< of a model of texts: the characters, each as UTF-8
  Preprocess preprocess;                 ///< of images
  std::string options;                   ///< the run's, as YAML
  std::int64_t epoch = 0, step = 0;
  Metrics metrics;  ///< on the validation split
  /// Of a multi-label model: the probability of each class from which on a sample has it. Else empty.
  std::vector<double> thresholds;
  /// The probability below which an answer is better called unknown; NaN where none was fitted.
  double reject_threshold = Metrics::kNone;
  std::string source = {};                      ///< the text of the model file; "": the model is known by its name
  std::optional<SequenceConfig> sequence = {};  ///< of a model of series or texts
  bool multi_label() const { return !thresholds.empty(); }
  TaskKind task() const;
};

/// The model that a card tells of, its weights undrawn. Throws Error(data) naming the file where the model is not
/// known.
Model model_of(const ModelConfig& config, const fs::path& path);

Metadata metadata_of(const ModelConfig& config);
/// Throws Error(data) naming the file where it does not state what a model needs.
ModelConfig config_of(const Metadata& metadata, const fs::path& path);

/// How pixels were scaled for weights: see Preprocess.
struct PixelScaling {
  std::vector<double> mean, std;
};

/// Weights and what they say of themselves: plain ones nothing.
struct Weights {
  StateDict tensors;
  std::optional<ModelConfig> config = {};  ///< of a file of Neurim's
  std::optional<PixelScaling> scaling = {};
};
/// Opens a weights file (see read_state_dict), the best weights of a run folder, or a folder as timm and Hugging Face
/// publish models (model_folder.h), whatever model they are of. Throws Error(data) when there is none and when it is
/// damaged.
Weights open_weights(const fs::path& path);

struct Checkpoint {
  fs::path path;  ///< of the weights file
  ModelConfig config;
  Model model;
  std::vector<std::string> notes = {};  ///< what was chosen among several things in the files, a line each
};
/// Loads what open_weights opens. `arch`: the model, a known name or a model file, of weights that say nothing of it;
/// classes and channels are as many as they have. Throws Error(data) when nobody says which model it is, or when it is
/// not known, and Error(usage) where the weights are of another one than `arch`.
Checkpoint load_checkpoint(const fs::path& path, const std::string& arch = {});

/// Where a run stands: between two steps.
struct Progress {
  std::int64_t epoch = 0;                         ///< finished ones, validation included
  std::int64_t batch = 0;                         ///< steps done in the current one
  std::int64_t step = 0;                          ///< in all
  double loss_sum = 0, correct = 0, seconds = 0;  ///< of the current epoch; `correct` is the sum of its train_figure
  std::int64_t seen = 0;
  double best = Metrics::kNone;       ///< the monitored figure of the best epoch
  double best_loss = Metrics::kNone;  ///< and its validation loss
  std::int64_t best_epoch = 0;
};

/// The tensors of a run beside the model's.
struct TrainState {
  Optimizer* optimizer;
  Tensor random;  ///< the key state of random ops
  void parts(Parts& p) {
    optimizer->parts(p);
    p("random", random, Role::state);
  }
};

/// Writes weights/last.safetensors and weights/last.opt.safetensors. The pair stays loadable whenever the
/// process dies: the new pair is complete before a file of the old one is replaced. Throws Error(resource);
/// the old pair is then intact.
void save_state(const fs::path& weights, Model& model, const ModelConfig& config, TrainState state,
                const Progress& progress);
/// The card of weights/last.safetensors; nothing where there is none. Throws Error(data), which says what is left of
/// the run.
std::optional<ModelConfig> config_of_state(const fs::path& weights);
/// Fills model and state from the newest complete pair, and adds what there is to say of its files. Throws as
/// card_of_state.
Progress load_state(const fs::path& weights, Model& model, TrainState state, std::vector<std::string>& notes);

}  // namespace neurim
