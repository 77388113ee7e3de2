// Trained models on disk: weights with all that their use needs, and the state that resuming a run needs.
#pragma once
#include <optional>

#include "neurim/data/preprocess.h"
#include "neurim/function/image_layout.h"
#include "neurim/model/model.h"
#include "neurim/optim/optimizer.h"
#include "neurim/train/metrics.h"
#include "neurim/train/train_options.h"
#include "neurim/weights/state_dict.h"

namespace neurim {

/// The input and architecture of a model of series or texts: one of recurrent_models.h.
struct SequenceConfig {
  std::int64_t window = 0;                       ///< steps or characters of the input
  std::int64_t hidden_size = 0, num_layers = 0;  ///< units of a layer, and layers
  // Of a forecaster alone:
  std::vector<std::string> columns;  ///< of each step
  std::string target;                ///< which of them is forecast
  std::int64_t horizon = 0;          ///< values of the target that are forecast
  std::int64_t season = 0;           ///< steps after which the series roughly repeats itself; 0: unknown
  /// The index of the target in `columns`.
  std::int64_t target_column() const;
};

/// The metadata of a weights file.
struct ModelConfig {
  std::string model;          ///< a name for create_model, of a recurrent model, or of a model file
  std::int64_t in_chans = 0;  ///< channels of the input
  /// For a language model the characters, each as UTF-8; of regression what the numbers are called.
  std::vector<std::string> class_names;
  Preprocess preprocess;             ///< of images
  std::string options;               ///< the run's, as YAML
  std::int64_t epoch = 0, step = 0;  ///< finished ones
  Metrics metrics;                   ///< on the validation split
  /// The probability threshold of each class of a multi-label model; else empty.
  std::vector<double> thresholds;
  TargetScale targets = {};  ///< regression: of the targets that class_names name; else empty
  /// The probability below which an answer counts as unknown; NaN if none was fitted.
  double reject_threshold = Metrics::kNone;
  double temperature = 1;                       ///< of the logits: see Model::temperature
  std::string source = {};                      ///< the text of the model file; "": the model is known by its name
  std::optional<SequenceConfig> sequence = {};  ///< of a model of series or texts
  /// Whether images may have several classes.
  bool multi_label() const { return !thresholds.empty(); }
  /// Whether images have numbers.
  bool regression() const { return !targets.empty(); }
  const TaskInfo& task() const;  ///< what it is trained for
};

/// How data are opened for a model: with these options, its classes or the numbers that it gives.
DatasetOptions dataset_of(const TrainOptions& options, const ModelConfig& config);

/// The input f32(batch,channels,height,width) of a model of images.
Type image_type(const Preprocess& preprocess, Dim batch);
/// The input of a model: of images image_type; f32(batch,steps,columns) of a forecaster, i64(batch,steps) of a language
/// model, by default as many steps as in training.
Type input_type(const ModelConfig& config, Dim batch, std::optional<Dim> steps = {});

/// Creates the model of a config, with uninitialized weights. Throws Error(data) with the file's name if the model is
/// not known.
Model model_of(const ModelConfig& config, const fs::path& path);

Metadata metadata_of(const ModelConfig& config);  ///< as a weights file holds it
/// Throws Error(data) with the file's name if the metadata lack what a model needs.
ModelConfig config_of(const Metadata& metadata, const fs::path& path);

/// How pixels were scaled in training: see Preprocess.
struct PixelScaling {
  std::vector<double> mean, std;  ///< of each channel
};

/// Weights and their metadata; plain weights have none.
struct Weights {
  StateDict tensors;                         ///< the weights
  std::optional<ModelConfig> config = {};    ///< if Neurim wrote the file
  std::optional<PixelScaling> scaling = {};  ///< how pixels were scaled, if it says so
};
/// Opens a weights file (see read_state_dict), the best weights of a run folder, or a folder as published by timm and
/// Hugging Face (model_folder.h), for any model. Throws Error(data) if there is none or it is damaged.
Weights open_weights(const fs::path& path);

/// A trained model.
struct Checkpoint {
  fs::path path;                            ///< of the weights file
  ModelConfig config;                       ///< its metadata
  Model model;                              ///< with its weights
  std::vector<std::string> notes = {};      ///< choices made among several files, a line each
  InputLayout layout = InputLayout::model;  ///< of the images that the file's function takes; the model's are (N,C,H,W)
  bool of_function = false;                 ///< the file is one of a function
};
/// Loads what open_weights opens. `arch`: the model, a known name or a model file, for weights without metadata;
/// classes and channels follow from the weights. Throws Error(data) if the model is not given or not known, and
/// Error(usage) if the weights are of another model than `arch`.
Checkpoint load_checkpoint(const fs::path& path, const std::string& arch = {});

/// Writes the file of a checkpoint of one's own again with another temperature and, where it has one, another reject
/// threshold, which is one of probabilities; all else stays. Throws Error(usage) where it is no file of weights that
/// Neurim wrote, Error(resource).
void save_temperature(const Checkpoint& checkpoint, double temperature, double reject_threshold);
/// Throws what save_temperature would throw.
void check_keeps_temperature(const Checkpoint& checkpoint);

/// The position of a run, between two steps.
struct Progress {
  std::int64_t epoch = 0;                         ///< finished epochs, validation included
  std::int64_t batch = 0;                         ///< steps done in the current epoch
  std::int64_t step = 0;                          ///< in total
  double loss_sum = 0, correct = 0, seconds = 0;  ///< of the current epoch; `correct` is the sum of its train_metric
  std::int64_t seen = 0;                          ///< samples of the current epoch
  double best = Metrics::kNone;                   ///< the monitored metric of the best epoch
  double best_loss = Metrics::kNone;              ///< and its validation loss
  std::int64_t best_epoch = 0;                    ///< with the best metric
};

/// The tensors of a run besides the model's.
struct TrainState {
  Optimizer* optimizer;  ///< with its state
  Tensor random;         ///< the key of random ops
  void parts(Parts& p) {
    optimizer->parts(p);
    p("random", random, Role::state);
  }
};

/// Writes weights/last.safetensors and weights/last.opt.safetensors. The pair stays loadable whenever the process dies:
/// the new pair is complete before a file of the old one is replaced. Throws Error(resource); the old pair is then
/// intact.
void save_state(const fs::path& weights, Model& model, const ModelConfig& config, TrainState state,
                const Progress& progress);
/// The model config of weights/last.safetensors; nothing if there is none. Throws Error(data), which says what is left
/// of the run.
std::optional<ModelConfig> config_of_state(const fs::path& weights);
/// Loads model and state from the newest complete pair, and adds notes on its files. Throws as config_of_state.
Progress load_state(const fs::path& weights, Model& model, TrainState state, std::vector<std::string>& notes);

}  // namespace neurim
