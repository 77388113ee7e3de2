#include "neurim/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/base/writable.h"
#include "neurim/compile/plan.h"
#include "neurim/core/device.h"
#include "neurim/data/statistics.h"
#include "neurim/model/model_file.h"
#include "neurim/model/recurrent_models.h"
#include "neurim/model/state.h"
#include "neurim/model/zoo.h"
#include "neurim/train/environment.h"
#include "neurim/train/model_folder.h"
#include "neurim/train/picture_task.h"
#include "neurim/train/results_csv.h"
#include "neurim/train/run_folder.h"
#include "neurim/train/sequence_task.h"
#include "neurim/train/tensorboard.h"

namespace neurim {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The value that larger means better; NaN is never better.
double merit(const std::string& monitor, const Figures& figures) {
  for (const NamedFigure& one : names_of(figures.task).figures)
    if (monitor == one.name) return one.lower_is_better ? -(figures.*one.value) : figures.*one.value;
  NEURIM_ASSERT(!"a monitor of the task");
  return Figures::kNone;
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

/// A run before anything of it is written: all is read and built.
class OpenRun {
 public:
  /// `control` has a console.
  OpenRun(PreparedRun prepared, fs::path folder, const TrainControl& control, bool resumed);
  void describe();
  bool untouched() const { return progress_.step == 0; }  ///< no step is done
  TrainResult result() const;                             ///< as it stands

 protected:
  bool out_of_patience() const {
    return options_.patience > 0 && progress_.epoch - progress_.best_epoch >= options_.patience;
  }
  std::int64_t epochs() const { return *options_.epochs; }

  const TrainOptions options_;
  const TrainControl control_;
  Console& console_;
  const fs::path folder_, weights_;
  Model model_;
  const std::unique_ptr<TrainingTask> task_;
  const Schedule schedule_;
  std::unique_ptr<Optimizer> optimizer_;
  Tensor random_;
  Progress progress_;
  ModelCard card_;
  const TaskNames& names_;
  const std::string facts_;
  const bool data_changed_;  // since the run was begun
};

/// One run, from the first step to the last.
class Run : public OpenRun {
 public:
  Run(PreparedRun prepared, fs::path folder, const TrainControl& control, bool resumed);
  TrainResult go();  ///< Error(resource) says how to go on

 private:
  TrainResult train_epochs();
  bool stopping() const { return control_.stop && control_.stop->load() != 0; }
  bool train_epoch();
  void train_batch();
  bool validate();
  void forget_validation();
  void finish_epoch();
  void save();
  void record();
  std::string row(const std::string& middle, const std::string& tail) const;
  std::string judgement() const;

  double data_pct() const { return 100 * waited_ / std::max(progress_.seconds, 1e-9); }

  Compiled plans_;
  ResultsCsv results_;
  MetricsFile metrics_;
  TensorBoardWriter board_;
  double validation_seconds_ = 0;
  double waited_ = 0;  // for batches of the current epoch, as far as this process trained it, seconds
};

Tensor random_key(const TrainOptions& options, Device device) {
  const std::int64_t key[] = {options.seed, 0};
  return Tensor::from({2}, std::span<const std::int64_t>(key), device);
}

Progress start_or_load(const fs::path& weights, Model& model, TrainState state, bool resumed,
                       std::int64_t epochs) {
  if (!resumed) return {};
  const Progress progress = load_state(weights, model, state);
  require(progress.epoch <= epochs, "epochs is ", epochs, ", but the run has ", progress.epoch,
          " already; give at least as many");
  return progress;
}

/// Whether the data are others than those that the run in the folder was begun with.
bool are_other_facts(const fs::path& folder, const std::string& facts) {
  const fs::path told = folder / "data.json";
  return fs::exists(told) && read_file(told) != facts;
}

OpenRun::OpenRun(PreparedRun prepared, fs::path folder, const TrainControl& control, bool resumed)
    : options_(std::move(prepared.options)),
      control_(control),
      console_(*control.console),
      folder_(std::move(folder)),
      weights_(folder_ / "weights"),
      model_(std::move(prepared.model)),
      task_(std::move(prepared.task)),
      schedule_(schedule_of(options_)),
      optimizer_(
          optimizer_of(options_, named_parameters(Model(place(model_, device_named(options_.device)))))),
      random_(random_key(options_, device_named(options_.device))),
      progress_(start_or_load(weights_, model_, {optimizer_.get(), random_}, resumed, *options_.epochs)),
      card_(task_->card()),
      names_(names_of(card_.task())),
      facts_(task_->facts() + '\n'),
      data_changed_(resumed && are_other_facts(folder_, facts_)) {}

Run::Run(PreparedRun prepared, fs::path folder, const TrainControl& control, bool resumed)
    : OpenRun(std::move(prepared), std::move(folder), control, resumed),
      plans_(task_->step(*optimizer_), PlanOptions{.training = true,
                                                   .deterministic = options_.deterministic,
                                                   .device = device_named(options_.device),
                                                   .random = random_}),
      results_(folder_ / "results.csv", progress_.epoch, card_.task()),
      metrics_(folder_ / "metrics.jsonl", progress_.epoch),
      board_(folder_, resumed ? std::optional(progress_.step + 1) : std::nullopt) {
  TrainOptions copy = options_;
  Options named;
  copy.visit(named);
  fs::create_directories(weights_);
  for (const fs::path& written : {folder_, weights_}) remove_leftovers(written);
  card_.options = named.yaml();
  write_file(folder_ / "args.yaml", card_.options);
  if (!resumed) write_file(folder_ / "env.json", environment_json() + '\n');
  if (!card_.source.empty()) write_file(folder_ / "model.toml", card_.source);
  write_file(folder_ / "data.json", facts_);
  if (card_.sequence) return;
  if (!resumed) write_file(weights_ / "model.json", model_json(card_) + '\n');
  write_file(weights_ / "labels.txt", join(card_.class_names, "\n") + '\n');
}

std::string cell(const std::string& value, std::size_t width) {
  return std::string(width - std::min(width, value.size()), ' ') + value;
}

std::string cell(double value, int decimals, std::size_t width) {
  return cell(std::isnan(value) ? "-" : fixed(value, decimals), width);
}

void OpenRun::describe() {
  console_.say(text("neurim ", version(), untouched() ? "  train  " : "  resume  ", model_.name, "  ",
                    options_.data, " (", task_->contents(), ")"));
  console_.say(text("  run     ", folder_.string(), " · ", options_.device, ", ", threads(), " threads · ",
                    thousands(parameter_count(model_)), " parameters · input ", task_->input()));
  for (const std::string& note : task_->notes()) console_.say(text("  data    ", note));
  if (data_changed_)
    console_.say("  data    the data are not those that the run was begun with: figures before and after differ in that too");
  if (!task_->has_validation())
    console_.say("  data    there is no validation split: the last epoch counts as the best");
  if (progress_.epoch == epochs())
    console_.say(text("  all ", epochs(), " epochs are done; more of them: epochs=", 2 * epochs()));
  if (out_of_patience())
    console_.say(text("  no better ", options_.monitor, " for ", options_.patience,
                      " epochs: the run has ended; to go "
                      "on all the same, raise patience in ",
                      (folder_ / "args.yaml").string()));
}

void Run::train_batch() {
  optimizer_->set_lr(
      schedule_.at(static_cast<double>(progress_.epoch) +
                   static_cast<double>(progress_.batch) / static_cast<double>(task_->batches())));
  const Plan& plan = task_->run(plans_, progress_.step);
  if (options_.plots) task_->draw(folder_, progress_.step);  // as they were trained on, which may be mixed
  const double loss = plan.outputs()[0].item();
  if (!std::isfinite(loss))
    fail(Fault::failure, "the loss is ", std::isnan(loss) ? "not a number" : "infinite", " at epoch ",
         progress_.epoch + 1, ", step ", progress_.batch + 1, " of ", task_->batches(), " (lr ",
         significant(optimizer_->lr()),
         "); most likely the learning rate is too high: try lr=", significant(*options_.lr / 10),
         "; the state after epoch ", progress_.epoch, " is kept in ", weights_.string());
  progress_.loss_sum += loss * static_cast<double>(task_->batch_size());
  progress_.correct += plan.outputs()[1].item();
  progress_.seen += task_->batch_size();
  ++progress_.batch;
  ++progress_.step;
}

/// A bar as wide as the three columns of the validation's figures: 26.
std::string bar_cell(std::string_view what, double share) {
  const int columns = what.empty() ? 18 : 7;
  return text("  ", what, what.empty() ? "" : " ", bar(share, columns), cell(share * 100, 0, 4), " %");
}

/// The columns of the validation's figures.
std::string Run::judgement() const {
  std::string cells = cell(card_.figures.loss, 4, 10);
  for (const ShownFigure& shown : names_.shown) {
    const double value = card_.figures.*shown.value;
    cells += shown.percent ? cell(value * 100, 2, 8) : cell(std::isnan(value) ? "-" : significant(value), 8);
  }
  return cells;
}

std::string Run::row(const std::string& middle, const std::string& tail) const {
  const auto seen = static_cast<double>(std::max<std::int64_t>(progress_.seen, 1));
  char lr[32];
  std::snprintf(lr, sizeof lr, "%.1e", optimizer_->lr());
  return cell(text(progress_.epoch + 1, '/', epochs()), 8) + cell(progress_.loss_sum / seen, 4, 9) + middle +
         cell(lr, 10) + cell(seen / std::max(progress_.seconds, 1e-9), 0, 9) + cell(data_pct(), 0, 7) + tail;
}

bool Run::train_epoch() {
  const std::int64_t batches = task_->batches();
  if (progress_.batch == batches) return true;
  task_->start(static_cast<std::uint32_t>(progress_.epoch), progress_.batch);
  Clock::time_point start = Clock::now();
  while (task_->next()) {
    waited_ += since(start);
    train_batch();
    progress_.seconds += since(start);
    start = Clock::now();
    const double share = static_cast<double>(progress_.batch) / static_cast<double>(batches);
    const double left = progress_.seconds * (static_cast<double>(epochs() - progress_.epoch) - share) / share;
    console_.progress(row(bar_cell("", share), text("  ETA ", duration(left))));
    if (stopping()) return false;
  }
  return true;
}

/// What the card says of the last validation holds no longer.
void Run::forget_validation() {
  ModelCard fresh = task_->card();
  fresh.options = std::move(card_.options);
  card_ = std::move(fresh);
}

bool Run::validate() {
  const Clock::time_point start = Clock::now();
  forget_validation();
  const TrainingTask::Watch watch = [&](double share) {
    console_.progress(row(bar_cell("validation", share), cell(duration(progress_.seconds), 8)));
    return !stopping();
  };
  if (!task_->validate(watch, card_)) return false;
  validation_seconds_ = since(start);
  return true;
}

void Run::record() {
  const Figures& f = card_.figures;
  const auto seen = static_cast<double>(std::max<std::int64_t>(progress_.seen, 1));
  const EpochResult result{.epoch = progress_.epoch + 1,
                           .step = progress_.step,
                           .seconds = progress_.seconds + validation_seconds_,
                           .samples_per_second = seen / std::max(progress_.seconds, 1e-9),
                           .data_pct = data_pct(),
                           .learning_rate = optimizer_->lr(),
                           .train_loss = progress_.loss_sum / seen,
                           .train_figure = progress_.correct / seen,
                           .val = f};
  results_.append(result);
  JsonObject event{{"event", "epoch"},
                   {"epoch", result.epoch},
                   {"step", result.step},
                   {"seconds", result.seconds},
                   {names_.rate, result.samples_per_second},
                   {"data_pct", result.data_pct},
                   {"learning_rate", result.learning_rate},
                   {"train_loss", result.train_loss},
                   {text("train_", names_.train_figure), result.train_figure},
                   {"val_loss", f.loss}};
  for (const NamedFigure& one : names_.figures)
    if (one.value != &Figures::loss) event.add(one.name, f.*one.value);
  metrics_.append(event.line());
  console_.event(event);
  std::vector<std::pair<std::string, double>> points{{"loss/train", result.train_loss},
                                                     {text(names_.train_figure, "/train"), result.train_figure},
                                                     {"lr", result.learning_rate},
                                                     {names_.rate, result.samples_per_second},
                                                     {"data_pct", result.data_pct}};
  for (const NamedFigure& one : names_.figures)
    if (!std::isnan(f.*one.value)) points.emplace_back(text(one.name, "/val"), f.*one.value);
  std::vector<Scalar> scalars;
  for (const auto& [tag, value] : points) scalars.push_back({tag, value});
  board_.write(result.step, scalars);
  if (options_.plots) write_file(folder_ / "results.png", results_picture(results_.rows()));
}

void Run::save() {
  card_.epoch = progress_.epoch;
  card_.step = progress_.step;
  save_state(weights_, model_, card_, {optimizer_.get(), random_}, progress_);
}

void Run::finish_epoch() {
  record();
  const double now = merit(options_.monitor, card_.figures);
  const bool validated = task_->has_validation();
  const bool best = !validated || now > progress_.best || (std::isnan(progress_.best) && !std::isnan(now));
  console_.say(row(judgement(), cell(duration(progress_.seconds + validation_seconds_), 8) +
                                    (best && validated ? "  best" : "")));
  task_->tell(console_, data_pct(), progress_.seconds);

  ++progress_.epoch;
  progress_.batch = progress_.seen = 0;
  progress_.loss_sum = progress_.correct = progress_.seconds = waited_ = 0;
  if (best) {
    progress_.best = now;
    progress_.best_epoch = progress_.epoch;
    card_.epoch = progress_.epoch;
    card_.step = progress_.step;
    save_model(model_, weights_ / "best.safetensors", metadata_of(card_));
    if (!card_.sequence) write_file(weights_ / "model.json", model_json(card_) + '\n');
    task_->report(folder_);
  }
  save();
}

TrainResult OpenRun::result() const {
  TrainResult result{.run = folder_,
                     .model = weights_ / "best.safetensors",
                     .best_epoch = progress_.best_epoch,
                     .epochs = progress_.epoch,
                     .all_epochs = out_of_patience() ? progress_.epoch : epochs(),
                     .steps = task_->batches()};
  if (progress_.best_epoch > 0)
    result.figures = card_of(SafeTensors(result.model).metadata(), result.model).figures;
  return result;
}

TrainResult Run::go() {
  try {
    return train_epochs();
  } catch (const Error& error) {
    if (error.fault() != Fault::resource || untouched()) throw;
    fail(Fault::resource, error.what(), "; with that mended, go on with: neurim resume ", folder_.string());
  }
}

TrainResult Run::train_epochs() {
  describe();
  console_.say(text("   Epoch     loss  val_loss", cell(names_.shown[0].title, 8),
                    cell(names_.shown[1].title, 8), "        lr", cell(names_.rate_title, 9),
                    "  data%    time"));
  if (untouched()) save();  // a full disk shows before an hour of work
  const auto stopped = [&] {
    if (progress_.batch > 0) forget_validation();
    save();
    TrainResult stop = result();
    stop.stopped = true;
    return stop;
  };
  while (progress_.epoch < epochs() && !out_of_patience()) {
    if (!train_epoch() || !validate()) return stopped();
    finish_epoch();
    if (out_of_patience())
      console_.say(text("No better ", options_.monitor, " for ", options_.patience, " epochs: done."));
    else if (stopping() && progress_.epoch < epochs())
      return stopped();
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

/// What is said and built of a run that is not to be.
TrainResult described(PreparedRun prepared, const fs::path& folder, const TrainControl& control,
                      bool resumed) {
  OpenRun run(std::move(prepared), folder, control, resumed);
  run.describe();
  return run.result();
}

/// The options of a run that writes nothing.
TrainOptions without_files(TrainOptions options) {
  if (options.cache == "disk") options.cache = "none";
  return options;
}

/// A new run. `asked` are the options before they were resolved.
TrainResult start(PreparedRun prepared, const TrainOptions& asked, const std::optional<Weights>& weights,
                  const TrainControl& control) {
  const TrainOptions resolved = prepared.options;
  Console silent({.quiet = true});
  const TrainControl watched = with_console(control, silent);
  Console& console = *watched.console;
  if (control.dry_run) {
    const fs::path folder = run_folder_to_make(resolved.project, resolved.name, resolved.exist_ok);
    if (weights) take_weights(prepared.model, *weights, console);
    print_choices(asked, resolved, console);
    return described(std::move(prepared), folder, watched, false);
  }
  const fs::path folder = make_run_folder(resolved.project, resolved.name, resolved.exist_ok);
  console.log_into(folder / "log.txt");
  std::optional<Run> run;
  try {
    if (weights) take_weights(prepared.model, *weights, console);
    print_choices(asked, resolved, console);
    run.emplace(std::move(prepared), folder, watched, false);
    return run->go();
  } catch (...) {
    // What fails before the first step leaves nothing to look at or to resume.
    std::error_code ignored;
    if (!resolved.exist_ok && (!run || run->untouched())) fs::remove_all(folder, ignored);
    throw;
  }
}

TrainResult start(Model model, const Dataset& dataset, const TrainOptions& options, const TrainControl& control) {
  std::optional<Weights> weights;
  if (!options.pretrained.empty()) weights = open_weights(options.pretrained);
  if (weights && weights->card && !weights->card->sequence) take_scaling(model, weights->card->preprocess);
  return start(prepare_pictures(std::move(model), dataset, options), options, weights, control);
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

bool is_known(const std::string& model) {
  const std::vector<std::string> names = model_names();
  return std::find(names.begin(), names.end(), model) != names.end();
}

/// A run that is to go on. Its options are those of its args.yaml, which may have been edited: they are
/// resolved again.
struct StoppedRun {
  fs::path folder, last;  ///< `last`: its newest weights
  TrainOptions options;
  std::optional<ModelCard> card;  ///< of `last`, where there is one

  StoppedRun(const fs::path& run, std::optional<std::int64_t> epochs, const TrainControl& control,
             const std::string& device)
      : folder(run), last(run / "weights" / "last.safetensors") {
    const fs::path file = run / "args.yaml";
    if (!is_there(file))
      fail(Fault::data, run.string(),
           ": is no run folder: it holds no args.yaml; give the folder that train printed");
    Options named;
    options.visit(named);
    named.read_yaml(read_file(file), file.string());
    if (epochs) options.epochs = epochs;
    if (!device.empty()) options.device = device;
    options.check();
    if (control.dry_run) options = without_files(std::move(options));
    use_machine(options);
    if (fs::exists(last)) card = card_of(SafeTensors(last).metadata(), last);
  }

  TrainResult go_on(PreparedRun prepared, const TrainControl& control) const {
    Console silent({.quiet = true});
    const TrainControl watched = with_console(control, silent);
    if (control.dry_run) {
      check_can_write(folder / "args.yaml");
      const TaskKind task = prepared.task->card().task();
      TrainResult result = described(std::move(prepared), folder, watched, true);
      read_results(folder / "results.csv", result.epochs, task);
      return result;
    }
    watched.console->log_into(folder / "log.txt");
    return Run(std::move(prepared), folder, watched, true).go();
  }
};

}  // namespace

TrainResult train(const TrainOptions& given, const TrainControl& control) {
  const TrainOptions options = control.dry_run ? without_files(given) : given;
  require(!options.data.empty(), "data is missing; give a folder of pictures, or a file with a series or a text: data=DIR");
  require(!options.model.empty(), "the model is missing; give a model file (.toml) or a name that `neurim models` lists: model=NAME");
  options.check();
  use_machine(options);
  if (is_recurrent_model(options.model)) return start(prepare_sequence(options), options, {}, control);
  // An unknown name, or a file that is no model file, shows before the data are read.
  std::optional<ModelFile> file;
  if (is_model_file(options.model))
    file.emplace(read_file(options.model), options.model);
  else
    create_model(options.model, {.seed = {}});
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

TrainResult train(Model model, const Dataset& dataset, const TrainOptions& given,
                  const TrainControl& control) {
  const TrainOptions options = control.dry_run ? without_files(given) : given;
  options.check();
  use_machine(options);
  return start(std::move(model), dataset, options, control);
}

TrainResult resume(const fs::path& run, std::optional<std::int64_t> epochs, const TrainControl& control,
                   const std::string& device) {
  const StoppedRun stopped(run, epochs, control, device);
  const TrainOptions& options = stopped.options;
  const std::optional<ModelCard>& card = stopped.card;
  const bool of_file = card && !card->source.empty();  // which may be called as one that is known
  if (options.data.empty() || (card && !of_file && !card->sequence && !is_known(card->model)))
    fail(Fault::data, (run / "args.yaml").string(), ": names no ",
         options.data.empty() ? "data" : text("known model but '", card->model, '\''),
         ": the run was trained by a program; call resume(model, data, run) there");
  if (options.model.empty())
    fail(Fault::data, (run / "args.yaml").string(), ": names no model; it is damaged, put the line back");
  if (!of_file && is_recurrent_model(options.model))
    return stopped.go_on(prepare_sequence(options, card), control);
  DatasetOptions dataset_options = dataset_of(options);
  if (card) dataset_options.class_names = card->class_names;
  const Dataset dataset = open_for_training(options.data, dataset_options);
  Model model = of_file
                    ? model_of(*card, stopped.last)
                    : create_model(options.model,
                                   {.num_classes = static_cast<std::int64_t>(dataset.class_names().size()),
                                    .in_chans = options.in_chans.value_or(0),
                                    .seed = {}});
  return stopped.go_on(prepare_pictures(std::move(model), dataset, options), control);
}

TrainResult resume(Model model, const Dataset& dataset, const fs::path& run,
                   std::optional<std::int64_t> epochs, const TrainControl& control,
                   const std::string& device) {
  const StoppedRun stopped(run, epochs, control, device);
  if (stopped.card && stopped.card->class_names != dataset.class_names())
    fail(Fault::data, run.string(), ": was trained on the classes [", join(stopped.card->class_names, ", "),
         "], but the data have [", join(dataset.class_names(), ", "), "]; give the data of that run");
  return stopped.go_on(prepare_pictures(std::move(model), dataset, stopped.options), control);
}

}  // namespace neurim
