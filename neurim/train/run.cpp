#include "neurim/train/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/compile/tuning.h"
#include "neurim/core/device.h"
#include "neurim/data/decode.h"
#include "neurim/distributed/all_reduce.h"
#include "neurim/function/function.h"
#include "neurim/hardware/isa.h"
#include "neurim/hardware/machine.h"
#include "neurim/model/inference.h"
#include "neurim/model/state.h"
#include "neurim/train/environment.h"
#include "neurim/train/model_folder.h"
#include "neurim/train/run_folder.h"
#include "neurim/train/run_summary.h"

namespace neurim {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kOperations = "operations-";  // the begin of a file's name
constexpr const char* kTuningFile = "tuning.json";
constexpr double kTimedSteps = 3, kTimedSeconds = 2;  // before the run's duration is estimated

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Tensor random_key(const TrainOptions& options, Device device) {
  const std::int64_t key[] = {options.seed, 0};
  return Tensor::from({2}, std::span<const std::int64_t>(key), device);
}

Progress start_or_load(const fs::path& weights, Model& model, const TrainState& state, bool resumed,
                       std::int64_t epochs, Console& console) {
  if (!resumed) return {};
  std::vector<std::string> notes;
  const Progress progress = load_state(weights, model, state, notes);
  for (const std::string& note : notes) console.print(text("note: ", note));
  require(progress.epoch <= epochs, "epochs is ", epochs, ", but the run has ", progress.epoch,
          " already; give at least as many");
  return progress;
}

/// Whether the data differ from those with which the run in the folder was begun.
bool are_other_facts(const fs::path& folder, const std::string& facts) {
  const fs::path told = folder / "data.json";
  return fs::exists(told) && read_text(told) != facts;
}

}  // namespace

MetricsFile::MetricsFile(fs::path path, std::int64_t epochs_done) : path_(std::move(path)) {
  if (epochs_done == 0 || !fs::exists(path_)) return;
  const std::vector<std::string> lines = split(read_text(path_), '\n');
  for (std::size_t i = 0; i + 1 < lines.size() && i < static_cast<std::size_t>(epochs_done); ++i)
    content_ += lines[i] + '\n';
}

void MetricsFile::append(const std::string& line) {
  content_ += line + '\n';
  write_file(path_, content_);
}

OpenRun::OpenRun(PreparedRun prepared, fs::path folder, const TrainControl& control, bool resumed)
    : options_(std::move(prepared.options)),
      control_(control),
      console_(*control.console),
      folder_(std::move(folder)),
      model_(std::move(prepared.model)),
      task_(std::move(prepared.task)),
      schedule_(schedule_of(options_)),
      optimizer_(
          optimizer_of(options_, named_parameters(Model(place(model_, device_named(options_.device)))), control.job)),
      random_(random_key(options_, device_named(options_.device))),
      progress_(
          start_or_load(folder_ / "weights", model_, {optimizer_.get(), random_}, resumed, *options_.epochs, console_)),
      config_(task_->config()),
      goal_(config_.task()),
      notes_(std::move(prepared.notes)),
      facts_(task_->facts() + '\n'),
      data_changed_(resumed && are_other_facts(folder_, facts_)) {}

/// The choices of kernels. They are in the run's folder, so that a resumed run makes the same.
static std::shared_ptr<Tuning> tuning_of(const TrainOptions& options, const fs::path& folder, bool resumed) {
  return Tuning::named(options.tuning, options.tuning_file, resumed ? folder / kTuningFile : fs::path());
}

Run::Run(PreparedRun prepared, fs::path folder, fs::path place, const TrainControl& control, bool resumed)
    : OpenRun(std::move(prepared), std::move(folder), control, resumed),
      place_(std::move(place)),
      tuning_(tuning_of(options_, folder_, resumed)),
      stepping_(stepping_of({options_, control_.job, *task_, model_, *optimizer_, random_, plan_options(),
                             [this](const std::string& line) { console_.print(line); }})),
      results_(place_ / "results.csv", progress_.epoch, config_.task()),
      metrics_(place_ / "metrics.jsonl", progress_.epoch),
      board_(place_, resumed ? std::optional(progress_.step + 1) : std::nullopt) {
  TrainOptions copy = options_;
  Options named;
  copy.visit(named);
  if (!control_.devices.empty()) copy.device = control_.devices;
  make_folder(weights());
  if (control_.job.writes() && resumed) {
    std::error_code none;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_, none))
      if (entry.path().filename().string().rfind(kOperations, 0) == 0) fs::remove(entry.path(), none);
  }
  if (control_.job.writes())
    for (const fs::path& written : {folder_, folder_ / "weights"}) remove_leftovers(written);
  config_.options = named.yaml();
  write_file(place_ / "args.yaml", config_.options);
  if (!resumed) write_file(place_ / "env.json", environment_json() + '\n');
  if (!config_.source.empty()) write_file(place_ / "model.toml", config_.source);
  write_file(place_ / "data.json", facts_);
  if (!resumed) introduce();
  if (config_.sequence) return;
  if (!resumed) write_file(weights() / "model.json", model_json(config_) + '\n');
  write_file(weights() / "labels.txt", join(config_.class_names, "\n") + '\n');
}

PlanOptions Run::plan_options() const {
  return {.training = true,
          .deterministic = options_.deterministic,
          .compute_dtype = compute_dtype_named(options_.precision),
          .winograd = options_.winograd,
          .tuning = tuning_,
          .device = device_named(options_.device),
          .random = random_};
}

std::int64_t Run::optimizer_steps() const {
  const std::int64_t together = options_.grad_accum_steps, of_epoch = (task_->batches() + together - 1) / together;
  return progress_.epoch * of_epoch + (progress_.batch + together - 1) / together;
}

void OpenRun::describe() {
  console_.print(text("neurim ", version(), untouched() ? "  train  " : "  resume  ", model_.name, "  ", options_.data,
                      " (", task_->contents(), ")"));
  console_.print(text("  run     ", folder_.string(), " · ", options_.device, ", ",
                      control_.job.alone() ? "" : text(control_.job.size(), " processes of "),
                      plural(threads(), "thread"), " · ", thousands(parameter_count(model_)), " parameters · input ",
                      task_->input()));
  for (const std::string& note : notes_) console_.print(note);
  if (compute_dtype_named(options_.precision) == DType::f16 && !has_f16())
    console_.print(
        "  fp16    this machine has no arithmetic of fp16 (AVX512-FP16): it multiplies fp16 as f32, more slowly than "
        "f32 itself");
  if (const std::string idle = options_.parallel.idle(); control_.job.alone() && !idle.empty())
    console_.print(text("  alone   one process trains: ", idle, " has no effect"));
  if (options_.tuning == "on")
    console_.print("  tuning  kernels that are not known yet are measured first, for up to some minutes");
  if (const std::string validation = task_->validation(); !validation.empty())
    console_.print(text("  data    val: ", validation));
  for (const std::string& note : task_->notes()) console_.print(text("  data    ", note));
  if (data_changed_)
    console_.print(
        "  data    the data are not those that the run was begun with: metrics before and after differ in that too");
  if (progress_.batch > task_->batches())
    console_.print(text("  data    epoch ", progress_.epoch + 1, " was stopped after step ", progress_.batch,
                        ", and the data make ", task_->batches(), " now: it counts as done"));
  if (!task_->has_validation())
    console_.print("  data    there is no validation split: the last epoch counts as the best");
  if (progress_.epoch == epochs())
    console_.print(text("  all ", epochs(), " epochs are done; more of them: epochs=", 2 * epochs()));
  if (out_of_patience())
    console_.print(text("  no better ", options_.monitor, " for ", options_.patience,
                        " epochs: the run has ended; to go "
                        "on all the same, raise patience in ",
                        (folder_ / "args.yaml").string()));
}

void Run::train_batch() {
  const auto batches = static_cast<double>(task_->batches());
  const bool last = progress_.batch + 1 == task_->batches();  // of the epoch
  const double lr = schedule_.at(static_cast<double>(progress_.epoch) + static_cast<double>(progress_.batch) / batches,
                                 1 / batches);
  const std::vector<StepSums> known = stepping_->run(
      {.step = progress_.step,
       .lr = lr,
       .steps = last || (progress_.batch + 1) % options_.grad_accum_steps == 0,
       .stop = asked_to_stop()});
  if (options_.plots && control_.job.writes() && task_->batch_size() > 0)
    task_->draw(place_, progress_.step);  // as trained on, possibly mixed
  count(known);
  ++progress_.batch;
  ++progress_.step;
}

/// Adds what steps came to. Throws Error(failure) where it is not finite.
void Run::count(const std::vector<StepSums>& known) {
  for (const StepSums& sums : known) {
    stops_ = stops_ || sums.stop;
    if (const double loss = sums.loss / sums.samples; !std::isfinite(loss))
      fail(Fault::failure, "the loss is ", std::isnan(loss) ? "not a number" : "infinite", " at epoch ",
           progress_.epoch + 1, ", step ", progress_.batch + 1, " of ", task_->batches(), " (lr ",
           significant(optimizer_->lr()),
           "); most likely the learning rate is too high: try lr=", significant(*options_.lr / 10),
           resumable() ? text("; the state after epoch ", progress_.epoch, " is kept in ", weights().string()) : "");
    progress_.loss_sum += sums.loss;
    progress_.correct += sums.metric;
    progress_.seen += static_cast<std::int64_t>(sums.samples);
  }
  if (optimizer_->loss_scale() < 1)
    fail(Fault::failure, "the gradients are not finite at epoch ", progress_.epoch + 1, ", step ", progress_.batch + 1,
         " of ", task_->batches(), " (lr ", significant(optimizer_->lr()),
         "), however little the loss is scaled; try precision=bf16, whose numbers are not limited to 65,504, or lr=",
         significant(*options_.lr / 10));
}

/// The columns of the validation metrics.
std::string Run::evaluation() const {
  std::string cells = cell(config_.metrics.loss(), 4, 10);
  for (const ShownMetric& shown : goal_.shown) {
    const double value = config_.metrics[shown.metric];
    cells += shown.percent ? cell(value * 100, 2, 8) : cell(std::isnan(value) ? "-" : significant(value), 8);
  }
  return cells;
}

/// Epoch and mean loss.
std::string Run::begin_of_row() const {
  const auto seen = static_cast<double>(std::max<std::int64_t>(progress_.seen, 1));
  return cell(text(progress_.epoch + 1, '/', epochs()), 8) + cell(progress_.loss_sum / seen, 4, 9);
}

/// The columns after the validation metrics.
std::vector<std::string> Run::rates() const {
  const auto seen = static_cast<double>(std::max<std::int64_t>(progress_.seen, 1));
  char lr[32];
  std::snprintf(lr, sizeof lr, "%.1e", optimizer_->lr());
  return {cell(lr, 10), cell(seen / std::max(progress_.seconds, 1e-9), 0, 9), cell(data_pct(), 0, 7)};
}

std::string Run::row(const std::string& middle, const std::string& tail) const {
  return begin_of_row() + middle + join(rates(), "") + tail;
}

/// The row with a progress bar in place of the validation metrics. On a narrow terminal the bar is shorter; if that is
/// not enough, whole columns are left out.
std::string Run::progress_row(std::string label, double share, std::string tail) const {
  constexpr int kColumns = 26;  // of the validation metrics
  const std::string begin = begin_of_row();
  std::string percent = cell(share * 100, 0, 4) + " %";
  const int longest = kColumns - static_cast<int>(label.size() + percent.size());
  std::vector<std::string> others = rates();
  const auto room = [&] {
    return static_cast<int>(console_.progress_columns()) -
           static_cast<int>(begin.size() + label.size() + percent.size() + join(others, "").size() + tail.size());
  };
  while (!others.empty() && room() < 0) others.pop_back();
  if (room() < 0) label = "  ";
  if (room() < 0) tail.clear();
  if (room() < 0) percent.clear();
  return begin + label + bar(share, std::clamp(room(), 0, longest)) + percent + join(others, "") + tail;
}

/// Prints how well the processes have shared the work of this command.
void Run::report_scaling() {
  if (control_.job.alone() || times_.all == 0) return;
  const ScalingReport scaling = scaling_of(control_.job, times_, memory_);
  console_.print(scaling.line());
  console_.event(scaling.event());
}

/// What this process has spent so far.
RankTimes Run::times() const {
  const ProcessGroup& group = control_.job.group();
  return {.all = progress_.seconds,
          .spoken = group.seconds_in_operations(),
          .waited = stepping_->waited() + control_.job.waited(),
          .behind = group.seconds_behind(),
          .samples = static_cast<double>(progress_.seen)};
}

bool Run::train_epoch() {
  const RankTimes before = times();
  std::optional<PeakWatch> watch;
  if (memory_.most == 0 && !control_.job.alone() && control_.devices.empty()) watch.emplace();
  const bool done = train_batches();
  if (watch)
    memory_ = {.planned = watch->begin_mib() + static_cast<double>(stepping_->planned_bytes()) / (1 << 20),
               .most = watch->peak_mib()};
  times_ = times_ + (times() - before);
  return done;
}

bool Run::train_batches() {
  const std::int64_t batches = task_->batches();
  if (progress_.batch >= batches) return true;
  task_->start(static_cast<std::uint32_t>(progress_.epoch), progress_.batch);
  Clock::time_point start = Clock::now();
  while (task_->next()) {
    waited_ += since(start);
    train_batch();
    progress_.seconds += since(start);
    if (!estimated_) estimate();
    start = Clock::now();
    const double share = static_cast<double>(progress_.batch) / static_cast<double>(batches);
    const double left = progress_.seconds * (static_cast<double>(epochs() - progress_.epoch) - share) / share;
    console_.progress(progress_row("  ", share, text("  ETA ", duration(left))));
    if (stopping() && stepping_->can_stop()) {
      end_steps();
      return false;
    }
  }
  end_steps();
  return true;
}

/// All ranks have the same weights after it.
void Run::end_steps() {
  count(stepping_->finish());
  const std::string reads = stepping_->reads();
  const fs::path file = place_ / "reads.csv";
  if (!reads.empty()) write_file(file, (is_there(file) ? read_file(file) : kReads) + reads);
}

/// Prints the header of the table of epochs, once.
void Run::begin_table() {
  if (std::exchange(table_begun_, true)) return;
  console_.print(text("   Epoch     loss  val_loss", cell(goal_.shown[0].title, 8), cell(goal_.shown[1].title, 8),
                      "        lr", cell(goal_.rate_title, 9), "  data%    time"));
}

/// Prints the estimated duration and memory once enough steps were timed.
void Run::estimate() {
  if (timed_steps_++ == 0) first_step_seconds_ = progress_.seconds;
  const auto steps = static_cast<double>(timed_steps_ - 1);
  const double seconds = progress_.seconds - first_step_seconds_;
  if (progress_.batch < task_->batches() && (steps < kTimedSteps || seconds < kTimedSeconds)) return;
  estimated_ = true;
  const double step = steps > 0 ? seconds / steps : progress_.seconds;
  // A forward pass takes about a third of a training step.
  const double validation = static_cast<double>(task_->validation_samples()) / static_cast<double>(*options_.batch) / 3,
               epoch = step * (static_cast<double>(task_->batches()) + validation),
               rest = epoch * static_cast<double>(epochs() - progress_.epoch) -
                      step * static_cast<double>(progress_.batch);
  const std::time_t end = std::time(nullptr) + std::llround(rest);
  std::tm local{};
  char when[32];
  std::strftime(when, sizeof when, "%Y-%m-%d %H:%M", ::localtime_r(&end, &local));
  console_.print(text("  time    about ", duration(epoch), " an epoch; ", plural(epochs() - progress_.epoch, "epoch"),
                      " until ", when, " (", duration(rest), "); memory ", thousands(std::llround(peak_rss_mib())),
                      " MiB"));
  begin_table();
  console_.event(
      {{"event", "estimate"}, {"epoch_seconds", epoch}, {"seconds_left", rest}, {"peak_rss_mib", peak_rss_mib()}});
}

/// Removes the metrics of the last validation from the config, since the weights have changed.
void Run::forget_validation() {
  ModelConfig fresh = task_->config();
  fresh.options = std::move(config_.options);
  config_ = std::move(fresh);
}

bool Run::validate() {
  const Clock::time_point start = Clock::now();
  control_.job.average_states(model_);
  forget_validation();
  const TrainingTask::Watch watch = [&](double share) {
    console_.progress(progress_row("  validation ", share, cell(duration(progress_.seconds), 8)));
    return !stopping();
  };
  if (!task_->validate(watch, config_)) return false;
  validation_seconds_ = since(start);
  return true;
}

void Run::record() {
  const Metrics& f = config_.metrics;
  const auto seen = static_cast<double>(std::max<std::int64_t>(progress_.seen, 1));
  const EpochResult result{.epoch = progress_.epoch + 1,
                           .step = progress_.step,
                           .seconds = progress_.seconds + validation_seconds_,
                           .samples_per_second = seen / std::max(progress_.seconds, 1e-9),
                           .data_pct = data_pct(),
                           .learning_rate = optimizer_->lr(),
                           .train_loss = progress_.loss_sum / seen,
                           .train_metric = progress_.correct / seen,
                           .val = f};
  results_.append(result);
  JsonObject event{{"event", "epoch"},
                   {"epoch", result.epoch},
                   {"step", result.step},
                   {"seconds", result.seconds},
                   {goal_.rate, result.samples_per_second},
                   {"data_pct", result.data_pct},
                   {"learning_rate", result.learning_rate},
                   {"train_loss", result.train_loss},
                   {text("train_", goal_.train_metric), result.train_metric},
                   {"val_loss", f.loss()}};
  if (compute_dtype_named(options_.precision) == DType::f16)
    event.add("loss_scale", optimizer_->loss_scale()),
        event.add("skipped_steps", optimizer_steps() - optimizer_->steps());
  for (const TaskMetric& one : goal_.metrics)
    if (std::string_view(one.name) != "loss") event.add(one.name, f[one.name]);
  metrics_.append(event.line());
  console_.event(event);
  std::vector<std::pair<std::string, double>> points{{"loss/train", result.train_loss},
                                                     {text(goal_.train_metric, "/train"), result.train_metric},
                                                     {"lr", result.learning_rate},
                                                     {goal_.rate, result.samples_per_second},
                                                     {"data_pct", result.data_pct}};
  for (const TaskMetric& one : goal_.metrics)
    if (!std::isnan(f[one.name])) points.emplace_back(text(one.name, "/val"), f[one.name]);
  std::vector<Scalar> scalars;
  for (const auto& [tag, value] : points) scalars.push_back({tag, value});
  board_.write(result.step, scalars);
  if (options_.plots)
    write_file(place_ / "results.png", results_image({text(model_.name, " on ", options_.data),
                                                      text("run ", folder_.string(), ", ", task_->contents())},
                                                     results_.rows(), std::ssize(config_.class_names)));
}

void Run::save() {
  stepping_->gather_state();
  if (control_.job.writes()) write_state();
  stepping_->spread_state();
}

void Run::write_state() {
  config_.epoch = progress_.epoch;
  config_.step = progress_.step;
  if (tuning_) tuning_->write(place_ / kTuningFile);
  save_state(weights(), model_, config_, {optimizer_.get(), random_}, progress_);
  if (!untouched()) settle();
  if (control_.saved && place_ == folder_) control_.saved(folder_);
}

/// Once a state is saved, the earlier run in the same folder is replaced.
void Run::settle() {
  if (place_ == folder_) return;
  // changed first, so that a failure below does not delete the new run
  const fs::path from = std::exchange(place_, folder_);
  replace_run(folder_, from);
  results_ = ResultsCsv(folder_ / "results.csv", progress_.epoch, config_.task());
  metrics_ = MetricsFile(folder_ / "metrics.jsonl", progress_.epoch);
}

void Run::finish_epoch() {
  record();
  const double now = config_.metrics.merit(options_.monitor);
  const bool validated = task_->has_validation();
  const bool best = !validated || now > progress_.best || (std::isnan(progress_.best) && !std::isnan(now)) ||
                    (now == progress_.best && config_.metrics.loss() < progress_.best_loss);
  begin_table();
  console_.print(row(evaluation(),
                     cell(duration(progress_.seconds + validation_seconds_), 8) + (best && validated ? "  best" : "")));
  task_->print_notes(console_, data_pct(), progress_.seconds);

  ++progress_.epoch;
  progress_.batch = progress_.seen = 0;
  progress_.loss_sum = progress_.correct = progress_.seconds = waited_ = 0;
  if (best) {
    progress_.best = now;
    progress_.best_loss = config_.metrics.loss();
    progress_.best_epoch = progress_.epoch;
    config_.epoch = progress_.epoch;
    config_.step = progress_.step;
  }
  if (best && control_.job.writes()) {
    save_model(model_, weights() / "best.safetensors", metadata_of(config_));
    if (!config_.sequence) write_file(weights() / "model.json", model_json(config_) + '\n');
    task_->report(place_);
  }
  if (options_.plots && control_.job.writes()) illustrate(best);
  save();
}

/// Gives TensorBoard the images of the run's folder that are new, and how the parameters are spread.
void Run::illustrate(bool best) {
  const auto image = [&](const std::string& tag, const char* file) {
    if (!is_there(place_ / file)) return;
    const std::string bytes = read_file(place_ / file);
    Decoder decoder;
    const ImageHeader& header = decoder.open({.bytes = std::as_bytes(std::span(bytes))});
    board_.write_image(progress_.step, tag, bytes, header.height, header.width);
  };
  if (progress_.epoch == 1) {
    for (const char* batch : {"train_batch0", "train_batch1", "train_batch2"})
      image(text("data/", batch), text(batch, ".jpg").c_str());
    image("data/labels", "labels.png");
  }
  if (best) image("evaluation/confusion_matrix", "confusion_matrix.png");
  for (const Parameter& one : named_parameters(model_))
    board_.write_histogram(progress_.step, text("parameters/", one.name), one.tensor.values<float>());
}

/// Gives TensorBoard the options that trainings are compared by, and the network.
void Run::introduce() {
  std::map<std::string, std::string> compared, all = options_of_run(place_);
  for (const char* name :
       {"model", "data", "pretrained", "epochs", "batch", "imgsz", "lr", "opt", "momentum", "weight_decay",
        "warmup_epochs", "label_smoothing", "augment", "mixup", "cutmix", "ema", "precision", "seed"})
    if (const auto found = all.find(name); found != all.end() && !found->second.empty()) compared.insert(*found);
  board_.write_hparams(compared, text(options_.monitor, "/val"));
  const Function network = trace_function([this](const Tensors& in) { return Tensors{model_(in[0])}; },
                                          {{"input", input_type(config_, 1)}}, {"output"}, {}, device_of(model_));
  board_.write_graph(network.graph);
}

TrainResult OpenRun::result() const {
  TrainResult result{.run = folder_,
                     .model = folder_ / "weights" / "best.safetensors",
                     .best_epoch = progress_.best_epoch,
                     .epochs = progress_.epoch,
                     .all_epochs = out_of_patience() ? progress_.epoch : epochs(),
                     .steps = task_->batches(),
                     .validation = task_->validation()};
  if (progress_.best_epoch > 0 && control_.job.writes())
    result.metrics = config_of(SafeTensors(result.model).metadata(), result.model).metrics;
  return result;
}

TrainResult Run::go() {
  try {
    return train_epochs();
  } catch (const Error& error) {
    if (error.fault() == Fault::failure) leave_operations();
    control_.job.group().abandon(error.what());
    const std::string what = error.what();
    const bool of_ranks = !control_.job.alone() && what.rfind("rank ", 0) == 0;  // it names who is lost
    if (of_ranks && what.find(", at step ") == what.npos) fail(Fault::failure, what, ", at step ", progress_.step + 1);
    if (error.fault() != Fault::resource || !resumable()) throw;
    fail(Fault::resource, error.what(), "; with that mended, go on with: neurim resume ", folder_.string());
  }
}

/// What this rank has done last, for whoever looks for the cause.
void Run::leave_operations() const {
  const std::string operations = control_.job.group().last_operations();
  std::error_code none;
  if (operations.empty() || !fs::is_directory(folder_, none)) return;
  try {
    write_file(folder_ / text(kOperations, control_.job.rank(), ".csv"), operations);
  } catch (const Error&) {  // the first fault is the one to tell
  }
}

TrainResult Run::train_epochs() {
  describe();
  if (untouched()) save();  // a full disk shows before an hour of work
  const auto stopped = [&] {
    if (progress_.batch > 0) control_.job.average_states(model_), forget_validation();
    save();
    report_scaling();
    TrainResult stop = result();
    stop.stopped = true;
    return stop;
  };
  while (progress_.epoch < epochs() && !out_of_patience()) {
    if (!train_epoch() || !validate()) return stopped();
    finish_epoch();
    if (out_of_patience())
      console_.print(text("No better ", options_.monitor, " for ", options_.patience, " epochs: done."));
    else if (stopping() && progress_.epoch < epochs())
      return stopped();
  }
  report_scaling();
  return result();
}

}  // namespace neurim
