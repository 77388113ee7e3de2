#include "neurim/cli/open_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "neurim/base/error.h"
#include "neurim/cli/open_data.h"
#include "neurim/core/device.h"
#include "neurim/data/sources/parts.h"
#include "neurim/model/model_file.h"
#include "neurim/model/recurrent_models.h"
#include "neurim/model/zoo.h"
#include "neurim/train/onnx_checkpoint.h"
#include "neurim/train/run_folder.h"

namespace neurim::cli {

namespace {

/// The config of a model without class names, for images of this size.
ModelConfig config_of(const Model& model, std::int64_t height, std::int64_t width) {
  ModelConfig config{.model = model.name, .in_chans = model.in_chans, .source = model.source};
  config.preprocess.channels = static_cast<int>(model.in_chans);
  config.preprocess.height = static_cast<int>(height);
  config.preprocess.width = static_cast<int>(width);
  config.preprocess.mean = model.mean;
  config.preprocess.std = model.std;
  return config;
}

}  // namespace

Checkpoint open_model(const std::string& name, const std::string& arch, std::optional<InputSize> imgsz,
                      std::int64_t seed) {
  require(!name.empty(),
          "the model is missing; give a run folder, a weights file, a model file or a known name: model=…");
  const std::vector<std::string> known = model_names();
  const bool is_known = std::find(known.begin(), known.end(), name) != known.end(),
             is_path = name.find('/') != std::string::npos && !starts_with(name, kTimmModels);
  require(arch.empty() || !(is_known || is_model_file(name)), "arch says which model a weights file is of, and ", name,
          is_known ? " is the name of a model" : " is a model file", " without weights; give the weights: model=FILE");
  if (is_model_file(name)) {
    const ModelFile file(read_text(name), name);
    ModelFileOptions wanted{.seed = static_cast<std::uint64_t>(seed)};
    if (imgsz) wanted.height = imgsz->height, wanted.width = imgsz->width;
    Model model = file.build(wanted);
    const auto [height, width] = file.size(wanted);
    ModelConfig config = config_of(model, height, width);
    return {{}, std::move(config), std::move(model)};
  }
  if (!is_known && (is_there(name) || is_path || ends_with(name, ".safetensors") || ends_with(name, ".neurim") ||
                    is_onnx_file(name) || !arch.empty()))
    return load_checkpoint(name, arch);
  Model model = create_model(name, {.image_size = imgsz.value_or(0).side(), .seed = static_cast<std::uint64_t>(seed)});
  ModelConfig config = config_of(model, model.image_size, model.image_size);
  return {{}, std::move(config), std::move(model)};
}

bool names_model(const std::string& word) {
  std::error_code error;
  if (fs::is_directory(word, error)) {
    constexpr const char* kSigns[] = {
        "args.yaml",        "config.json",     "weights/best.safetensors", "weights/last.safetensors",
        "best.safetensors", "last.safetensors"};
    return std::any_of(std::begin(kSigns), std::end(kSigns),
                       [&](const char* sign) { return fs::exists(fs::path(word) / sign, error); });
  }
  const std::string name = lower(word);
  for (const char* kind : {".safetensors", ".neurim", ".index.json", ".pth", ".pt", ".th", ".bin", ".ckpt", ".onnx"})
    if (ends_with(name, kind)) return true;
  const std::vector<std::string> known = model_names();
  return is_model_file(word) || is_recurrent_model(word) || std::find(known.begin(), known.end(), word) != known.end();
}

std::vector<fs::path> files_of_model(const std::string& name, const Checkpoint& checkpoint) {
  constexpr std::string_view kKinds[] = {".safetensors", ".neurim", ".bin",  ".pth", ".pt",
                                         ".json",        ".yaml",   ".toml", ".txt"};
  std::vector<fs::path> files{name};
  if (checkpoint.path.empty()) return files;
  const fs::path folder = fs::absolute(checkpoint.path).parent_path();
  for (const fs::path& place : {folder, folder.filename() == "weights" ? folder.parent_path() : folder}) {
    std::error_code error;
    for (fs::directory_iterator at(place, error), end; !error && at != end; at.increment(error))
      if (std::find(std::begin(kKinds), std::end(kKinds), at->path().extension().string()) != std::end(kKinds))
        files.push_back(at->path());
  }
  return files;
}

TrainOptions options_of_training(const Checkpoint& checkpoint, std::span<const char* const> names,
                                 const CommandLine& line) {
  constexpr std::int64_t kBatch = 32;
  TrainOptions options;
  Options named;
  options.visit(named);
  named.read_yaml(checkpoint.config.options, text(checkpoint.path.string(), " (options)"));
  for (const char* name : names)
    if (const std::string value = line.options.find(name)->get(); value != kAuto) named.set(name, value);
  if (!options.batch) options.batch = kBatch;
  options.device = text(line.device());
  return options;
}

TrainedClassifier open_trained(const ClassifierWords& words, const CommandLine& line, Console& console) {
  require(!words.model.empty(), "the model is missing; give a run folder or a weights file: model=runs/classify/train");
  Checkpoint checkpoint = load_checkpoint(words.model, words.arch);
  print_notes(checkpoint, console);
  refuse_sequence(checkpoint, words.verb);
  refuse_numbers(checkpoint, words.verb);
  TrainOptions options = options_of_training(checkpoint, words.names, line);
  if (words.data.empty()) check_remembered_data(options.data, checkpoint.path, "give data=PATH");
  if (!words.data.empty()) options.data = words.data;
  require(!options.data.empty(), "data is missing; give images: data=PATH");
  if (options.threads) set_threads(*options.threads);
  Dataset dataset = open_data(options.data, dataset_of(options, checkpoint.config), console);
  if (dataset.size(words.split) == 0)
    fail(Fault::data, options.data, ": has no ", words.split, " split; it has ", splits_of(dataset));
  options = options.resolved(checkpoint.model, dataset);
  return {std::move(checkpoint), std::move(options), std::move(dataset)};
}

void print_notes(const Checkpoint& checkpoint, Console& console) {
  for (const std::string& note : checkpoint.notes) console.print(text("note: ", checkpoint.path.string(), ": ", note));
}

std::string drawn_weights_note(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config;
  return text("note: ", config.model, config.source.empty() ? " is a name" : " is a model file",
              ", so its weights are drawn, not trained");
}

double reject_threshold(const std::string& reject, const Checkpoint& checkpoint) {
  if (reject == "none") return 0;
  const ModelConfig& config = checkpoint.config;
  refuse_numbers(checkpoint, "reject");
  require(!config.multi_label(), "reject is for models of one class an image, and ", checkpoint.path.string(),
          " is multi-label: it names what is above the threshold of each class");
  if (reject == "auto") {
    require(!std::isnan(config.reject_threshold), checkpoint.path.string(),
            ": has no reject threshold, as training found none without a validation split; give a number: "
            "reject=0.5");
    return config.reject_threshold;
  }
  double threshold = -1;
  const auto [end, error] = std::from_chars(reject.data(), reject.data() + reject.size(), threshold);
  require(error == std::errc() && end == reject.data() + reject.size() && threshold >= 0 && threshold <= 1, "reject: '",
          reject, "' is none of none, auto and a number in [0, 1]");
  return threshold;
}

void refuse_options(const CommandLine& line, const std::vector<std::string>& names, const Checkpoint& checkpoint) {
  for (const std::string& name : names)
    require(!line.given(name), name, " means nothing to ", checkpoint.path.string(), ", a model of ",
            checkpoint.config.task().data, "; leave it out");
}

void refuse_numbers(const Checkpoint& checkpoint, std::string_view what) {
  require(!checkpoint.config.regression(), what, " is for models of classes, and ", checkpoint.path.string(),
          " is one of ", checkpoint.config.task().data);
}

void refuse_sequence(const Checkpoint& checkpoint, std::string_view what) {
  require(!checkpoint.config.sequence, what, " is for models of images, and ", checkpoint.path.string(), " is one of ",
          checkpoint.config.task().data);
}

}  // namespace neurim::cli
