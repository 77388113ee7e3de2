#include "neurim/train/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <nlohmann/json.hpp>

#include "neurim/base/error.h"
#include "neurim/base/json.h"
#include "neurim/base/writable.h"
#include "neurim/model/function_model.h"
#include "neurim/model/model_file.h"
#include "neurim/model/positions.h"
#include "neurim/model/recurrent_models.h"
#include "neurim/model/state.h"
#include "neurim/model/zoo.h"
#include "neurim/train/model_folder.h"
#include "neurim/train/onnx_checkpoint.h"

namespace neurim {

using Json = nlohmann::json;

namespace {

constexpr const char* kCheckpointFormat = "1";

// JSON has no NaN: JsonText writes null.
double number(const Json& value) { return value.is_null() ? Metrics::kNone : value.get<double>(); }

JsonObject json_of(const Metrics& metrics) {
  JsonObject json{{"samples", metrics.samples}};
  for (const TaskMetric& one : metrics.task().metrics) json.add(one.name, metrics[one.name]);
  return json;
}

Metrics metrics_from(const Json& json, const TaskInfo& task) {
  Metrics metrics(task, json.at("samples"));
  for (const TaskMetric& one : task.metrics) metrics[one.name] = number(json.at(one.name));
  return metrics;
}

JsonObject json_of(const SequenceConfig& config) {
  JsonObject json{{"window", config.window}, {"hidden_size", config.hidden_size}, {"num_layers", config.num_layers}};
  if (config.columns.empty()) return json;
  json.add("columns", config.columns);
  json.add("target", config.target);
  json.add("horizon", config.horizon);
  json.add("season", config.season);
  return json;
}

SequenceConfig sequence_from(const Json& json) {
  SequenceConfig config{
      .window = json.at("window"), .hidden_size = json.at("hidden_size"), .num_layers = json.at("num_layers")};
  for (const std::int64_t size : {config.window, config.hidden_size, config.num_layers})
    require(size >= 1 && size <= kMostUnits, "a size of the network is ", size);
  if (!json.contains("columns")) return config;
  json["columns"].get_to(config.columns);
  config.target = json.at("target");
  config.horizon = json.at("horizon");
  config.season = json.at("season");
  require(config.target_column() < std::ssize(config.columns), "the target ", config.target, " is none of the columns ",
          join(config.columns, ", "));
  require(config.horizon >= 1 && config.horizon <= kMostUnits && config.season >= 0, "the horizon is ", config.horizon,
          " and the season ", config.season);
  return config;
}

/// Creates the network of a model config of series or texts, with uninitialized weights.
Model recurrent_model(const ModelConfig& config) {
  const SequenceConfig& sequence = *config.sequence;
  const RecurrentModelOptions options{
      .hidden_size = sequence.hidden_size, .num_layers = sequence.num_layers, .seed = {}};
  if (config.task().answer == Answer::characters)
    return create_language_model(config.model, std::ssize(config.class_names), options);
  const std::vector<double> unscaled(sequence.columns.size(), 1);  // the weights hold the statistics of training
  return create_forecaster(
      config.model,
      {.mean = unscaled, .std = unscaled, .target = sequence.target_column(), .horizon = sequence.horizon}, options);
}

JsonObject json_of(const Progress& p) {
  return {{"epoch", p.epoch},         {"batch", p.batch},          {"step", p.step}, {"loss_sum", p.loss_sum},
          {"correct", p.correct},     {"seconds", p.seconds},      {"seen", p.seen}, {"best", p.best},
          {"best_loss", p.best_loss}, {"best_epoch", p.best_epoch}};
}

Progress progress_from(const Json& json) {
  return {.epoch = json.at("epoch"),
          .batch = json.at("batch"),
          .step = json.at("step"),
          .loss_sum = json.at("loss_sum"),
          .correct = json.at("correct"),
          .seconds = json.at("seconds"),
          .seen = json.at("seen"),
          .best = number(json.at("best")),
          .best_loss = json.contains("best_loss") ? number(json.at("best_loss")) : Metrics::kNone,
          .best_epoch = json.at("best_epoch")};
}

/// Identifies a pair of weights and optimizer state.
std::string stamp(const Progress& p) { return text(p.epoch, '.', p.batch, '.', p.step); }

std::string stamp_in(const fs::path& path) {
  if (!fs::exists(path)) return {};
  const Metadata metadata = SafeTensors(path).metadata();
  const auto found = metadata.find("stamp");
  return found == metadata.end() ? std::string() : found->second;
}

/// Whether the optimizer state belongs to the weights; false if either is missing.
bool belong_together(const fs::path& weights, const fs::path& state) {
  const std::string stamped = stamp_in(state);
  return !stamped.empty() && stamped == stamp_in(weights);
}

/// Whether it is an undamaged weights file.
bool is_sound(const fs::path& file) {
  try {
    return is_there(file) && !read_state_dict(file).entries.empty();
  } catch (const Error&) {
    return false;
  }
}

/// The result of `read`. If a file is damaged, the error says what is left of the run.
template <class Read>
auto reading_state(const fs::path& weights, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    const fs::path best = weights / "best.safetensors";
    if (error.fault() != Fault::data || !is_sound(best)) throw;
    fail(Fault::data, error.what(),
         "; a new run can begin with the best weights of this one: pretrained=", weights.parent_path().string());
  }
}

/// The tensors of a run's file. If it is damaged, the error names the run's other weights.
StateDict read_weights_of_run(const fs::path& file) {
  try {
    return read_state_dict(file);
  } catch (const Error& error) {
    const fs::path name = file.filename();
    const fs::path other = file.parent_path() / (name == "best.safetensors" ? "last.safetensors" : "best.safetensors");
    if (error.fault() != Fault::data || (name != "best.safetensors" && name != "last.safetensors") || !is_sound(other))
      throw;
    fail(Fault::data, error.what(), "; the run's ", name == "best.safetensors" ? "last" : "best",
         " weights are sound: ", other.string());
  }
}

/// The config of plain weights of the model `arch`. Its classes are named by their numbers.
ModelConfig config_of_weights(const StateDict& weights, const std::string& arch) {
  std::int64_t size = 0;  // of images
  const auto built = [&](std::int64_t classes, std::int64_t channels) {
    if (is_model_file(arch))
      return ModelFile(read_text(arch), arch).build({.num_classes = classes, .in_chans = channels, .seed = {}});
    return create_model(arch, {.num_classes = classes, .in_chans = channels, .image_size = size, .seed = {}});
  };
  const auto [classes, channels] = naming([] { return "arch"; },
                                          [&] {
                                            const Model published = built(0, 0);
                                            size = image_size_of(published, weights);
                                            return ends_of(published, weights);
                                          });
  const Model model = built(classes, channels);
  ModelConfig config{
      .model = model.name, .in_chans = model.in_chans, .preprocess = usual_preprocess(model), .source = model.source};
  for (std::int64_t i = 0; i < classes; ++i) config.class_names.push_back(text(i));
  return config;
}

/// The best weights of a run.
fs::path run_weights(const fs::path& folder) {
  for (const char* name :
       {"weights/best.safetensors", "weights/last.safetensors", "best.safetensors", "last.safetensors"})
    if (is_there(folder / name)) return folder / name;
  if (is_there(folder / "saved_model.pb"))
    fail(Fault::data, folder.string(),
         ": is a TensorFlow SavedModel, which is not read; convert its weights to safetensors with the names of "
         "PyTorch's layers");
  fail(Fault::data, folder.string(),
       ": holds neither weights/best.safetensors nor a config.json; give a run folder, a model's folder or a weights "
       "file");
}

/// The metadata of a file of weights that can keep a temperature.
Metadata metadata_with_temperature(const Checkpoint& checkpoint) {
  Metadata metadata = read_state_dict(checkpoint.path).metadata;
  if (!metadata.count("neurim") || is_function(metadata))
    fail(Fault::usage, checkpoint.path.string(),
         ": is no file of weights that Neurim wrote, and keeps no temperature; calibrate the run");
  return metadata;
}

}  // namespace

std::int64_t SequenceConfig::target_column() const {
  return std::find(columns.begin(), columns.end(), target) - columns.begin();
}

const TaskInfo& ModelConfig::task() const {
  if (sequence) return sequence->columns.empty() ? language_task() : forecast_task();
  if (regression()) return regress_task();
  return multi_label() ? multi_label_task() : classify_task();
}

DatasetOptions dataset_of(const TrainOptions& options, const ModelConfig& config) {
  DatasetOptions of_data = dataset_of(options);
  of_data.class_names = config.class_names;
  of_data.multi_label = config.multi_label();
  of_data.targets = config.regression() ? config.class_names : std::vector<std::string>();
  return of_data;
}

Type image_type(const Preprocess& preprocess, Dim batch) {
  require(batch.symbolic() || batch >= 1, "batch is ", batch, "; it is at least 1");
  return {DType::f32, {batch, preprocess.channels, preprocess.height, preprocess.width}};
}

Type input_type(const ModelConfig& config, Dim batch, std::optional<Dim> steps) {
  if (!config.sequence) return image_type(config.preprocess, batch);
  require(batch.symbolic() || batch >= 1, "batch is ", batch, "; it is at least 1");
  const Dim length = steps.value_or(config.sequence->window);
  if (config.task().answer == Answer::characters) return {DType::i64, {batch, length}};
  return {DType::f32, {batch, length, std::ssize(config.sequence->columns)}};
}

Model model_of(const ModelConfig& config, const fs::path& path) {
  const std::int64_t classes = std::ssize(config.class_names);
  if (is_onnx_source(config.source))
    return naming([&] { return path.string(); }, [&] { return model_of_onnx_source(config.source, config); });
  if (!config.source.empty()) {
    Model model = ModelFile(config.source, text(path.string(), ": model file"))
                      .build({.num_classes = classes,
                              .in_chans = config.in_chans,
                              .height = config.preprocess.height,
                              .width = config.preprocess.width,
                              .seed = {}});
    model.name = config.model;
    return model;
  }
  const std::vector<std::string> known = config.sequence ? recurrent_model_names() : model_names();
  if (std::find(known.begin(), known.end(), config.model) == known.end()) {
    const std::string near = nearest(config.model, known);
    fail(Fault::data, path.string(), ": is of the model '", config.model, "', which is not one of those ",
         config.sequence ? "of series and texts " : "", "that `neurim models` lists",
         near.empty() ? "" : text(" (the nearest is '", near, "')"),
         "; a network of your own is loaded from the program that defines it");
  }
  if (config.sequence) {
    const std::int64_t hidden = config.sequence->hidden_size, layers = config.sequence->num_layers;
    // Checks damaged sizes before allocating: each layer has a square of hidden weights.
    if (static_cast<std::uintmax_t>(hidden * hidden * layers) > fs::file_size(path))
      fail(Fault::data, path.string(), ": its metadata are damaged: ", layers, " layers of ", hidden,
           " units do not fit into the file; use another copy");
    return recurrent_model(config);
  }
  const Preprocess& p = config.preprocess;
  return create_model(config.model, {.num_classes = classes,
                                     .in_chans = config.in_chans,
                                     .image_size = InputSize(p.height, p.width).side(),
                                     .seed = {}});
}

Metadata metadata_of(const ModelConfig& config) {
  Metadata metadata{{"format", "pt"},  // readers of safetensors expect it for NCHW weights
                    {"neurim", kCheckpointFormat},
                    {"model", config.model},
                    {"in_chans", text(config.in_chans)},
                    {"class_names", JsonText(config.class_names).line()},
                    {"options", config.options},
                    {"epoch", text(config.epoch)},
                    {"step", text(config.step)},
                    {"figures", json_of(config.metrics).line()}};
  if (config.sequence)
    metadata["sequence"] = json_of(*config.sequence).line();
  else
    metadata["preprocess"] = config.preprocess.json();
  if (config.multi_label()) metadata["thresholds"] = JsonText(config.thresholds).line();
  if (config.regression())
    metadata["targets"] = JsonObject{{"std", config.targets.std}, {"mean", config.targets.mean}}.line();
  if (!std::isnan(config.reject_threshold)) metadata["reject_threshold"] = text(config.reject_threshold);
  if (config.temperature != 1) metadata["temperature"] = text(config.temperature);
  if (!config.source.empty()) metadata["model_file"] = config.source;
  return metadata;
}

ModelConfig config_of(const Metadata& metadata, const fs::path& path) {
  const auto format = metadata.find("neurim");
  if (format == metadata.end())
    fail(Fault::data, path.string(), ": its metadata have no 'neurim', so it is no checkpoint of Neurim");
  if (format->second != kCheckpointFormat)
    fail(Fault::data, path.string(), ": is a checkpoint of format ", format->second, ", this version reads ",
         kCheckpointFormat, "; use a newer Neurim");
  const auto field = [&](const char* name) -> const std::string& {
    const auto found = metadata.find(name);
    require(found != metadata.end(), "there is no '", name, "'");
    return found->second;
  };
  try {
    ModelConfig config{.model = field("model"),
                       .in_chans = std::stoll(field("in_chans")),
                       .class_names = Json::parse(field("class_names")),
                       .options = field("options"),
                       .epoch = std::stoll(field("epoch")),
                       .step = std::stoll(field("step"))};
    if (metadata.contains("sequence"))
      config.sequence = sequence_from(Json::parse(field("sequence")));
    else
      config.preprocess = Preprocess::from_json(field("preprocess"));
    require(config.task().answer != Answer::characters || !config.class_names.empty(), "there are no characters");
    if (metadata.contains("thresholds")) {
      config.thresholds = Json::parse(field("thresholds")).get<std::vector<double>>();
      require(config.thresholds.size() == config.class_names.size(), config.thresholds.size(), " thresholds for ",
              config.class_names.size(), " classes");
    }
    if (metadata.contains("targets")) {
      const Json targets = Json::parse(field("targets"));
      targets.at("std").get_to(config.targets.std), targets.at("mean").get_to(config.targets.mean);
      require(!config.multi_label() && config.targets.std.size() == config.class_names.size() &&
                  config.targets.mean.size() == config.class_names.size(),
              config.targets.std.size(), " targets for ", config.class_names.size(), " names");
    }
    config.metrics = metrics_from(Json::parse(field("figures")), config.task());
    if (metadata.contains("reject_threshold")) config.reject_threshold = std::stod(field("reject_threshold"));
    if (metadata.contains("temperature")) config.temperature = std::stod(field("temperature"));
    require(config.temperature > 0, "the temperature is ", config.temperature);
    if (metadata.contains("model_file")) config.source = field("model_file");
    require(config.source.empty() || !config.sequence, "there are both a model_file and a sequence");
    return config;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    fail(Fault::data, path.string(), ": its metadata are damaged: ", error.what(), "; use another copy");
  }
}

Weights open_weights(const fs::path& path) {
  if (!is_there(path)) fail(Fault::data, path.string(), ": there is no such file or folder; check the path");
  if (is_model_folder(path)) {
    std::optional<PixelScaling> scaling = scaling_of_folder(path);  // the smaller file first
    return {.tensors = read_state_dict(weights_of_folder(path)), .scaling = std::move(scaling)};
  }
  const fs::path file = fs::is_directory(path) ? run_weights(path) : path;
  Weights weights{read_weights_of_run(file)};
  if (weights.tensors.metadata.count("neurim")) weights.config = config_of(weights.tensors.metadata, file);
  if (weights.config && !weights.config->sequence)
    weights.scaling = PixelScaling{weights.config->preprocess.mean, weights.config->preprocess.std};
  return weights;
}

Checkpoint load_checkpoint(const fs::path& path, const std::string& arch) {
  if (is_onnx_file(path)) {
    require(arch.empty(), "arch is ", arch, ", but ", path.string(), " holds its model; leave arch out");
    return load_onnx_checkpoint(path);
  }
  std::optional<ModelConfig> of_folder;
  if (is_model_folder(path)) of_folder = config_of_folder(path);
  Weights weights = open_weights(path);
  if (of_folder) weights.config = std::move(of_folder);
  const fs::path& file = weights.tensors.path;
  require(arch.empty() || !weights.config || arch == weights.config->model, "arch is ", arch, ", but ", file.string(),
          " is of ", weights.config ? weights.config->model : "", ", as it says itself; leave arch out");
  if (!weights.config && !arch.empty()) weights.config = config_of_weights(weights.tensors, arch);
  if (!weights.config)
    fail(Fault::data, file.string(),
         ": holds weights alone: it does not say of which model; say it with arch=NAME, a name that `neurim models` "
         "lists, put it "
         "into a folder with a config.json, or train from it: pretrained=FILE");
  if (is_function(weights.tensors.metadata)) {
    const Function function = read_function(weights.tensors);
    Model model = model_of(function, weights.config->model);
    ModelConfig& config = *weights.config;
    if (config.class_names.empty() && !config.sequence)
      for (std::int64_t i = 0; i < model.num_classes; ++i) config.class_names.push_back(text(i));
    const std::int64_t wanted = config.task() == forecast_task() ? config.sequence->horizon
                                                                 : std::ssize(config.class_names);
    if (model.num_classes != wanted)
      fail(Fault::data, file.string(), ": its function gives ", model.num_classes, " numbers, and its metadata name ",
           wanted, "; use another copy");
    config.temperature = 1;  // the function's logits are divided by it
    model.targets = config.targets, model.gives_units = true;
    model.mean = weights.config->preprocess.mean, model.std = weights.config->preprocess.std;
    return {.path = file,
            .config = *weights.config,
            .model = std::move(model),
            .layout = takes_channels_last(function.metadata) ? InputLayout::nhwc : InputLayout::model,
            .of_function = true};
  }
  Model model = model_of(*weights.config, file);
  model.temperature = weights.config->temperature;
  model.targets = weights.config->targets;
  LoadReport report = load_model(model, weights.tensors);
  if (fs::is_directory(path) && file.filename() == "last.safetensors")
    report.notes.push_back("the run has no best weights, so these are taken, its last ones");
  return {file, *weights.config, std::move(model), std::move(report.notes)};
}

void check_keeps_temperature(const Checkpoint& checkpoint) {
  metadata_with_temperature(checkpoint);
  check_can_write(checkpoint.path.string());
}

void save_temperature(const Checkpoint& checkpoint, double temperature, double reject_threshold) {
  Metadata metadata = metadata_with_temperature(checkpoint);
  metadata["temperature"] = text(temperature);
  if (metadata.count("reject_threshold") && !std::isnan(reject_threshold))
    metadata["reject_threshold"] = text(reject_threshold);
  for (const char* sum : {"xxh64_header", "xxh64_data"}) metadata.erase(sum);  // which are written anew
  Model model = checkpoint.model;
  save_model(model, checkpoint.path, metadata);
}

void save_state(const fs::path& weights, Model& model, const ModelConfig& config, TrainState state,
                const Progress& progress) {
  const fs::path last = weights / "last.safetensors", last_opt = weights / "last.opt.safetensors";
  const fs::path next = weights / "next.safetensors", next_opt = weights / "next.opt.safetensors";
  // A process died between the renames below: the optimizer state of the last pair has this name.
  if (belong_together(last, next_opt)) move_file(next_opt, last_opt);
  Metadata of_model = metadata_of(config);
  of_model["stamp"] = stamp(progress);
  save_model(model, next, of_model);
  save_model(state, next_opt, {{"stamp", stamp(progress)}, {"progress", json_of(progress).line()}});
  move_file(next, last);
  move_file(next_opt, last_opt);
}

std::optional<ModelConfig> config_of_state(const fs::path& weights) {
  return reading_state(weights, [&]() -> std::optional<ModelConfig> {
    const fs::path last = weights / "last.safetensors";
    if (!fs::exists(last)) return {};
    return config_of(SafeTensors(last).metadata(), last);
  });
}

Progress load_state(const fs::path& weights, Model& model, TrainState state, std::vector<std::string>& notes) {
  // The best weights stay until there are better ones.
  if (const fs::path best = weights / "best.safetensors"; fs::exists(best)) read_weights_of_run(best);
  return reading_state(weights, [&] {
    // Only the first of save_state's two renames may have happened.
    const fs::path last = weights / "last.safetensors";
    for (const char* name : {"last.opt.safetensors", "next.opt.safetensors"}) {
      const fs::path file = weights / name;
      if (!belong_together(last, file)) continue;
      for (const std::string& note : load_model(model, last).notes) notes.push_back(text(last.string(), ": ", note));
      const LoadReport report = load_model(state, file);
      for (const std::string& note : report.notes) notes.push_back(text(file.string(), ": ", note));
      try {
        return progress_from(Json::parse(report.metadata.at("progress")));
      } catch (const std::bad_alloc&) {
        throw;
      } catch (const std::exception& error) {
        fail(Fault::data, file.string(), ": its metadata are damaged: ", error.what());
      }
    }
    fail(Fault::data, weights.string(),
         ": holds no last.safetensors with its last.opt.safetensors, so the run cannot go on");
  });
}

}  // namespace neurim
