#include "neurim/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <nlohmann/json.hpp>

#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/core/device.h"
#include "neurim/data/open_loader.h"
#include "neurim/data/statistics.h"
#include "neurim/evaluate/class_counts.h"
#include "neurim/evaluate/report.h"
#include "neurim/model/model_file.h"
#include "neurim/model/state.h"
#include "neurim/model/zoo.h"
#include "neurim/train/batch_picture.h"
#include "neurim/train/environment.h"
#include "neurim/train/model_folder.h"
#include "neurim/train/results_csv.h"
#include "neurim/train/run_folder.h"
#include "neurim/train/step.h"
#include "neurim/train/tensorboard.h"
#include "neurim/train/validation.h"

namespace neurim {

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kDrawnBatches = 3;
constexpr std::uint32_t kMixStream = 0x6d697821;  // keeps these draws apart from others of the same seed
constexpr std::int64_t kImbalance = 5;  // times that the largest class has of the smallest, worth a hint
constexpr double kMuchCut = 0.2;         // of a picture's area, by evaluation's crop, worth a hint
constexpr double kMuchWaiting = 20;  // percent of an epoch, above which it is worth a hint

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Json number(double value) { return std::isnan(value) ? Json() : Json(value); }

/// The value that larger means better; NaN is never better.
double merit(const std::string& monitor, const Figures& figures) {
  for (const NamedFigure& one : named_figures(figures.multi_label))
    if (monitor == one.name) return monitor == "loss" ? -figures.loss : figures.*one.value;
  NEURIM_ASSERT(!"a monitor of the task");
  return Figures::kNone;
}

LoaderOptions training_loader(const TrainOptions& options, std::int64_t samples) {
  LoaderOptions loader = loader_of(options);
  loader.shuffle = true;
  loader.sampler = sampler_of(options);
  // A last batch of one sample has no variance to normalise by.
  loader.drop_last = samples > loader.batch && samples % loader.batch == 1;
  return loader;
}

/// metrics.jsonl: one line an epoch, for any program that follows a run.
class MetricsFile {
 public:
  MetricsFile(fs::path path, std::int64_t epochs_done) : path_(std::move(path)) {
    if (epochs_done == 0 || !fs::exists(path_)) return;
    const std::vector<std::string> lines = split(read_file(path_), '\n');
    for (std::size_t i = 0; i + 1 < lines.size() && i < static_cast<std::size_t>(epochs_done); ++i)
      content_ += lines[i] + '\n';
  }
  void append(const std::string& line) {
    content_ += line + '\n';
    write_file(path_, content_);
  }

 private:
  fs::path path_;
  std::string content_;
};

/// The share of the median picture's area that resizing cuts off; NaN where no picture can be read.
double median_cut(const Preprocess& preprocess, const Dataset& dataset) {
  std::vector<double> shares;
  for (const ImageHeader& header : some_headers(dataset)) shares.push_back(preprocess.cut_share(header.height, header.width));
  if (shares.empty()) return std::nan("");
  const auto middle = shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2);
  std::nth_element(shares.begin(), middle, shares.end());
  return *middle;
}

/// One run, from the first step to the last.
class Run {
 public:
  /// `control` has a console.
  Run(Model model, const Dataset& dataset, const TrainOptions& resolved, fs::path folder,
      const TrainControl& control, bool resumed);
  TrainResult go();
  bool untouched() const { return progress_.step == 0; }  ///< no step is done

 private:
  bool multi_label() const { return dataset_.multi_label(); }
  bool stopping() const { return control_.stop && control_.stop->load() != 0; }
  void describe();
  bool train_epoch();
  void draw(const Batch& batch);
  void mix(const Batch& batch, const Plan& plan);
  void train_batch(const Batch& batch);
  bool validate();
  void forget_validation();
  void finish_epoch();
  void save();
  void record();
  std::string row(const std::string& middle, const std::string& tail) const;
  std::string judgement() const;
  void tell_pictures();
  TrainResult result() const;

  std::int64_t epochs() const { return *options_.epochs; }
  double data_pct() const { return 100 * waited_ / std::max(progress_.seconds, 1e-9); }

  const TrainOptions options_;
  const TrainControl control_;
  Console& console_;
  const fs::path folder_, weights_;
  Model model_;
  const Dataset dataset_;
  const Preprocess preprocess_;
  const PictureSize train_size_;
  const Schedule schedule_;
  std::unique_ptr<Optimizer> optimizer_;
  Tensor random_;
  Progress progress_;
  ModelCard card_;

  std::vector<int> partners_;  // what mixing needs
  std::vector<std::int64_t> partner_labels_;
  MixBuffers mix_buffers_;

  std::unique_ptr<BatchSource> loader_;
  std::optional<Validation> validation_;
  Compiled plans_;
  ResultsCsv results_;
  MetricsFile metrics_;
  TensorBoardWriter board_;
  std::optional<Evaluation> evaluation_;  // of the epoch that is being finished; or, of multi-label data:
  std::optional<MultiLabelEvaluation> multi_label_evaluation_;
  double validation_seconds_ = 0;
  double waited_ = 0;  // for batches of the current epoch, as far as this process trained it, seconds
  bool data_changed_ = false;  // since the run was begun
  bool hinted_ = false, turned_told_ = false;
  std::size_t train_bad_told_ = 0, val_bad_told_ = 0;
};

Tensor random_key(const TrainOptions& options, Device device) {
  const std::int64_t key[] = {options.seed, 0};
  return Tensor::from({2}, std::span<const std::int64_t>(key), device);
}

Tensor weights_tensor(const std::vector<float>& weights, Device device) {
  if (weights.empty()) return {};
  return Tensor::from({static_cast<std::int64_t>(weights.size())}, std::span<const float>(weights), device);
}

Model& placed(Model& model, Device device) {
  for (const Parameter& parameter : named_parameters(model)) parameter.tensor.place(device);
  return model;
}

Progress start_or_load(const fs::path& weights, Model& model, TrainState state, bool resumed,
                       std::int64_t epochs) {
  if (!resumed) return {};
  const Progress progress = load_state(weights, model, state);
  require(progress.epoch <= epochs, "epochs is ", epochs, ", but the run has ", progress.epoch,
          " already; give at least as many");
  return progress;
}

Run::Run(Model model, const Dataset& dataset, const TrainOptions& resolved, fs::path folder,
         const TrainControl& control, bool resumed)
    : options_(resolved),
      control_(control),
      console_(*control.console),
      folder_(std::move(folder)),
      weights_(folder_ / "weights"),
      model_(std::move(model)),
      dataset_(dataset),
      preprocess_(preprocess_of(options_)),
      train_size_(*options_.train_imgsz),
      schedule_(schedule_of(options_)),
      optimizer_(optimizer_of(options_, named_parameters(placed(model_, device_named(options_.device))))),
      random_(random_key(options_, device_named(options_.device))),
      progress_(start_or_load(weights_, model_, {optimizer_.get(), random_}, resumed, *options_.epochs)),
      loader_(open_loader(options_.loader, dataset_, Split::train, training_preprocess_of(options_),
                          augment_of(options_), training_loader(options_, dataset_.size(Split::train)))),
      plans_(training_step(model_, *optimizer_, loss_of(options_),
                           weights_tensor(class_weights_of(options_, dataset_), device_named(options_.device))),
             PlanOptions{.training = true,
                         .deterministic = options_.deterministic,
                         .device = device_named(options_.device),
                         .random = random_}),
      results_(folder_ / "results.csv", progress_.epoch, multi_label()),
      metrics_(folder_ / "metrics.jsonl", progress_.epoch),
      board_(folder_, resumed ? std::optional(progress_.step + 1) : std::nullopt) {
  if (dataset_.size(Split::val) > 0) validation_.emplace(model_, dataset_, Split::val, preprocess_, options_);
  TrainOptions copy = options_;
  Options named;
  copy.visit(named);
  fs::create_directories(weights_);
  card_ = {.model = model_.name,
           .in_chans = model_.in_chans,
           .class_names = dataset_.class_names(),
           .preprocess = preprocess_,
           .options = named.yaml(),
           .source = model_.source};
  forget_validation();
  write_file(folder_ / "args.yaml", card_.options);
  if (!resumed) write_file(folder_ / "env.json", environment_json() + '\n');
  if (!card_.source.empty()) write_file(folder_ / "model.toml", card_.source);
  const std::string facts = data_json(dataset_) + '\n';
  const fs::path told = folder_ / "data.json";
  data_changed_ = resumed && fs::exists(told) && read_file(told) != facts;
  write_file(told, facts);
  if (!resumed) write_file(weights_ / "model.json", model_json(card_) + '\n');
  write_file(weights_ / "labels.txt", join(card_.class_names, "\n") + '\n');
}

void Run::describe() {
  console_.say(text("neurim ", version(), untouched() ? "  train  " : "  resume  ", model_.name, "  ",
                    options_.data, " (", dataset_.class_names().size(), " classes, ",
                    multi_label() ? "multi-label, " : "", thousands(dataset_.size(Split::train)), " train / ",
                    thousands(dataset_.size(Split::val)), " val)"));
  console_.say(text("  run     ", folder_.string(), " · ", options_.device, ", ", threads(), " threads · ",
                    thousands(parameter_count(model_)), " parameters · input ", preprocess_.channels, "x",
                    preprocess_.height, "x", preprocess_.width,
                    preprocess_.height == preprocess_.width ? "" : " (channels x height x width)"));
  for (const std::string& note : dataset_.notes()) console_.say(text("  data    ", note));
  const std::vector<std::int64_t> counts = dataset_.class_counts(Split::train);
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  if (*most > kImbalance * std::max<std::int64_t>(*least, 1) && options_.sampler == "each" &&
      options_.class_weights == "none")
    console_.say(text("  data    classes have ", thousands(*least), " to ", thousands(*most),
                      " training pictures: ", multi_label() ? "" : "sampler=balanced or ",
                      "class_weights=sqrt helps the rare ones"));
  if (data_changed_)
    console_.say("  data    the data are not those that the run was begun with: figures before and after differ in that too");
  if (const double cut = median_cut(preprocess_, dataset_); cut > kMuchCut)
    console_.say(text("  data    the centre crop of evaluation cuts off ", fixed(cut * 100, 0),
                      " % of the median picture for its shape: resize=letterbox or squash shows all of it"));
  if (!validation_) console_.say("  data    there is no validation split: the last epoch counts as the best");
  console_.say(text("   Epoch     loss  val_loss    ", multi_label() ? " map" : "top1",
                    "      f1        lr    img/s  data%    time"));
}

/// The first batches and the counts of the classes, for people to look at.
void Run::draw(const Batch& batch) {
  write_file(folder_ / text("train_batch", progress_.step, ".jpg"),
             batch_picture(batch, training_preprocess_of(options_), dataset_.class_names()));
  if (progress_.step > 0) return;
  std::vector<ClassCounts> splits;
  for (const Split split : kSplits)
    if (dataset_.size(split) > 0) splits.push_back({std::string(name(split)), dataset_.class_counts(split)});
  write_file(folder_ / "labels.png", class_counts_picture(dataset_.class_names(), splits));
}

/// Mixes each picture with its counterpart from the end of the batch.
void Run::mix(const Batch& batch, const Plan& plan) {
  const int height = static_cast<int>(train_size_.height), width = static_cast<int>(train_size_.width);
  Random random(static_cast<std::uint64_t>(options_.seed), static_cast<std::uint64_t>(progress_.step), kMixStream);
  const Mix drawn = draw_mix(mix_of(options_), height, width, random);
  partners_.resize(static_cast<std::size_t>(batch.size));
  std::iota(partners_.rbegin(), partners_.rend(), 0);
  mix_images(drawn, partners_, preprocess_.channels, height, width, batch.images, mix_buffers_);
  if (multi_label()) {
    const Mix blend{.kind = Mix::Kind::mixup, .lambda = drawn.lambda};  // also where pictures are cut
    const auto classes = static_cast<int>(dataset_.class_names().size());
    return mix_images(blend, partners_, classes, 1, 1, batch.targets, mix_buffers_);
  }
  partner_labels_.assign(batch.labels.rbegin(), batch.labels.rend());
  const float lambda = static_cast<float>(drawn.lambda);
  plan.inputs()[2].write(partner_labels_.data());
  plan.inputs()[3].write(&lambda);
}

void Run::train_batch(const Batch& batch) {
  if (options_.plots && progress_.step < kDrawnBatches) draw(batch);
  optimizer_->set_lr(
      schedule_.at(static_cast<double>(progress_.epoch) +
                   static_cast<double>(progress_.batch) / static_cast<double>(loader_->batches())));
  const bool mixed = options_.mixup > 0 || options_.cutmix > 0;
  const Plan& plan = plans_.plan_for(
      multi_label() ? multi_label_types(batch.size, preprocess_.channels, train_size_.height, train_size_.width,
                                        std::ssize(dataset_.class_names()))
                    : batch_types(batch.size, preprocess_.channels, train_size_.height, train_size_.width, mixed));
  if (mixed) mix(batch, plan);
  run_batch(plan, batch);
  const double loss = plan.outputs()[0].item();
  if (!std::isfinite(loss))
    fail(Fault::failure, "the loss is ", std::isnan(loss) ? "not a number" : "infinite", " at epoch ",
         progress_.epoch + 1, ", step ", progress_.batch + 1, " of ", loader_->batches(), " (lr ",
         optimizer_->lr(), "); most likely the learning rate is too high: try lr=", *options_.lr / 10,
         "; the state after epoch ", progress_.epoch, " is kept in ", weights_.string());
  progress_.loss_sum += loss * batch.size;
  progress_.correct += plan.outputs()[1].item();
  progress_.seen += batch.size;
  ++progress_.batch;
  ++progress_.step;
}

std::string cell(const std::string& value, std::size_t width) {
  return std::string(width - std::min(width, value.size()), ' ') + value;
}

std::string cell(double value, int decimals, std::size_t width) {
  return cell(std::isnan(value) ? "-" : fixed(value, decimals), width);
}

/// A bar as wide as the three columns of the validation's figures: 26.
std::string bar_cell(std::string_view what, double share) {
  const int columns = what.empty() ? 18 : 7;
  return text("  ", what, what.empty() ? "" : " ", bar(share, columns), cell(share * 100, 0, 4), " %");
}

/// The columns of the validation's figures.
std::string Run::judgement() const {
  const Figures& f = card_.figures;
  return cell(f.loss, 4, 10) + cell((f.multi_label ? f.map : f.top1) * 100, 2, 8) +
         cell(f.f1_macro * 100, 2, 8);
}

std::string Run::row(const std::string& middle, const std::string& tail) const {
  const auto seen = static_cast<double>(std::max<std::int64_t>(progress_.seen, 1));
  char lr[32];
  std::snprintf(lr, sizeof lr, "%.1e", optimizer_->lr());
  return cell(text(progress_.epoch + 1, '/', epochs()), 8) + cell(progress_.loss_sum / seen, 4, 9) + middle +
         cell(lr, 10) + cell(seen / std::max(progress_.seconds, 1e-9), 0, 9) + cell(data_pct(), 0, 7) + tail;
}

bool Run::train_epoch() {
  if (progress_.batch == loader_->batches()) return true;
  loader_->start(static_cast<std::uint32_t>(progress_.epoch), progress_.batch);
  Batch batch;
  Clock::time_point start = Clock::now();
  while (loader_->next(batch)) {
    waited_ += since(start);
    train_batch(batch);
    progress_.seconds += since(start);
    start = Clock::now();
    const double share = static_cast<double>(progress_.batch) / static_cast<double>(loader_->batches());
    const double left = progress_.seconds * (static_cast<double>(epochs() - progress_.epoch) - share) / share;
    console_.progress(row(bar_cell("", share), text("  ETA ", duration(left))));
    if (stopping()) return false;
  }
  return true;
}

/// What the card says of the last validation holds no longer.
void Run::forget_validation() {
  card_.figures = {.multi_label = multi_label()};
  card_.thresholds.assign(multi_label() ? card_.class_names.size() : 0, 0.5);
  card_.reject_threshold = Figures::kNone;
}

bool Run::validate() {
  const Clock::time_point start = Clock::now();
  forget_validation();
  const Validation::Watch watch = [&](double share) {
    console_.progress(row(bar_cell("validation", share), cell(duration(progress_.seconds), 8)));
    return !stopping();
  };
  if (validation_ && multi_label()) {
    multi_label_evaluation_ = validation_->run_multi_label(watch);
    if (!multi_label_evaluation_) return false;
    multi_label_evaluation_->fit_thresholds();
    card_.thresholds = multi_label_evaluation_->thresholds();
    card_.figures = figures_of(*multi_label_evaluation_);
  } else if (validation_) {
    evaluation_ = validation_->run(watch);
    if (!evaluation_) return false;
    card_.reject_threshold = evaluation_->reject_threshold(options_.reject_keep);
    card_.figures = figures_of(*evaluation_);
  }
  validation_seconds_ = since(start);
  return true;
}

void Run::record() {
  const Figures& f = card_.figures;
  const auto seen = static_cast<double>(std::max<std::int64_t>(progress_.seen, 1));
  const EpochResult result{.epoch = progress_.epoch + 1,
                           .step = progress_.step,
                           .seconds = progress_.seconds + validation_seconds_,
                           .images_per_second = seen / std::max(progress_.seconds, 1e-9),
                           .data_pct = data_pct(),
                           .learning_rate = optimizer_->lr(),
                           .train_loss = progress_.loss_sum / seen,
                           .train_accuracy = progress_.correct / seen,
                           .val = f};
  results_.append(result);
  Json json{{"event", "epoch"},
            {"epoch", result.epoch},
            {"step", result.step},
            {"seconds", result.seconds},
            {"images_per_second", result.images_per_second},
            {"data_pct", result.data_pct},
            {"learning_rate", result.learning_rate},
            {"train_loss", result.train_loss},
            {multi_label() ? "train_exact_match" : "train_top1", result.train_accuracy},
            {"val_loss", number(f.loss)}};
  for (const NamedFigure& one : named_figures(multi_label()))
    if (one.value != &Figures::loss) json[one.name] = number(f.*one.value);
  const std::string line = json.dump();
  metrics_.append(line);
  console_.event(line);
  std::vector<Scalar> scalars{{"loss/train", result.train_loss},
                              {multi_label() ? "exact_match/train" : "accuracy/train", result.train_accuracy},
                              {"lr", result.learning_rate},
                              {"images_per_second", result.images_per_second},
                              {"data_pct", result.data_pct}};
  if (validation_) scalars.insert(scalars.end(), {{"loss/val", f.loss}, {"f1_macro/val", f.f1_macro}});
  if (validation_ && multi_label())
    scalars.insert(scalars.end(),
                   {{"map/val", f.map}, {"f1_micro/val", f.f1_micro}, {"exact_match/val", f.exact_match}});
  else if (validation_)
    scalars.insert(scalars.end(), {{"accuracy/val", f.top1}, {"accuracy/val_top5", f.top5}});
  board_.write(result.step, scalars);
  if (options_.plots) write_file(folder_ / "results.png", results_picture(results_.rows()));
}

void Run::save() {
  card_.epoch = progress_.epoch;
  card_.step = progress_.step;
  save_state(weights_, model_, card_, {optimizer_.get(), random_}, progress_);
}

/// Names what the pictures turned out to be since it was called last: unreadable, or lying on their side.
void Run::tell_pictures() {
  const auto tell = [&](const std::vector<BadSample>& bad, std::size_t& told, Split split) {
    if (told == bad.size()) return;
    for (; told < bad.size(); ++told) console_.say(text("  data    skipped: ", bad[told].reason));
    console_.say(text("  data    ", told, " of ", thousands(dataset_.size(split)), ' ', split,
                      " pictures cannot be read and are skipped"));
  };
  tell(loader_->bad(), train_bad_told_, Split::train);
  if (validation_) tell(validation_->bad(), val_bad_told_, Split::val);
  if (!turned_told_ && loader_->turned() > 0) {
    console_.say(text("  data    EXIF says to turn ", thousands(loader_->turned()),
                      " training pictures, which is done here and in every later use; exif=false leaves them"));
    turned_told_ = true;
  }
}

void Run::finish_epoch() {
  record();
  const double now = merit(options_.monitor, card_.figures);
  const bool best = !validation_ || now > progress_.best || (std::isnan(progress_.best) && !std::isnan(now));
  console_.say(row(judgement(), cell(duration(progress_.seconds + validation_seconds_), 8) +
                                    (best && validation_ ? "  best" : "")));
  tell_pictures();
  if (data_pct() > kMuchWaiting && progress_.seconds > 10 && !hinted_) {
    console_.say(text("  data    ", fixed(data_pct(), 0), " % of the time goes by waiting for pictures: ",
                      "try more workers, a larger cache_mib, or smaller pictures"));
    hinted_ = true;
  }

  ++progress_.epoch;
  progress_.batch = progress_.seen = 0;
  progress_.loss_sum = progress_.correct = progress_.seconds = waited_ = 0;
  if (best) {
    progress_.best = now;
    progress_.best_epoch = progress_.epoch;
    card_.epoch = progress_.epoch;
    card_.step = progress_.step;
    save_model(model_, weights_ / "best.safetensors", metadata_of(card_));
    write_file(weights_ / "model.json", model_json(card_) + '\n');
    if (evaluation_) write_report(*evaluation_, folder_, options_.plots);
    if (multi_label_evaluation_) write_report(*multi_label_evaluation_, folder_);
  }
  save();
}

TrainResult Run::result() const {
  TrainResult result{.run = folder_,
                     .model = weights_ / "best.safetensors",
                     .best_epoch = progress_.best_epoch,
                     .epochs = progress_.epoch};
  if (progress_.best_epoch > 0)
    result.figures = card_of(SafeTensors(result.model).metadata(), result.model).figures;
  return result;
}

TrainResult Run::go() {
  describe();
  if (untouched()) save();  // a full disk shows before an hour of work
  if (progress_.epoch == epochs())
    console_.say(text("  all ", epochs(), " epochs are done; more of them: epochs=", 2 * epochs()));
  const auto stopped = [&] {
    if (progress_.batch > 0) forget_validation();
    save();
    TrainResult stop = result();
    stop.stopped = true;
    return stop;
  };
  while (progress_.epoch < epochs()) {
    if (!train_epoch() || !validate()) return stopped();
    finish_epoch();
    if (options_.patience > 0 && progress_.epoch - progress_.best_epoch >= options_.patience) {
      console_.say(text("No better ", options_.monitor, " for ", options_.patience, " epochs: done."));
      break;
    }
    if (stopping() && progress_.epoch < epochs()) return stopped();
  }
  return result();
}

/// Pixels are scaled as those that the weights were learnt from.
void take_scaling(Model& model, const Preprocess& preprocess) {
  const auto fitted = [&](std::vector<double> values) {
    const auto channels = static_cast<std::size_t>(model.in_chans);
    if (values.size() == channels) return values;
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    return std::vector<double>(channels, sum / static_cast<double>(values.size()));
  };
  model.mean = fitted(preprocess.mean);
  model.deviation = fitted(preprocess.std);
}

/// The first weights from elsewhere; what is not as it was there is said.
void take_weights(Model& model, const Weights& weights, Console& console) {
  const LoadReport report = load_model(model, weights.tensors, Fit::adapt);
  console.say(text("  weights ", report.taken, " of ", report.all, " tensors from ", weights.tensors.path.string()));
  for (const std::string& note : report.notes) console.say(text("  weights ", note));
}

void print_choices(const TrainOptions& asked, const TrainOptions& resolved, Console& console) {
  TrainOptions before = asked, after = resolved;
  Options was, is;
  before.visit(was);
  after.visit(is);
  constexpr std::size_t kColumns = 100;
  const std::string head = "  auto   ";
  std::string line = head;
  for (std::size_t i = 0; i < was.list().size(); ++i) {
    const std::string value = is.list()[i].get();
    if (was.list()[i].get() == value) continue;
    const std::string choice = text(' ', is.list()[i].name, '=', value);
    if (line.size() + choice.size() > kColumns) {
      console.say(line);
      line = std::string(head.size(), ' ');
    }
    line += choice;
  }
  console.say(line);
}

/// Options that hold for the whole process.
void use_machine(const TrainOptions& options) {
  if (options.threads) set_threads(*options.threads);
}

TrainControl with_console(TrainControl control, Console& otherwise) {
  if (!control.console) control.console = &otherwise;
  return control;
}

Dataset open_for_training(const std::string& path, const DatasetOptions& options) {
  Dataset dataset = Dataset::open(path, options);
  if (dataset.size(Split::train) == 0)
    fail(Fault::data, path, ": the training split is empty; put pictures in train/CLASS/");
  return dataset;
}

TrainResult start(Model model, const Dataset& dataset, const TrainOptions& options,
                  const TrainControl& control) {
  const auto classes = static_cast<std::int64_t>(dataset.class_names().size());
  require(model.num_classes == classes, model.name, ": the model has ", model.num_classes,
          " classes, the data ", classes, "; build it with num_classes=", classes);
  std::optional<Weights> weights;
  if (!options.pretrained.empty()) weights = open_weights(options.pretrained);
  if (weights && weights->card) take_scaling(model, weights->card->preprocess);
  const TrainOptions resolved = options.resolved(model, dataset);
  const fs::path folder = make_run_folder(resolved.project, resolved.name, resolved.exist_ok);
  Console silent({.quiet = true});
  const TrainControl watched = with_console(control, silent);
  Console& console = *watched.console;
  console.log_into(folder / "log.txt");
  std::optional<Run> run;
  try {
    if (weights) take_weights(model, *weights, console);
    print_choices(options, resolved, console);
    run.emplace(std::move(model), dataset, resolved, folder, watched, false);
    return run->go();
  } catch (...) {
    // What fails before the first step leaves nothing to look at or to resume.
    std::error_code ignored;
    if (!resolved.exist_ok && (!run || run->untouched())) fs::remove_all(folder, ignored);
    throw;
  }
}

/// The channels of a model where nobody says: of pictures in memory what they have without alpha, of picture files
/// those that are more than colour and alpha; 0 for the model's own.
std::int64_t natural_channels(const Dataset& dataset) {
  if (const auto size = dataset.in_memory())
    return size->channels == 2 || size->channels == 4 ? size->channels - 1 : size->channels;
  const std::vector<ImageHeader> headers = some_headers(dataset, 1);
  return headers.empty() || headers[0].channels <= 4 ? 0 : headers[0].channels;
}

/// How a network of the file is made for data: what neither the options nor the file say follows from them.
ModelFileOptions for_data(const ModelFile& file, const TrainOptions& options, const Dataset& dataset) {
  ModelFileOptions wanted{.num_classes = static_cast<std::int64_t>(dataset.class_names().size()),
                          .in_chans = options.in_chans.value_or(0),
                          .seed = static_cast<std::uint64_t>(options.seed)};
  if (!options.in_chans && !file.says("in_chans") && options.pretrained.empty())
    wanted.in_chans = natural_channels(dataset);
  const auto stored = dataset.in_memory();
  if (options.imgsz)
    wanted.height = options.imgsz->height, wanted.width = options.imgsz->width;
  else if (stored && !file.says("imgsz"))
    wanted.height = stored->height, wanted.width = stored->width;
  return wanted;
}

}  // namespace

TrainResult train(const TrainOptions& options, const TrainControl& control) {
  require(!options.data.empty(), "data is missing; give the folder of your pictures: data=DIR");
  require(!options.model.empty(), "the model is missing; give a model file (.toml) or a name that `neurim models` lists: model=NAME");
  options.check();
  // An unknown name, or a file that is no model file, shows before the data are read.
  std::optional<ModelFile> file;
  if (is_model_file(options.model))
    file.emplace(read_file(options.model), options.model);
  else
    create_model(options.model, {.seed = {}});
  use_machine(options);
  DatasetOptions dataset_options = dataset_of(options);
  dataset_options.class_names = classes_of(options);
  const Dataset dataset = open_for_training(options.data, dataset_options);
  if (file) {
    const ModelFileOptions wanted = for_data(*file, options, dataset);
    TrainOptions sized = options;
    const auto [height, width] = file->size(wanted);
    if (height != width) sized.imgsz = PictureSize(height, width);  // a model tells of one side
    return start(file->build(wanted), dataset, sized, control);
  }
  std::int64_t channels = options.in_chans.value_or(0);
  if (!options.in_chans && options.pretrained.empty()) channels = natural_channels(dataset);
  Model model =
      create_model(options.model, {.num_classes = static_cast<std::int64_t>(dataset.class_names().size()),
                                   .in_chans = channels,
                                   .seed = static_cast<std::uint64_t>(options.seed)});
  return start(std::move(model), dataset, options, control);
}

TrainResult train(Model model, const Dataset& dataset, const TrainOptions& options,
                  const TrainControl& control) {
  options.check();
  use_machine(options);
  return start(std::move(model), dataset, options, control);
}

TrainResult resume(const fs::path& run, std::optional<std::int64_t> epochs, const TrainControl& control) {
  const fs::path file = run / "args.yaml";
  if (!fs::exists(file))
    fail(Fault::data, run.string(),
         ": is no run folder: it holds no args.yaml; give the folder that train printed");
  TrainOptions options;
  Options named;
  options.visit(named);
  named.read_yaml(read_file(file), file.string());
  if (epochs) options.epochs = epochs;
  if (options.data.empty() || options.model.empty())
    fail(Fault::data, file.string(), ": names no ", options.data.empty() ? "data" : "model",
         "; it is damaged, put the line back");
  options.check();
  use_machine(options);
  DatasetOptions dataset_options = dataset_of(options);
  const fs::path last = run / "weights" / "last.safetensors";
  std::optional<ModelCard> card;
  if (fs::exists(last)) card = card_of(SafeTensors(last).metadata(), last);
  if (card) dataset_options.class_names = card->class_names;
  const Dataset dataset = open_for_training(options.data, dataset_options);
  Model model = card && !card->source.empty()
                    ? model_of(*card, last)
                    : create_model(options.model,
                                   {.num_classes = static_cast<std::int64_t>(dataset.class_names().size()),
                                    .in_chans = options.in_chans.value_or(0),
                                    .seed = {}});
  options = options.resolved(model, dataset);  // the file may have been edited
  Console silent({.quiet = true});
  const TrainControl watched = with_console(control, silent);
  watched.console->log_into(run / "log.txt");
  return Run(std::move(model), dataset, options, run, watched, true).go();
}

}  // namespace neurim
