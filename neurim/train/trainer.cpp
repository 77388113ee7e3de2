#include "neurim/train/trainer.h"

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/base/writable.h"
#include "neurim/core/device.h"
#include "neurim/data/statistics.h"
#include "neurim/hardware/isa.h"
#include "neurim/model/model_file.h"
#include "neurim/model/recurrent_models.h"
#include "neurim/model/state.h"
#include "neurim/model/zoo.h"
#include "neurim/train/image_task.h"
#include "neurim/train/mirrored.h"
#include "neurim/train/onnx_checkpoint.h"
#include "neurim/train/run.h"
#include "neurim/train/run_folder.h"
#include "neurim/train/run_summary.h"
#include "neurim/train/sequence_task.h"

namespace neurim {

namespace {

/// Scales pixels as in the training of the weights.
void take_scaling(Model& model, const PixelScaling& scaling) {
  model.mean = per_channel(scaling.mean, model.in_chans);
  model.std = per_channel(scaling.std, model.in_chans);
}

/// Loads the initial weights, and notes what differs from the model.
void take_weights(PreparedRun& run, const Weights& weights) {
  const LoadReport report = load_model(run.model, weights.tensors, Fit::adapt);
  run.notes.push_back(
      text("  weights ", report.taken, " of ", report.all, " tensors from ", weights.tensors.path.string()));
  for (const std::string& note : report.notes) run.notes.push_back(text("  weights ", note));
}

void note_choices(const TrainOptions& asked, const TrainOptions& resolved, std::vector<std::string>& notes) {
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
      notes.push_back(line);
      line = std::string(head.size(), ' ');
    }
    line += choice;
  }
  notes.push_back(line);
}

/// Applies options that hold for the whole process.
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
    fail(Fault::data, path, ": the training split is empty; put images in train/CLASS/");
  return dataset;
}

/// Describes the run for --dry-run; writes nothing.
TrainResult described(PreparedRun prepared, const fs::path& folder, const TrainControl& control, bool resumed) {
  OpenRun run(std::move(prepared), folder, control, resumed);
  run.describe();
  return run.result();
}

/// A rank other than the first: what it writes goes into a folder that nobody keeps. `folder`: the run's.
TrainResult follow(PreparedRun prepared, const TrainControl& control, const fs::path& folder, bool resumed) {
  const auto place = temporary_folder();
  return Run(std::move(prepared), folder, *place, control, resumed).go();
}

/// Throws on all ranks where one has other options, data or kernels.
void check_alike(const PreparedRun& prepared, const Job& job) {
  TrainOptions copy = prepared.options;
  Options named;
  copy.visit(named);
  std::vector<std::string> lines;
  const std::vector<std::string> of_machine{"threads", "workers", "cache_mib", "device"};
  for (const Option& option : named.list())
    if (std::find(of_machine.begin(), of_machine.end(), option.name) == of_machine.end())
      lines.push_back(text(option.name, '=', option.get()));
  job.check_same("options", join(lines, "\n"));
  require(job.alone() || prepared.options.tuning != "on",
          "tuning=on measures kernels in one process; train one epoch so, and give several the file that it writes: "
          "tuning=locked tuning_file=RUN/tuning.json");
  job.check_same("data", prepared.task->facts());
  job.check_same("instruction sets", std::string(name(isa())));
}

/// The control of a run with these options: its ranks are in teams where they ask for it.
TrainControl in_teams(TrainControl control, const TrainOptions& options) {
  const bool pipeline = options.parallel.pipeline > 1;
  control.job = control.job.in_teams(pipeline ? "pipeline" : "tensor",
                                     static_cast<int>(pipeline ? options.parallel.pipeline : options.parallel.tensor));
  return control;
}

/// Starts a new run. `asked` are the options before they were resolved.
TrainResult start(PreparedRun prepared, const TrainOptions& asked, const std::optional<Weights>& weights,
                  const TrainControl& control) {
  const TrainOptions resolved = prepared.options;
  asked.check_effects(resolved);
  Console silent({.quiet = true});
  const TrainControl watched = with_console(control, silent);
  Console& console = *watched.console;
  if (weights) take_weights(prepared, *weights);
  check_alike(prepared, control.job);
  control.job.broadcast(prepared.model);
  if (asked.precision == "auto")
    prepared.notes.push_back(text("  precision ", resolved.precision, ", of which this machine multiplies the most"));
  if (console.verbose()) note_choices(asked, resolved, prepared.notes);
  if (control.dry_run) {
    const fs::path folder = run_folder_to_make(resolved.project, resolved.name, resolved.exist_ok);
    check_data_apart(resolved.data, folder);
    check_no_folders(folder);
    RunLock(folder, false);
    return described(std::move(prepared), folder, watched, false);
  }
  if (!control.job.writes()) return follow(std::move(prepared), watched, control.job.of_first(""), false);
  const fs::path folder = control.job.of_first(
      make_run_folder(resolved.project, resolved.name, resolved.exist_ok).string());
  check_data_apart(resolved.data, folder);
  check_no_folders(folder);
  const RunLock lock(folder);
  const fs::path place = place_of_new_run(folder);
  std::optional<Run> run;
  try {
    console.log_into(place / "log.txt");
    run.emplace(std::move(prepared), folder, place, watched, false);
    return run->go();
  } catch (...) {
    // If nothing was saved, remove the empty folder.
    std::error_code ignored;
    const bool ours = !resolved.exist_ok || place != folder;
    if (ours && (!run || !run->resumable())) fs::remove_all(place, ignored);
    throw;
  }
}

TrainResult start(Model model, const Dataset& dataset, const TrainOptions& options, const TrainControl& control) {
  check_scaling("mean", model.mean);
  check_scaling("std", model.std);
  std::optional<Weights> weights;
  if (!options.pretrained.empty()) weights = open_weights(options.pretrained);
  if (weights && weights->scaling) take_scaling(model, *weights->scaling);
  model.targets = {};  // those of earlier data
  return start(prepare_images(std::move(model), dataset, options, control.job), options, weights, control);
}

/// The input channels by default: for images in memory, theirs without alpha; for image files, those with more than
/// color and alpha; 0: the model's.
std::int64_t natural_channels(const Dataset& dataset) {
  if (const auto size = dataset.in_memory())
    return size->channels == 2 || size->channels == 4 ? size->channels - 1 : size->channels;
  const std::vector<ImageHeader> headers = some_headers(dataset, 1);
  return headers.empty() || headers[0].channels <= 4 ? 0 : headers[0].channels;
}

/// The options of a model file's network: what neither options nor file give follows from the data.
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

/// A run to resume. Its options are read from args.yaml, which may have been edited, and resolved again.
struct StoppedRun {
  fs::path folder, last;  ///< `last`: its newest weights
  std::optional<RunLock> lock;
  TrainOptions options;
  std::optional<ModelConfig> config;  ///< of `last`, if there is one

  StoppedRun(const fs::path& run, std::optional<std::int64_t> epochs, const TrainControl& control,
             const std::string& device)
      : folder(run), last(run / "weights" / "last.safetensors") {
    const fs::path file = run / "args.yaml";
    if (!is_there(file))
      fail(Fault::data, run.string(), ": is no run folder: it holds no args.yaml; give the folder that train printed");
    if (control.job.writes()) lock.emplace(folder, !control.dry_run);
    Options named;
    options.visit(named);
    named.read_yaml(read_text(file), file.string());
    if (epochs) options.epochs = epochs;
    if (!device.empty()) options.device = device;
    options.check();
    if (control.dry_run) options = options.without_files();
    use_machine(options);
    config = config_of_state(last.parent_path());
  }

  /// Scales the model's numbers as before, whatever the data are now.
  void take_targets(Model& model) const {
    if (config) model.targets = config->targets;
  }

  TrainResult go_on(PreparedRun prepared, const TrainControl& control) const {
    Console silent({.quiet = true});
    const TrainControl watched = with_console(control, silent);
    if (control.dry_run) {
      check_can_write(folder / "args.yaml");
      const TaskInfo& task = prepared.task->config().task();
      TrainResult result = described(std::move(prepared), folder, watched, true);
      read_results(folder / "results.csv", result.epochs, task);
      return result;
    }
    check_alike(prepared, control.job);
    if (!control.job.writes()) return follow(std::move(prepared), watched, folder, true);
    watched.console->log_into(folder / "log.txt");
    return Run(std::move(prepared), folder, folder, watched, true).go();
  }
};

/// Calls `run` with the device and the control of each rank, where `devices` are several; else once. The result of rank
/// 0.
TrainResult on_each(const std::string& devices, const TrainControl& control,
                    const std::function<TrainResult(const std::string& device, const TrainControl& control)>& run) {
  if (devices.find(',') == std::string::npos) return run(devices, control);
  require(control.job.alone(), "device is ", devices, ", and ", control.job.size(),
          " processes train already; give each one device");
  TrainResult result;
  mirrored(devices, [&](const Replica& replica) {
    Console silent({.quiet = true});
    TrainControl own = control;
    own.job = replica.job();
    own.devices = devices;
    if (!own.job.writes()) own.console = &silent, own.saved = {};
    const TrainResult mine = run(replica.device_name(), own);
    if (own.job.writes()) result = mine;
  });
  return result;
}

}  // namespace

TrainResult train(const TrainOptions& given, const TrainControl& asked) {
  if (given.device.find(',') != std::string::npos)
    return on_each(given.device, asked, [&](const std::string& device, const TrainControl& own) {
      TrainOptions options = given;
      options.device = device;
      return train(options, own);
    });
  const TrainOptions options = asked.dry_run ? given.without_files() : given;
  require(!options.data.empty(),
          "data is missing; give a folder of images, or a file with a series or a text: data=DIR");
  require(!options.model.empty(),
          "the model is missing; give a model file (.toml) or a name that `neurim models` lists: model=NAME");
  options.check_new();
  use_machine(options);
  const TrainControl control = in_teams(asked, options);
  if (const TaskInfo* task = task_that_takes(options))
    return start(task->prepare(options, {}, control.job), options, {}, control);
  const bool of_onnx = is_onnx_file(options.model);
  require(is_known(options.model) || is_model_file(options.model) || of_onnx || !is_there(options.model), "model is ",
          options.model,
          ", which is there, but is neither a name of a model nor a model file (.toml); weights are given beside the "
          "model: pretrained=",
          options.model);
  // An unknown name, or a file that is no model file, is reported before the data are read.
  std::optional<ModelFile> file;
  if (is_model_file(options.model))
    file.emplace(read_text(options.model), options.model);
  else if (of_onnx)
    trainable_onnx(options.model, 0, 0, options.imgsz);
  else
    create_model(options.model, {.image_size = options.imgsz.value_or(0).side(), .seed = {}});
  DatasetOptions dataset_options = dataset_of(options);
  dataset_options.class_names = classes_of(options);
  const Dataset dataset = open_for_training(options.data, dataset_options);
  if (file) {
    const ModelFileOptions wanted = for_data(*file, options, dataset);
    TrainOptions sized = options;
    const auto [height, width] = file->size(wanted);
    if (height != width) sized.imgsz = InputSize(height, width);  // such a model takes one size only
    return start(file->build(wanted), dataset, sized, control);
  }
  if (of_onnx)
    return start(trainable_onnx(options.model, std::ssize(dataset.class_names()),
                                static_cast<std::uint64_t>(options.seed), options.imgsz),
                 dataset, options, control);
  std::int64_t channels = options.in_chans.value_or(0);
  if (!options.in_chans && options.pretrained.empty()) channels = natural_channels(dataset);
  Model model = create_model(options.model, {.num_classes = static_cast<std::int64_t>(dataset.class_names().size()),
                                             .in_chans = channels,
                                             .image_size = options.imgsz.value_or(0).side(),
                                             .seed = static_cast<std::uint64_t>(options.seed)});
  return start(std::move(model), dataset, options, control);
}

TrainResult train(Model model, const Dataset& dataset, const TrainOptions& given, const TrainControl& control) {
  const TrainOptions options = control.dry_run ? given.without_files() : given;
  options.check_new();
  use_machine(options);
  return start(std::move(model), dataset, options, in_teams(control, options));
}

TrainResult resume(const fs::path& run, std::optional<std::int64_t> epochs, const TrainControl& asked,
                   const std::string& device) {
  const std::map<std::string, std::string> before = options_of_run(run);
  const auto had = before.find("device");
  const std::string devices = !device.empty() || had == before.end() ? device : had->second;
  if (asked.devices.empty() && devices.find(',') != std::string::npos)
    return on_each(devices, asked,
                   [&](const std::string& one, const TrainControl& own) { return resume(run, epochs, own, one); });
  const StoppedRun stopped(run, epochs, asked, device);
  const TrainControl control = in_teams(asked, stopped.options);
  const TrainOptions& options = stopped.options;
  const std::optional<ModelConfig>& config = stopped.config;
  const bool of_file = config && !config->source.empty();  // which may have the name of a known one
  if (options.data.empty() || (config && !of_file && !config->sequence && !is_known(config->model)))
    fail(Fault::data, (run / "args.yaml").string(), ": names no ",
         options.data.empty() ? "data" : text("known model but '", config->model, '\''),
         ": the run was trained by a program; call resume(model, data, run) there");
  check_remembered_data(options.data, run / "args.yaml", "go there, or put another path into that file");
  if (options.model.empty())
    fail(Fault::data, (run / "args.yaml").string(), ": names no model; it is damaged, put the line back");
  if (const TaskInfo* task = of_file ? nullptr : task_that_takes(options))
    return stopped.go_on(task->prepare(options, config, control.job), control);
  const Dataset dataset = open_for_training(options.data, config ? dataset_of(options, *config) : dataset_of(options));
  Model model = of_file ? model_of(*config, stopped.last)
                        : create_model(options.model,
                                       {.num_classes = static_cast<std::int64_t>(dataset.class_names().size()),
                                        .in_chans = options.in_chans.value_or(0),
                                        .image_size = options.imgsz.value_or(0).side(),
                                        .seed = {}});
  stopped.take_targets(model);
  return stopped.go_on(prepare_images(std::move(model), dataset, options, control.job), control);
}

TrainResult resume(Model model, const Dataset& dataset, const fs::path& run, std::optional<std::int64_t> epochs,
                   const TrainControl& asked, const std::string& device) {
  const StoppedRun stopped(run, epochs, asked, device);
  const TrainControl control = in_teams(asked, stopped.options);
  if (stopped.config && stopped.config->class_names != dataset.class_names())
    fail(Fault::data, run.string(), ": was trained on the classes [", join(stopped.config->class_names, ", "),
         "], but the data have [", join(dataset.class_names(), ", "), "]; give the data of that run");
  stopped.take_targets(model);
  return stopped.go_on(prepare_images(std::move(model), dataset, stopped.options, control.job), control);
}

}  // namespace neurim
