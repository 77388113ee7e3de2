#include "neurim/train/train_options.h"

#include <algorithm>
#include <cmath>

#include "neurim/base/error.h"
#include "neurim/base/file.h"
#include "neurim/base/thread_pool.h"
#include "neurim/base/utf8.h"
#include "neurim/compile/tuning.h"
#include "neurim/core/device.h"
#include "neurim/data/statistics.h"
#include "neurim/distributed/reduce_gradients.h"
#include "neurim/distributed/shards.h"
#include "neurim/graph/trace.h"
#include "neurim/model/inference.h"
#include "neurim/model/state.h"
#include "neurim/model/zoo.h"
#include "neurim/optim/adam.h"
#include "neurim/optim/sgd.h"
#include "neurim/train/run_folder.h"

namespace neurim {

namespace {

const std::vector<std::string> kOptimizers{"sgd", "adam", "adamw"};
const std::vector<std::string> kCaches{"auto", "none", "ram", "disk"};     // in the order of Cache
const std::vector<std::string> kSamplers{"each", "balanced", "weighted"};  // in the order of Sampler
const std::vector<std::string> kLosses{"mse", "l1", "huber"};              // in the order of NumberLoss
const std::vector<std::string> kClassWeights{"none", "balanced", "sqrt"};
const std::vector<std::string> kMonitors{"top1",        "f1_macro", "loss", "map", "f1_micro",
                                         "exact_match", "mae",      "rmse", "r2",  "bits_per_character"};

// Options that only some kinds of data use.
const std::vector<std::string> kOfSeries{"columns", "horizon", "season"};
const std::vector<std::string> kOfClasses{"label_smoothing", "class_weights", "classes",
                                          "multi_label",     "cutmix",        "reject_keep"};
const std::vector<std::string> kOfNumbers{"target", "loss"};
const std::vector<std::string> kOfSequences{"window", "stride", "hidden_size", "num_layers"};
const std::vector<std::string> kOfImages{"pretrained",    "imgsz",
                                         "train_imgsz",   "in_chans",
                                         "loss",          "label_smoothing",
                                         "class_weights", "sampler",
                                         "split_seed",    "folds",
                                         "fold",          "classes",
                                         "group_by",      "multi_label",
                                         "resize",        "crop_pct",
                                         "exif",          "interpolation",
                                         "bits",          "alpha_bg",
                                         "mean",          "std",
                                         "augment",       "scale",
                                         "ratio",         "crop_padding",
                                         "hflip",         "rotation",
                                         "brightness",    "changes",
                                         "mixup",         "cutmix",
                                         "max_bad",       "workers",
                                         "loader",        "cache",
                                         "cache_mib",     "reject_keep",
                                         "decode",        "random_resized_crop",
                                         "precision",     "winograd",
                                         "tuning",        "tuning_file"};

void check_choice(std::string_view option, const std::string& value, const std::vector<std::string>& choices,
                  bool may_be_auto = true) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end() || (may_be_auto && value == "auto")) return;
  const std::string near = nearest(value, choices);
  fail(Fault::usage, option, ": there is no '", value, "'; ", near.empty() ? "" : text("did you mean '", near, "'? "),
       "known are ", join(choices, ", "), may_be_auto ? ", auto" : "");
}

void check_range(std::string_view option, std::optional<std::int64_t> value, std::int64_t least, std::int64_t most) {
  require(!value || (*value >= least && *value <= most), option, " is ", value.value_or(0), "; it is ", least, " to ",
          most);
}

/// Defaults for a first run, by the image size that the model was made for.
struct Recipe {
  std::int64_t most_pixels;  // the largest height that it is for
  std::int64_t epochs, batch;
  std::int64_t steps;  // with few images, more than `epochs` until there are so many steps
  std::string opt;
  double sgd_lr;     // for batches of 128; scales with the batch
  double sgd_decay;  // at most; see sgd_weight_decay
  double warmup_epochs, label_smoothing;
  bool random_resized_crop;
  std::int64_t crop_padding;
  double crop_pct;
  // The share of the height that training images have. Random crops enlarge objects, so a network evaluates best at a
  // larger size than it was trained at (Touvron et al., Fixing the train-test resolution discrepancy, 2019), and trains
  // in half the time.
  double training_share;
  double adam_lr = 1e-3;
};
const Recipe kRecipes[] = {
    {28, 10, 128, 0, "adamw", 0.05, 5e-4, 0, 0, false, 0, 1, 1},
    {64, 30, 128, 0, "sgd", 0.1, 5e-4, 1, 0, false, 4, 1, 1},
    {1 << 14, 30, 32, 1250, "sgd", 0.05, 0.01, 2, 0.1, true, 0, 0.875, 5. / 7},
};
/// Series are short, so epochs are repeated until there are some thousand steps.
const Recipe kForecastRecipe{
    .epochs = 20, .batch = 32, .steps = 2000, .opt = "adamw", .sgd_lr = 0.05, .sgd_decay = 5e-4, .adam_lr = 3e-3};
const Recipe kLanguageRecipe{
    .epochs = 10, .batch = 64, .steps = 0, .opt = "adamw", .sgd_lr = 0.05, .sgd_decay = 5e-4, .adam_lr = 3e-3};
constexpr double kAdamWDecay = 0.01;
constexpr double kWholeDecay = 2;
constexpr std::int64_t kMostEpochs = 100;
constexpr std::int64_t kLeastSteps = 20;  // of an epoch: small data sets get smaller batches, at least 2 for batch norm

const Recipe& recipe_for(std::int64_t image_size) {
  return *std::find_if(std::begin(kRecipes), std::end(kRecipes) - 1,
                       [&](const Recipe& recipe) { return image_size <= recipe.most_pixels; });
}

/// The total shrinkage of the weights is the sum of lr * weight_decay over the steps: about 2 in published recipes for
/// ImageNet (1e-4, 450,000 steps) and CIFAR (5e-4, 78,000 steps). A short run on few images needs more for each step to
/// limit overfitting.
double sgd_weight_decay(const Recipe& recipe, double lr, std::int64_t steps) {
  const double mean_lr = lr / 2;  // of a cosine
  return std::min(recipe.sgd_decay, kWholeDecay / (mean_lr * static_cast<double>(steps)));
}

/// The size of training images, rounded to multiples of 16 if smaller than the full size.
InputSize training_size(const InputSize& size, double share) {
  if (share == 1) return size;
  const auto part = [&](std::int64_t side) {
    return std::min(side, std::max<std::int64_t>(1, std::llround(static_cast<double>(side) * share / 16)) * 16);
  };
  return {part(size.height), part(size.width)};
}

constexpr const char* kUsualSchedule = "cosine";

/// Throws if the text of an option cannot be stored in the model's metadata, or if folder names would break lines.
void check_names(TrainOptions options) {
  Options named;
  options.visit(named);
  for (const Option& option : named.list())
    require(is_utf8(option.get()), option.name, " is '", option.get(),
            "', which is not UTF-8, as the run's files keep it; give another name, or a link to it");
  for (const auto& [option, value] : {std::pair("name", options.name), std::pair("project", options.project)})
    require(value == printable(value), option, " is '", printable(value),
            "' with control characters in it, such as the end of a line; leave them out");
}

/// The model's error for images of a size that it does not take.
std::optional<Error> refusal(const Model& model, const InputSize& size) {
  try {
    Trace trace({.device = device_of(model)});
    model(trace.input({DType::f32, {1, model.in_chans, size.height, size.width}}));
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

bool takes(const Model& model, const InputSize& size) { return !refusal(model, size); }

/// Throws if one of these options differs from its default.
void refuse(TrainOptions given, const std::vector<std::string>& names, std::string_view whose, std::string_view data) {
  TrainOptions plain;
  Options said, unsaid;
  given.visit(said);
  plain.visit(unsaid);
  for (const std::string& name : names) {
    const std::string value = said.find(name)->get();
    require(value == unsaid.find(name)->get(), name, " is ", value, ", but it is an option of ", whose,
            ", and the model learns from ", data, "; leave it out");
  }
}

template <class T, class U>
void fill(std::optional<T>& option, const U& value) {
  if (!option) option = static_cast<T>(value);
}

void fill(std::string& option, const std::string& value) {
  if (option == "auto") option = value;
}

void fill(std::vector<double>& option, const std::vector<double>& value) {
  if (option.empty()) option = value;
}

/// Resolves what every run needs, for a training split of so many samples.
void resolve_steps(TrainOptions& r, const TaskInfo& task, const Recipe& recipe, std::int64_t samples) {
  fill(r.batch, std::min(samples, std::clamp<std::int64_t>(samples / kLeastSteps, 2, recipe.batch)));
  const std::int64_t of_step = *r.batch * r.grad_accum_steps;  // samples
  const std::int64_t steps_an_epoch = (samples + of_step - 1) / of_step;
  fill(r.epochs, std::clamp((recipe.steps + steps_an_epoch - 1) / steps_an_epoch, recipe.epochs,
                            std::max(recipe.epochs, kMostEpochs)));
  fill(r.opt, recipe.opt);
  const bool sgd = r.opt == "sgd";
  fill(r.lr, sgd ? recipe.sgd_lr * static_cast<double>(of_step) / 128 : recipe.adam_lr);
  fill(r.momentum, sgd ? 0.9 : 0);
  fill(r.nesterov, sgd && *r.momentum > 0);
  fill(r.weight_decay, r.opt == "adamw" ? kAdamWDecay
                       : sgd            ? sgd_weight_decay(recipe, *r.lr, *r.epochs * steps_an_epoch)
                                        : 0);
  fill(r.decay_norms, true);
  fill(r.sched, kUsualSchedule);
  fill(r.warmup_epochs, std::min<double>(recipe.warmup_epochs, static_cast<double>(*r.epochs) / 10));

  fill(r.monitor, task.monitor);
  std::vector<std::string> monitors;
  for (const TaskMetric& metric : task.metrics)
    if (std::find(kMonitors.begin(), kMonitors.end(), metric.name) != kMonitors.end()) monitors.push_back(metric.name);
  require(std::find(monitors.begin(), monitors.end(), r.monitor) != monitors.end(), "monitor is ", r.monitor,
          ", which is no metric of ", task.data, "; known are ", join(monitors, ", "));
  fill(r.device, text(device_named("auto")));
  fill(r.threads, neurim::threads());
  fill(r.precision, std::string(precision_of(compute_dtype_named(r.precision))));
  fill(r.project, default_project(task));
}

/// The numbers in an option's list.
std::vector<double> numbers_in(std::string_view option, const std::string& list) {
  std::vector<double> numbers;
  Options reader;
  reader(std::string(option), numbers, "");
  reader.set(option, list);
  return numbers;
}

/// The statistics of training images in the size and channels of these options; the rest of their preprocessing is
/// resolved.
ChannelStatistics channel_statistics_of(TrainOptions options, const Dataset& dataset) {
  options.mean = "0";
  options.std = "1";
  return channel_statistics(dataset, preprocess_of(options),
                            static_cast<int>(options.threads.value_or(neurim::threads())));
}

/// 16 if most training images have more than 8 bits and no augmentation needs 8.
std::int64_t natural_bits(const TrainOptions& options, const Dataset& dataset) {
  const Augmentations changes = parse_augmentations(options.changes);
  if (options.brightness.value_or(0) > 0 ||
      !std::all_of(changes.begin(), changes.end(), [](const auto& change) { return change->moves_only(); }))
    return 8;
  const std::vector<ImageHeader> headers = some_headers(dataset);
  const auto wide = std::count_if(headers.begin(), headers.end(), [](const ImageHeader& h) { return h.bits > 8; });
  return 2 * wide > std::ssize(headers) ? 16 : 8;
}

void resolve(std::string& list, const std::vector<double>& of_model, const std::vector<double>& of_data) {
  if (!list.empty() && list != "auto") return;
  const std::vector<double>& values = list.empty() ? of_model : of_data;
  const bool same = values.size() > 3 && std::count(values.begin(), values.end(), values[0]) == std::ssize(values);
  std::vector<std::string> numbers;
  for (std::size_t c = 0; c < (same ? 1 : values.size()); ++c) numbers.push_back(text(values[c]));
  list = join(numbers, ",");
}

}  // namespace

void TrainOptions::visit(Options& o) {
  o.topic("most used");
  o("data", data,
    "folder of images (one folder per class, or train/val/test of such), table (.csv, .tsv, .jsonl), packed file, or "
    "IDX, "
    "CIFAR, NumPy, WebDataset, TFRecord or LMDB files; for gru, lstm and rnn a series (such a table) or a text",
    {"data_dir"});
  o("model", model, "name of the model: see 'neurim models'; or a model file: see docs/guides/models.md",
    {"arch", "m", "a"});
  o("pretrained", pretrained,
    "weights to begin with: .safetensors, .pth, a run folder, or a folder with config.json and weights", {"weights"});
  o("epochs", epochs, "how often all training images are seen");
  o("batch", batch, "images a step", {"batch_size", "b"});
  o("imgsz", imgsz, "size of the model's input, pixels: one number, or height x width such as 192x320",
    {"img_size", "input_size"});
  o("lr", lr, "learning rate", {"lr0"});
  o("val_split", val_split, "share taken from training for validation where the data have no val split");
  o("seed", seed, "of weights, order and augmentation");
  o("name", name, "name of the run; a number is added where it exists", {"experiment"});
  o.topic("data");
  o("test_split", test_split, "share taken from training for a test split where the data have none");
  o("split_seed", split_seed, "seed of that choice");
  o("folds", folds, "cross-validation: training is cut into so many parts");
  o("fold", fold, "folds: the part that is validated on, from 0 on");
  o("classes", classes, "the classes in the order of their numbers: a file with a name a line, or names with commas",
    {"class_names", "labels"});
  o("group_by", group_by, "column of the table whose equal values are never separated");
  o("multi_label", multi_label, "whether an image may have several classes, in a table such as cat|dog, or none");
  o("max_bad", max_bad, "unreadable images to tolerate: a share of all splits below 1, else a count");
  o.topic("images");
  o("in_chans", in_chans, "channels of the model's input: gray, la, rgb, rgba (la and rgba keep alpha) or a number",
    {"channels"});
  o("resize", resize, "how images of other shapes are fitted: crop, squash, letterbox, shortest (crop with crop_pct=1)",
    {"resize_mode", "crop_mode"});
  o("crop_pct", crop_pct, "resize=crop: share of the height that the crop keeps");
  o("interpolation", interpolation, "how images are resized: nearest, bilinear, bicubic");
  o("exif", exif, "turn images upright as their EXIF orientation says; the model keeps to it");
  o("decode", decode,
    "exact, or scaled: JPEGs that are shrunk to half and less are decoded at 1/2, 1/4 or 1/8, much faster and not "
    "quite "
    "the same; the model keeps to it");
  o("bits", bits,
    "bits of a pixel value up to the model: 8 or 16; auto: 16 where most images have 16 and no augmentation needs 8");
  o("alpha_bg", alpha_bg,
    "pixel value, or red,green,blue, of 0 to 255 behind transparent pixels where the model takes no alpha");
  o("mean", mean,
    "pixel value (0 to 1) of each channel that becomes 0: numbers, auto (measured on the data), or the model's");
  o("std", std, "std by which each channel is divided: numbers, auto, or the model's");
  o.topic("series and texts");
  o("target", target,
    "series: column to forecast; may be left out where there is one; images: columns of numbers to learn (regression), "
    "such as age or x,y");
  o("columns", columns, "series: columns that the model sees, such as temp,rain; by default all that hold numbers");
  o("window", window, "series and texts: steps or characters that the model sees", {"seq_len", "block_size"});
  o("horizon", horizon, "series: steps that are forecast at once");
  o("stride", stride, "series and texts: training samples begin so many steps apart; auto: 1, of texts the window");
  o("season", season, "series: steps after which it repeats itself roughly, to compare with; 0: none");
  o("hidden_size", hidden_size, "series and texts: units of a layer", {"hidden"});
  o("num_layers", num_layers, "series and texts: layers", {"layers"});
  o.topic("training");
  o("opt", opt, text("optimizer: ", join(kOptimizers, ", ")), {"optimizer"});
  o("momentum", momentum, "of sgd");
  o("nesterov", nesterov, "Nesterov's momentum in sgd");
  o("weight_decay", weight_decay, "weight decay", {"wd"});
  o("decay_norms", decay_norms, "whether biases and norms decay too");
  o("grad_accum_steps", grad_accum_steps, "batches whose gradients are added up for one step of the optimizer",
    {"accumulate"});
  o("clip_grad", clip_grad, "largest norm of the gradients, which shrink to it; 0: any", {"max_grad_norm"});
  o("clip_mode", clip_mode, "norm: clip_grad bounds the norm of all gradients together; value: each of their numbers");
  o("sched", sched, text("schedule of the learning rate: ", join(schedule_names(), ", ")), {"scheduler", "schedule"});
  o("warmup_epochs", warmup_epochs, "epochs (or a part of one) of linear warm-up", {"warmup"});
  o("warmup_lr", warmup_lr, "learning rate that the warm-up rises from, to lr in its last step");
  o("min_lr", min_lr, "learning rate that cosine and polynomial end with");
  o("step_epochs", step_epochs, "sched=step: epochs between two steps", {"step_size", "decay_epochs"});
  o("gamma", gamma, "sched=step, multistep: factor of each step", {"decay_rate"});
  o("power", power, "sched=polynomial: the exponent");
  o("milestones", milestones, "sched=multistep: epochs of the steps, such as 30,60,80");
  o("loss", loss, text("of numbers (regression): ", join(kLosses, ", ")));
  o("label_smoothing", label_smoothing, "share of the target that is spread over all classes", {"smoothing"});
  o("class_weights", class_weights,
    text("how much a sample of a rare class counts in the loss: ", join(kClassWeights, ", ")));
  o("sampler", sampler,
    text("samples of an epoch: ", join(kSamplers, ", "), " (as the column weight of a table says)"));
  o("patience", patience, "stop after so many epochs without a better metric; 0: never");
  o("monitor", monitor,
    text("the metric that says which epoch is best: ", join(kMonitors, ", "),
         "; auto: top1, of multi-label data map, of a series mae, of a text loss"),
    {"eval_metric"});
  o("reject_keep", reject_keep,
    "share of the correct validation answers that the model's reject threshold keeps: see predict "
    "reject=auto");
  o.topic("augmentation");
  o("augment", augment, "random changes of training images that suit the model");
  o("train_imgsz", train_imgsz, "size of training images, pixels: smaller ones train faster", {"train_img_size"});
  o("random_resized_crop", random_resized_crop, "train on random parts of the images");
  o("scale", scale, "random_resized_crop: least and largest area, such as 0.08,1");
  o("ratio", ratio, "random_resized_crop: least and largest width by height");
  o("crop_padding", crop_padding, "pixels that training images are shifted by at most");
  o("hflip", hflip, "probability of a mirror image", {"fliplr"});
  o("rotation", rotation, "degrees that training images are turned by at most", {"degrees"});
  o("brightness", brightness, "share that brightness changes by at most", {"hsv_v"});
  o("changes", changes, "further random changes: trivial, rand-m9-mstd0.5-inc1, jitter(0.4,0.4,0.4,0.1),erase(0.25), …",
    {"aa", "auto_augment"});
  o("mixup", mixup, "blend pairs of images: alpha of Beta(alpha, alpha), such as 0.2; 0: not", {"mixup_alpha"});
  o("cutmix", cutmix, "put a part of one image into another: alpha, such as 1; 0: not", {"cutmix_alpha"});
  o.topic("computing");
  o("device", device, "where to compute: cpu, auto; several with commas: as so many processes would, one on each");
  o("threads", threads, "compute threads");
  o("workers", workers, "threads that load images", {"j"});
  o("loader", loader, text("what decodes, cuts and scales images: ", join(loader_names(), ", "), " (a plug-in)"));
  o("cache", cache,
    "where resized images are kept, if epochs have the same: none, ram, disk, or auto (ram, if they fit)");
  o("cache_mib", cache_mib, "cache=auto: memory that they may take, MiB");
  o("precision", precision,
    "f32, or bf16 or fp16: factors of products and activations between layers are rounded to 16 bits; sums, weights "
    "and their gradients stay f32; with fp16 losses are scaled; auto: what this machine multiplies fastest",
    {"amp"});
  o("deterministic", deterministic, "the same bits for any number of threads");
  o("winograd", winograd, "false: 3x3 convolutions multiply term by term, more slowly");
  o("tuning", tuning, kTuningHelp);
  o("tuning_file", tuning_file, kTuningFileHelp);
  parallel.visit(o);
  o.topic("output");
  o("project", project, "folder of the runs; auto: runs/classify, of a series runs/forecast, of a text runs/language",
    {"output"});
  o("exist_ok", exist_ok,
    "use an existing folder: a run in it is replaced when the new one first saves: after an epoch, or when it is "
    "stopped");
  o("plots", plots, "draw images of curves and confusions");
}

void TrainOptions::check() const {
  check_choice("opt", opt, kOptimizers);
  check_choice("sched", sched, schedule_names());
  Preprocess().choose_resize(resize, crop_pct);
  if (interpolation != "auto") interpolation_named(interpolation);
  scaled_named(decode);
  check_choice("loader", loader, loader_names(), false);
  compute_dtype_named(precision);  // throws
  check_choice("monitor", monitor, kMonitors);
  require(reject_keep >= 0 && reject_keep <= 1, "reject_keep is ", reject_keep, "; it is a share in [0, 1]");
  check_choice("cache", cache, kCaches, false);
  parse_augmentations(changes);
  for (const auto& [option, list] : {std::pair{"mean", &mean}, std::pair{"std", &std}})
    if (!list->empty() && *list != "auto") numbers_in(option, *list);
  mix_of(*this).check();
  require(!brightness || (*brightness >= 0 && *brightness <= 1), "brightness is ", brightness.value_or(0),
          "; it lies in [0, 1]");
  check_choice("loss", loss, kLosses);
  check_choice("sampler", sampler, kSamplers, false);
  check_choice("class_weights", class_weights, kClassWeights, false);
  check_range("epochs", epochs, 1, 1'000'000);
  check_range("batch", batch, 1, 1 << 20);
  for (const auto& [option, size] : {std::pair{"imgsz", &imgsz}, std::pair{"train_imgsz", &train_imgsz}})
    if (*size)
      for (const std::int64_t side : {(*size)->height, (*size)->width}) check_range(option, side, 1, 1 << 14);
  check_range("in_chans", in_chans, 1, kMostChannels);
  check_range("window", window, 1, kMostUnits);
  check_range("horizon", horizon, 1, kMostUnits);
  check_range("stride", stride, 1, 1 << 30);
  check_range("season", season, 0, 1 << 30);
  check_range("hidden_size", hidden_size, 1, kMostUnits);
  check_range("num_layers", num_layers, 1, 64);
  require(alpha_bg.size() <= 1 || alpha_bg.size() == 3, "alpha_bg has ", alpha_bg.size(),
          " values; give one level, or red, green and blue");
  require(!bits || *bits == 8 || *bits == 16, "bits is ", bits.value_or(0), "; it is 8 or 16");
  for (const double level : alpha_bg)
    require(level >= 0 && level <= 255 && level == std::floor(level), "alpha_bg is ", level,
            "; it is a whole number from 0 to 255");
  const auto not_negative = [](std::string_view option, std::optional<double> value) {
    require(!value || *value >= 0, option, " is ", value.value_or(0), "; it is not negative");
  };
  not_negative("lr", lr);
  not_negative("warmup_epochs", warmup_epochs);
  not_negative("warmup_lr", warmup_lr);
  not_negative("min_lr", min_lr);
  not_negative("gamma", gamma);
  not_negative("clip_grad", clip_grad);
  require(std::isfinite(clip_grad), "clip_grad is ", clip_grad, "; it is a number, or 0 for none");
  require(clip_mode == "norm" || clip_mode == "value", "clip_mode: there is no '", clip_mode,
          "'; known are norm, value");
  check_range("grad_accum_steps", grad_accum_steps, 1, 1 << 20);
  not_negative("power", power);
  not_negative("weight_decay", weight_decay);
  not_negative("rotation", rotation);
  require(step_epochs > 0, "step_epochs is ", step_epochs, "; it is above 0");
  require(!momentum || (*momentum >= 0 && *momentum < 1), "momentum is ", momentum.value_or(0), "; it lies in [0, 1)");
  require(!label_smoothing || (*label_smoothing >= 0 && *label_smoothing <= 1), "label_smoothing is ",
          label_smoothing.value_or(0), "; it lies in [0, 1]");
  require(!val_split || (*val_split >= 0 && *val_split < 1), "val_split is ", val_split.value_or(0),
          "; it is a share in [0, 1)");
  check_range("folds", folds, 0, 1000);
  require(folds > 0 || fold == 0, "fold is ", fold, ", but there are no folds; give folds=K");
  check_range("fold", fold, 0, std::max<std::int64_t>(folds - 1, 0));
  check_range("crop_padding", crop_padding, 0, 1 << 14);
  check_range("threads", threads, 1, ThreadPool::kMost);
  check_range("workers", workers, 0, ThreadPool::kMost);
  check_range("cache_mib", cache_mib, 0, 1 << 30);
  require(patience >= 0, "patience is ", patience, "; it is not negative");
  for (const auto* pair : {&scale, &ratio})
    require(pair->empty() || pair->size() == 2, pair == &scale ? "scale" : "ratio", " has ", pair->size(),
            " values; give the least and the largest");
  require(sched != "multistep" || !milestones.empty(),
          "sched=multistep needs the epochs of its steps: milestones=30,60,80");
  require(!project.empty(), "project is empty; give the folder of the runs");
  require(!name.empty() && name[0] != '.' && name.find('/') == std::string::npos, "name is '", name,
          "'; it names a folder inside project, without '/' and not beginning with '.'");
  device_named(device);
  parallel.check(deterministic, compute_dtype_named(precision));
}

void TrainOptions::check_new() const {
  check();
  if (mean != "auto") check_scaling("mean", numbers_in("mean", mean));
  if (std != "auto") check_scaling("std", numbers_in("std", std));
  check_names(*this);
  TrainOptions known = *this;
  fill(known.sched, kUsualSchedule);
  check_effects(known);
  require(!val_split || folds == 0, "val_split is ", val_split.value_or(0), ", but with folds=", folds, " one of ",
          folds, " parts is validated on; leave val_split out");
  Tuning::named(tuning, tuning_file);  // throws
}

TrainOptions TrainOptions::without_files() const {
  TrainOptions options = *this;
  if (options.cache == "disk") options.cache = "none";
  return options;
}

void check_size(const Model& model, const InputSize& size) {
  const std::optional<Error> error = refusal(model, size);
  if (!error) return;
  const std::int64_t own = model.image_size;
  if (has_one_image_size(model.name) && model.source.empty() && size.height != size.width)
    fail(error->fault(), error->what(), "; ", model.name, " takes square images: give imgsz=", size.height);
  // The model has a Flatten before a Linear, or learnt positions.
  if (takes(model, own) && !takes(model, 2 * own) && !takes(model, own / 2))
    fail(error->fault(), error->what(), "; ", model.name, " is made for one size of images: give imgsz=", own);
  if (std::min(size.height, size.width) >= own) throw *error;
  fail(error->fault(), error->what(), "; imgsz=", size, " is too small for ", model.name, ", which is made for ", own,
       ": give a larger one");
}

TrainOptions TrainOptions::resolved(const Model& model_facts, const Dataset& dataset) const {
  TrainOptions r = *this;
  for (const auto& names : {kOfSeries, kOfSequences}) refuse(r, names, "series and texts", "images");
  const bool numbers = dataset.regression();
  Recipe recipe = recipe_for(model_facts.image_size);
  if (numbers) {
    refuse(r, kOfClasses, "images with classes", regress_task().data);
    require(r.sampler != "balanced",
            "sampler is balanced, which balances classes, and the images have numbers; leave it out");
    r.target = join(dataset.class_names(), ",");
    fill(r.loss, "mse");
    recipe.opt = "adamw";
    // What a flip or a crop does to a number, nobody says.
    recipe.random_resized_crop = false, recipe.crop_padding = 0;
  } else {
    refuse(r, kOfNumbers, "images with numbers (regression)", "images with classes");
  }
  if (model_facts.source.empty() || r.model.empty()) r.model = model_facts.name;  // else the file stays named
  if (!numbers) r.multi_label = dataset.multi_label();
  resolve_steps(r,
                numbers          ? regress_task()
                : *r.multi_label ? multi_label_task()
                                 : classify_task(),
                recipe, std::max<std::int64_t>(dataset.size(Split::train), 1));  // there is none if one only validates
  fill(r.imgsz, model_facts.image_size);
  fill(r.in_chans, model_facts.in_chans);
  if (!numbers) fill(r.label_smoothing, *r.multi_label ? 0 : recipe.label_smoothing);

  fill(r.resize, "crop");
  fill(r.crop_pct, r.resize == "shortest" ? 1 : recipe.crop_pct);
  fill(r.interpolation, "bilinear");
  fill(r.alpha_bg, {255, 255, 255});
  fill(r.bits, natural_bits(r, dataset));
  const bool measured = r.mean == "auto" || r.std == "auto";
  const ChannelStatistics channels = measured ? channel_statistics_of(r, dataset) : ChannelStatistics();
  if (r.std == "auto" && !channels.constant.empty()) r.notes.push_back(constant_channels_note(channels));
  resolve(r.mean, model_facts.mean, channels.mean);
  resolve(r.std, model_facts.std, channels.std);
  const bool colored = *r.in_chans == 3;  // gray images are often digits and letters, which must not be mirrored
  fill(r.random_resized_crop, augment && recipe.random_resized_crop);
  const InputSize smaller = training_size(*r.imgsz, recipe.training_share);
  fill(r.train_imgsz, *r.random_resized_crop && takes(model_facts, smaller) ? smaller : *r.imgsz);
  fill(r.scale, {0.35, 1});
  fill(r.ratio, {3. / 4, 4. / 3});
  fill(r.crop_padding, augment && colored ? recipe.crop_padding : 0);
  fill(r.hflip, augment && colored && !numbers ? 0.5 : 0);
  fill(r.rotation, 0);
  fill(r.brightness, 0);

  fill(r.workers, neurim::threads());
  return r;
}

TrainOptions TrainOptions::resolved(const TaskInfo& task, std::int64_t steps) const {
  TrainOptions r = *this;
  const bool language = task.answer == Answer::characters;
  refuse(r, kOfImages, "images", task.data);
  if (language) {
    refuse(r, kOfSeries, "series", task.data);
    refuse(r, {"target"}, "series and images with numbers", task.data);
  }
  const std::int64_t some = language ? 64 : std::max<std::int64_t>(32, 2 * season);
  fill(r.window, std::clamp<std::int64_t>(steps / 4, 1, std::min(some, kMostUnits)));
  if (!language) fill(r.horizon, 1);
  fill(r.stride, language ? *r.window : 1);
  fill(r.val_split, 0.1);
  fill(r.hidden_size, language ? 128 : 64);
  fill(r.num_layers, 1);
  const Windows windows(steps, windows_of(r, task), data);
  if (*r.val_split > 0 && windows.size(Split::val) == 0)
    fail(Fault::data, data, ": validation has ", static_cast<std::int64_t>(*r.val_split * static_cast<double>(steps)),
         " of the ", steps, " steps, and a sample forecasts ", windows.options().targets,
         "; give a larger val_split, or val_split=0");
  require(season < windows.training_steps(), "season is ", season, ", but training has ", windows.training_steps(),
          " steps; give the steps after which the series repeats itself, or leave season out");
  resolve_steps(r, task, language ? kLanguageRecipe : kForecastRecipe, windows.size(Split::train));
  return r;
}

Preprocess usual_preprocess(const Model& model) {
  return {.channels = static_cast<int>(model.in_chans),
          .height = static_cast<int>(model.image_size),
          .width = static_cast<int>(model.image_size),
          .crop_pct = recipe_for(model.image_size).crop_pct,
          .mean = model.mean,
          .std = model.std};
}

Preprocess preprocess_of(const TrainOptions& o) {
  Preprocess preprocess{.channels = static_cast<int>(*o.in_chans),
                        .bits = static_cast<int>(*o.bits),
                        .height = static_cast<int>(o.imgsz->height),
                        .width = static_cast<int>(o.imgsz->width),
                        .interpolation = interpolation_named(o.interpolation),
                        .mean = numbers_in("mean", o.mean),
                        .std = numbers_in("std", o.std),
                        .decode = {.exif = o.exif, .scaled = scaled_named(o.decode)}};
  preprocess.choose_resize(o.resize, o.crop_pct);
  for (std::size_t c = 0; c < 3; ++c)
    preprocess.decode.background[c] = static_cast<std::uint8_t>(o.alpha_bg[o.alpha_bg.size() == 1 ? 0 : c]);
  preprocess.check();
  return preprocess;
}

Augmentations augmentations_of(const TrainOptions& o) {
  std::vector<std::string> list;
  if (*o.rotation > 0) list.push_back(text("rotate(", *o.rotation, ')'));
  if (*o.brightness > 0)
    list.push_back(text("brightness(", std::max(0.0, 1 - *o.brightness), ',', 1 + *o.brightness, ')'));
  if (!o.changes.empty()) list.push_back(o.changes);
  return parse_augmentations(join(list, ","));
}

Augment augment_of(const TrainOptions& o) {
  Augment augment{.random_resized_crop = *o.random_resized_crop,
                  .scale = {o.scale[0], o.scale[1]},
                  .ratio = {o.ratio[0], o.ratio[1]},
                  .augmentations = augmentations_of(o),
                  .crop_padding = static_cast<int>(*o.crop_padding),
                  .hflip = *o.hflip};
  augment.check();
  return augment;
}

MixOptions mix_of(const TrainOptions& o) { return {.mixup_alpha = o.mixup, .cutmix_alpha = o.cutmix}; }

Preprocess training_preprocess_of(const TrainOptions& o) {
  Preprocess preprocess = preprocess_of(o);
  preprocess.height = static_cast<int>(o.train_imgsz->height);
  preprocess.width = static_cast<int>(o.train_imgsz->width);
  return preprocess;
}

LoaderOptions loader_of(const TrainOptions& o, int rank, int ranks) {
  return {.batch = std::max(1, static_cast<int>(*o.batch) / ranks),
          .workers = static_cast<int>(*o.workers),
          .seed = static_cast<std::uint64_t>(o.seed),
          .rank = rank,
          .ranks = ranks,
          .cache = static_cast<Cache>(std::find(kCaches.begin(), kCaches.end(), o.cache) - kCaches.begin()),
          .cache_bytes = static_cast<std::size_t>(o.cache_mib) << 20,
          .max_bad = o.max_bad};
}

std::int64_t share_of_batch(const TrainOptions& o, const Job& job) {
  const std::int64_t batch = *o.batch, ranks = job.replicas();
  require(batch % ranks == 0, "batch is ", batch, ", which ", ranks,
          " processes do not share evenly; give batch=", (batch + ranks - 1) / ranks * ranks);
  return batch / ranks;
}

Sampler sampler_of(const TrainOptions& o) {
  return static_cast<Sampler>(std::find(kSamplers.begin(), kSamplers.end(), o.sampler) - kSamplers.begin());
}

Schedule schedule_of(const TrainOptions& o) {
  Schedule schedule{.kind = o.sched,
                    .lr = *o.lr,
                    .total = static_cast<double>(*o.epochs),
                    .warmup = *o.warmup_epochs,
                    .warmup_start = o.warmup_lr,
                    .min_lr = o.min_lr,
                    .every = o.step_epochs,
                    .gamma = o.gamma,
                    .power = o.power,
                    .milestones = o.milestones};
  schedule.check();
  return schedule;
}

std::vector<float> class_weights_of(const TrainOptions& o, const Dataset& dataset) {
  std::vector<float> weights;
  if (o.class_weights == "none") return weights;
  double sum = 0;
  const std::vector<std::int64_t> counts = dataset.class_counts(Split::train);
  if (dataset.multi_label()) {
    const auto samples = static_cast<double>(dataset.size(Split::train));
    for (const std::int64_t count : counts) {
      const auto with = static_cast<double>(std::max<std::int64_t>(count, 1));
      const double odds = std::max(samples - with, 1.0) / with;
      weights.push_back(static_cast<float>(o.class_weights == "sqrt" ? std::sqrt(odds) : odds));
    }
    return weights;
  }
  for (const std::int64_t count : counts) {
    const double rarity = 1 / static_cast<double>(std::max<std::int64_t>(count, 1));
    weights.push_back(static_cast<float>(o.class_weights == "sqrt" ? std::sqrt(rarity) : rarity));
    sum += static_cast<double>(weights.back()) * static_cast<double>(count);
  }
  for (float& weight : weights) weight *= static_cast<float>(static_cast<double>(dataset.size(Split::train)) / sum);
  return weights;
}

NumberLoss number_loss_of(const TrainOptions& o) {
  return static_cast<NumberLoss>(std::find(kLosses.begin(), kLosses.end(), o.loss) - kLosses.begin());
}

CrossEntropyOptions loss_of(const TrainOptions& o) { return {.label_smoothing = *o.label_smoothing}; }

static std::unique_ptr<Optimizer> unscaled_optimizer_of(const TrainOptions& o, const Parameters& parameters) {
  if (o.opt == "sgd")
    return std::make_unique<SGD>(parameters, SGD::Config{.lr = *o.lr,
                                                         .momentum = *o.momentum,
                                                         .weight_decay = *o.weight_decay,
                                                         .nesterov = *o.nesterov,
                                                         .decay_1d = *o.decay_norms});
  if (o.opt == "adam")
    return std::make_unique<Adam>(
        parameters, Adam::Config{.lr = *o.lr, .weight_decay = *o.weight_decay, .decay_1d = *o.decay_norms});
  return std::make_unique<AdamW>(
      parameters, AdamW::Config{.lr = *o.lr, .weight_decay = *o.weight_decay, .decay_1d = *o.decay_norms});
}

std::unique_ptr<Optimizer> optimizer_of(const TrainOptions& o, const Parameters& parameters, const Job& job,
                                        const Copies& copies) {
  std::unique_ptr<Optimizer> optimizer = unscaled_optimizer_of(o, parameters);
  const auto parts = static_cast<std::size_t>(job.parts(o.deterministic));
  const bool together = o.parallel.how().kind == Sync::Kind::together;
  if (o.grad_accum_steps > 1 || o.deterministic || o.parallel.pipeline > 1 || !together)
    optimizer->accumulate(parts, combine_order(parts));
  if (together && !job.alone()) {
    if (o.parallel.sync_bn) optimizer->sum_losses();
    if (o.parallel.zero > 0)
      optimizer->add(std::make_unique<ShardGradients>(job.data_number(), static_cast<int>(o.parallel.zero),
                                                      owners_of(optimizer->weights(), job.size()), o.parallel.sent()));
    else if (job.replicas() > 1)
      optimizer->add(std::make_unique<ReduceGradients>(job.data_number(), o.parallel.sent()));
    std::vector<double> of_weights;
    for (const Tensor& weight : optimizer->weights()) of_weights.push_back(copies ? copies(weight) : job.replicas());
    if (o.parallel.pipeline > 1 || o.parallel.tensor > 1)
      optimizer->add(std::make_unique<SpreadGradients>(job.number(), std::move(of_weights)));
  }
  if (compute_dtype_named(o.precision) == DType::f16) optimizer->scale_losses();
  if (o.clip_grad > 0 && o.clip_mode == "norm") optimizer->add(std::make_unique<ClipGradientNorm>(o.clip_grad));
  if (o.clip_grad > 0 && o.clip_mode == "value") optimizer->add(std::make_unique<ClipGradientValue>(o.clip_grad));
  return optimizer;
}

std::vector<std::string> classes_of(const TrainOptions& o) {
  const std::string& option = o.classes;
  if (option.empty()) return {};
  const bool file = option.find(',') == std::string::npos;
  require(!file || is_there(option), "classes: there is no file ", option,
          "; give a file with a name a line, or the names with commas between them: classes=cat,dog");
  std::vector<std::string> names = file ? split(read_text(option), '\n') : split(option, ',');
  for (std::string& class_name : names)
    if (!file) class_name = trimmed(class_name);
  while (!names.empty() && names.back().empty()) names.pop_back();
  require(std::find(names.begin(), names.end(), "") == names.end(), "classes: ", option,
          " holds an empty name; each class has one");
  return names;
}

/// The columns that `target` names.
static std::vector<std::string> targets_of(const TrainOptions& o) {
  std::vector<std::string> names;
  if (o.target.empty()) return names;
  for (const std::string& word : split(o.target, ',')) {
    const std::string name = trimmed(word);
    require(!name.empty() && std::find(names.begin(), names.end(), name) == names.end(), "target is ", o.target,
            "; name each column once, with commas between them");
    names.push_back(name);
  }
  return names;
}

DatasetOptions dataset_of(const TrainOptions& o) {
  return {.val_split = o.val_split,
          .test_split = o.test_split,
          .seed = static_cast<std::uint64_t>(o.split_seed),
          .folds = static_cast<int>(o.folds),
          .fold = static_cast<int>(o.fold),
          .group_by = o.group_by,
          .multi_label = o.multi_label,
          .targets = targets_of(o)};
}

WindowOptions windows_of(const TrainOptions& o, const TaskInfo& task) {
  const bool language = task.answer == Answer::characters;  // each character is predicted from those before it
  return {.inputs = *o.window,
          .targets = language ? *o.window : *o.horizon,
          .shift = language ? 1 : *o.window,
          .stride = *o.stride,
          .val_split = *o.val_split,
          .test_split = o.test_split};
}

}  // namespace neurim
