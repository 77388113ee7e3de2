// The options of a training run. Unset ones follow from the model, the data and the machine.
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
#include "neurim/train/job.h"
#include "neurim/train/metrics.h"
#include "neurim/train/options.h"
#include "neurim/train/parallel_options.h"
#include "neurim/train/step.h"

namespace neurim {

/// The largest window, horizon and layer of a model of series or texts.
inline constexpr std::int64_t kMostUnits = 1 << 14;

/// The options of `neurim train`.
struct TrainOptions {
  std::string data;  ///< a folder of images or IDX files; a series (.csv, .tsv, .jsonl); a text (other files)
  /// A name for create_model, or a model file; for series and texts the name of a recurrent model.
  std::string model;
  std::string pretrained;                       ///< initial weights, as open_weights takes them: see Fit::adapt
  std::optional<std::int64_t> epochs, batch;    ///< unset: by the data and the model
  std::optional<ChannelCount> in_chans;         ///< channels of the input; unset: by the data
  std::optional<InputSize> imgsz, train_imgsz;  ///< of evaluation, and of training; unset: by the model

  // For series and texts.
  /// The column to forecast; "": the only one. Of images: the columns of numbers to learn, with commas, for regression.
  std::string target;
  std::string columns;  ///< what the model sees of a step, with commas; "": all columns of numbers
  std::optional<std::int64_t> window, horizon, stride;  ///< steps or characters: see SequenceConfig and WindowOptions
  std::int64_t season = 0;                              ///< steps; see SequenceConfig
  std::optional<std::int64_t> hidden_size, num_layers;  ///< of recurrent models

  std::string opt = "auto";                          ///< sgd, adam, adamw
  std::optional<double> lr, momentum, weight_decay;  ///< unset: by the optimizer and the data
  std::int64_t grad_accum_steps = 1;                 ///< batches whose gradients are added up for one step
  double clip_grad = 0;                              ///< the largest norm, or number, of gradients; 0: any
  std::string clip_mode = "norm";                    ///< norm: of all gradients together; value: each number by itself
  /// Nesterov: Nesterov momentum; decay_norms: weight decay also of norms and biases.
  std::optional<bool> nesterov, decay_norms;
  std::string sched = "auto";                                                  ///< schedule_names()
  std::optional<double> warmup_epochs;                                         ///< of linear warmup
  double warmup_lr = 0, min_lr = 0, step_epochs = 30, gamma = 0.1, power = 1;  ///< of the schedule: see ScheduleOptions
  std::vector<double> milestones;                                              ///< epochs
  std::string loss = "auto";                                                   ///< of regression: mse, l1, huber
  std::optional<double> label_smoothing;                                       ///< see CrossEntropyOptions
  std::string class_weights = "none";  ///< balanced, sqrt: weights of rare classes in the loss
  std::string sampler = "each";        ///< balanced: as many samples of each class in an epoch; weighted

  std::optional<double> val_split;   ///< share of the training data, if there is no validation split
  double test_split = 0;             ///< share for a test split
  std::int64_t split_seed = 42;      ///< of both splits
  std::int64_t folds = 0, fold = 0;  ///< cross-validation: see DatasetOptions
  std::string classes;              ///< their order: a file with a name a line, or names with commas; "": lexicographic
  std::string group_by;             ///< a column of the table: samples of equal value stay in one split
  std::optional<bool> multi_label;  ///< whether images may have several classes: see DatasetOptions
  std::string resize = "auto";      ///< crop, squash, letterbox, shortest
  std::optional<double> crop_pct;   ///< share of the resized image that the crop keeps in evaluation
  std::optional<std::int64_t> bits;    ///< bits of pixel values up to the model: 8 or 16
  std::vector<double> alpha_bg;        ///< background of transparent pixels: gray, or red, green and blue, 0 to 255
  std::string interpolation = "auto";  ///< nearest, bilinear, bicubic
  bool exif = true;                    ///< turn images upright as their EXIF orientation says
  std::string
      decode = "exact";  ///< scaled: JPEGs that are shrunk are decoded at a smaller scale: see DecodeOptions::scaled
  /// One number, or one for each channel: "0.5,0.5,0.5"; "auto": measured on the training images; "": the model's.
  std::string mean, std;
  std::optional<bool> random_resized_crop;   ///< crops of random size and shape
  std::vector<double> scale, ratio;          ///< of random_resized_crop: area, and width over height
  std::optional<std::int64_t> crop_padding;  ///< pixels around images, for random crops
  /// Hflip: its probability; rotation: degrees; brightness: factor range.
  std::optional<double> hflip, rotation, brightness;
  double mixup = 0, cutmix = 0;  ///< alpha of Beta(alpha, alpha), the distribution of the partner's share; 0: off
  std::string changes;           ///< further random changes, a list as in data/augmentations/augmentations.h
  bool augment = true;           ///< false: only augmentations that were given
  double max_bad = 0.01;         ///< unreadable images to tolerate: a share below 1, else a count

  std::int64_t seed = 42;                        ///< of weights, order and augmentation
  bool deterministic = false;                    ///< the same bits for any number of threads
  std::string precision = "f32";                 ///< compute_dtype_named()
  bool winograd = true;                          ///< PlanOptions::winograd
  std::string tuning = "off", tuning_file;       ///< Tuning::named()
  std::optional<std::int64_t> threads, workers;  ///< compute threads, and loader threads
  std::string loader = "neurim";                 ///< dali: batches from NVIDIA DALI, by its plug-in
  std::string cache = "auto";                    ///< none, ram, disk: where resized images are kept
  std::int64_t cache_mib = 1024;                 ///< of memory or disk
  std::string device = "cpu";                    ///< "cpu", or another device's name

  std::int64_t patience = 0;  ///< epochs without improvement before training stops; 0: never
  /// top1, f1_macro, loss; multi-label: map, f1_macro, f1_micro, exact_match, loss; a series: mae, rmse, loss; a text:
  /// loss, bits_per_character, top1.
  std::string monitor = "auto";
  double reject_keep = 0.95;  ///< the share of correct validation answers above the reject threshold

  ParallelOptions parallel;  ///< of several processes

  std::string project = "auto";  ///< default_project() of the task
  std::string name = "train";    ///< of the run's folder
  bool exist_ok = false;         ///< write into an existing folder
  bool plots = true;             ///< draw plots

  std::vector<std::string> notes;  ///< no option: notes for users from `resolved`

  void visit(Options& options);  ///< lists them all

  /// Throws Error(usage) on values that no run could use, before data are read.
  void check() const;
  /// check() for a new run: also throws on an option that another one leaves without effect.
  void check_new() const;
  /// Throws Error(usage) on an option that has no effect given `others`; "auto" may become anything. A value equal to
  /// the default, or to what resolved() chooses, does not count as given.
  void check_effects(const TrainOptions& others) const;
  /// Resolves all options for this model and these data. Given values stay. Throws Error(usage) on values that have no
  /// meaning for them.
  TrainOptions resolved(const Model& model, const Dataset& dataset) const;
  /// The same for a recurrent model and a series or text of so many steps. Throws Error(data) if they give no sample.
  TrainOptions resolved(const TaskInfo& task, std::int64_t steps) const;
  /// The same options for a run that writes no file.
  TrainOptions without_files() const;
};

/// Throws if the model does not take images of this size; the error says which sizes it takes.
void check_size(const Model& model, const InputSize& size);

/// The model's default preprocessing, for training and evaluation.
Preprocess usual_preprocess(const Model& model);

// The options of a run's components, from resolved options.
Preprocess preprocess_of(const TrainOptions& options);           ///< of evaluation
Preprocess training_preprocess_of(const TrainOptions& options);  ///< at the training size
Augment augment_of(const TrainOptions& options);                 ///< of training
MixOptions mix_of(const TrainOptions& options);                  ///< of training
/// Of evaluation; of rank `rank` of `ranks`, its share of each batch.
LoaderOptions loader_of(const TrainOptions& options, int rank = 0, int ranks = 1);
/// The samples of each rank's share of a batch. Throws Error(usage) where the ranks cannot share it evenly.
std::int64_t share_of_batch(const TrainOptions& options, const Job& job);
Sampler sampler_of(const TrainOptions& options);  ///< for training
/// The class weights of the training loss, with a mean of 1 over the training samples. For multi-label data, the weight
/// of a sample that has the class relative to one that has not. Empty for none.
std::vector<float> class_weights_of(const TrainOptions& options, const Dataset& dataset);
Schedule schedule_of(const TrainOptions& options);         ///< with time in epochs
NumberLoss number_loss_of(const TrainOptions& options);    ///< of training on numbers
CrossEntropyOptions loss_of(const TrainOptions& options);  ///< of training
/// How many processes have the gradient of a weight.
using Copies = std::function<int(const Tensor& weight)>;
/// With its hyperparameters and the chain of its gradients. `copies`: where processes have different ones.
std::unique_ptr<Optimizer> optimizer_of(const TrainOptions& options, const Parameters& parameters, const Job& job = {},
                                        const Copies& copies = {});
std::vector<std::string> classes_of(const TrainOptions& options);  ///< from a file, if it names one
/// Without the classes: a run's are in its checkpoints.
DatasetOptions dataset_of(const TrainOptions& options);
WindowOptions windows_of(const TrainOptions& options, const TaskInfo& task);  ///< for a series or a text

}  // namespace neurim
