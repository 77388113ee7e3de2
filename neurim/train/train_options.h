// What a training run may be told. What is left unset is chosen by the model, the data and the machine.
#pragma once
#include <memory>

#include "neurim/data/augmentations/mix.h"
#include "neurim/data/dataset.h"
#include "neurim/data/open_loader.h"
#include "neurim/data/sequences/windows.h"
#include "neurim/model/model.h"
#include "neurim/nn/module.h"
#include "neurim/ops/cross_entropy.h"
#include "neurim/optim/optimizer.h"
#include "neurim/optim/schedule.h"
#include "neurim/train/metrics.h"
#include "neurim/train/options.h"

namespace neurim {

/// The most steps of a window, forecasts and units of a layer that a model of series or texts may have.
inline constexpr std::int64_t kMostUnits = 1 << 14;

struct TrainOptions {
  std::string data;  ///< the folder of images or IDX files; a series (.csv, .tsv, .jsonl) or a text (other files)
  /// A name that create_model knows, or a model file; for series and texts the name of a recurrent model.
  std::string model;
  std::string pretrained;  ///< what open_weights takes, whose tensors are the first weights: see Fit::adapt
  std::optional<std::int64_t> epochs, batch;
  std::optional<ChannelCount> in_chans;
  std::optional<InputSize> imgsz, train_imgsz;

  // Of series and texts.
  std::string target;   ///< the column to forecast; "": the only one
  std::string columns;  ///< what the model sees of a step, with commas; "": all columns of numbers
  std::optional<std::int64_t> window, horizon, stride;  ///< steps or characters: see SequenceConfig and WindowOptions
  std::int64_t season = 0;                              ///< steps; see SequenceConfig
  std::optional<std::int64_t> hidden_size, num_layers;

  std::string opt = "auto";  ///< sgd, adam, adamw
  std::optional<double> lr, momentum, weight_decay;
  std::optional<bool> nesterov, decay_norms;
  std::string sched = "auto";  ///< schedule_names()
  std::optional<double> warmup_epochs;
  double warmup_lr = 0, min_lr = 0, step_epochs = 30, gamma = 0.1, power = 1;
  std::vector<double> milestones;  ///< epochs
  std::optional<double> label_smoothing;
  std::string class_weights = "none";  ///< balanced, sqrt: how much a sample of a rare class counts in the loss
  std::string sampler = "each";        ///< balanced: epochs of as many samples of each class; weighted

  std::optional<double> val_split;
  double test_split = 0;
  std::int64_t split_seed = 42;
  std::int64_t folds = 0, fold = 0;  ///< cross-validation: see DatasetOptions
  std::string classes;              ///< their order: a file with a name a line, or names with commas; "": lexicographic
  std::string group_by;             ///< a column of the table: equal values stay in one split
  std::optional<bool> multi_label;  ///< whether an image may have several classes: see DatasetOptions
  std::string resize = "auto";      ///< crop, squash, letterbox, shortest
  std::optional<double> crop_pct;
  std::optional<std::int64_t> bits;    ///< that levels keep up to the model: 8 or 16
  std::vector<double> alpha_bg;        ///< the level, or red, green and blue, of 0 to 255, behind transparent pixels
  std::string interpolation = "auto";  ///< nearest, bilinear, bicubic
  bool exif = true;                    ///< turn images upright as their EXIF orientation says
  std::string decode = "exact";        ///< scaled: JPEGs that are shrunk are decoded smaller: see DecodeOptions::scaled
  /// One number, or one a channel: "0.5,0.5,0.5"; "auto": measured on the training images; "": the model's own.
  std::string mean, std;
  std::optional<bool> random_resized_crop;
  std::vector<double> scale, ratio;
  std::optional<std::int64_t> crop_padding;
  std::optional<double> hflip, rotation, brightness;
  double mixup = 0, cutmix = 0;  ///< alpha of Beta(alpha, alpha), which the share of the partner comes from; 0: off
  std::string changes;           ///< further random changes, a list as in data/augmentations/augmentations.h
  bool augment = true;           ///< false: only what is given by name
  double max_bad = 0.01;

  std::int64_t seed = 42;
  bool deterministic = false;
  std::string precision = "f32";            ///< compute_dtype_named()
  bool winograd = true;                     ///< PlanOptions::winograd
  std::string tuning = "off", tuning_file;  ///< Tuning::named()
  std::optional<std::int64_t> threads, workers;
  std::string loader = "neurim";  ///< dali: NVIDIA DALI makes the batches, by its plug-in
  std::string cache = "auto";     ///< none, ram, disk: where resized images are kept
  std::int64_t cache_mib = 1024;
  std::string device = "cpu";

  std::int64_t patience = 0;  ///< epochs without a better figure until training stops; 0: never
  /// top1, f1_macro, loss; multi-label: map, f1_macro, f1_micro, exact_match, loss; a series: mae, rmse, loss; a text:
  /// loss, bits_per_character, top1.
  std::string monitor = "auto";
  double reject_keep = 0.95;  ///< the share of correct validation answers that the reject threshold keeps

  std::string project = "auto";  ///< the default_project of the task
  std::string name = "train";
  bool exist_ok = false;
  bool plots = true;

  std::vector<std::string> notes;  ///< no option: what `resolved` found that a user should know

  void visit(Options& options);

  /// Throws Error(usage) on values that no run could use, before any data are read.
  void check() const;
  /// check of a run that begins: throws also on an option that another one leaves without effect.
  void check_new() const;
  /// Throws Error(usage) on an option that has no effect beside what others are, which `others` say: "auto" may become
  /// anything. What is as by default, or as resolved() makes it then, counts as not given.
  void check_effects(const TrainOptions& others) const;
  /// The same with everything resolved, for this model and this data. What was given stays. Throws Error(usage) on what
  /// has no meaning for them.
  TrainOptions resolved(const Model& model, const Dataset& dataset) const;
  /// The same for a recurrent model and a series or text of so many steps. Throws Error(data) where they make no
  /// sample.
  TrainOptions resolved(TaskKind task, std::int64_t steps) const;
  /// The same for a run that writes no file.
  TrainOptions without_files() const;
};

/// Throws what the model says of images of this size, and which it takes where it is made for one size or for larger
/// ones.
void check_size(const Model& model, const InputSize& size);

/// How images reach the model where nobody says, in training as else.
Preprocess usual_preprocess(const Model& model);

// What the parts of a run are told. All take resolved options.
Preprocess preprocess_of(const TrainOptions& options);
Preprocess training_preprocess_of(const TrainOptions& options);  ///< the same at the size of training
Augment augment_of(const TrainOptions& options);
MixOptions mix_of(const TrainOptions& options);
LoaderOptions loader_of(const TrainOptions& options);
Sampler sampler_of(const TrainOptions& options);  ///< for training
/// The weights of the classes in the training loss, with a mean of 1 over the training samples; of
/// multi-label data how much a sample that has the class counts beside one that has it not. Empty for none.
std::vector<float> class_weights_of(const TrainOptions& options, const Dataset& dataset);
Schedule schedule_of(const TrainOptions& options);  ///< its time is counted in epochs
CrossEntropyOptions loss_of(const TrainOptions& options);
std::unique_ptr<Optimizer> optimizer_of(const TrainOptions& options, const Parameters& parameters);
std::vector<std::string> classes_of(const TrainOptions& options);  ///< reads the file where it is one
/// Without the classes: those of a run are in its checkpoints.
DatasetOptions dataset_of(const TrainOptions& options);
WindowOptions windows_of(const TrainOptions& options, TaskKind task);  ///< of a series or a text

}  // namespace neurim
