#include "neurim/train/onnx_checkpoint.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "neurim/base/base64.h"
#include "neurim/base/error.h"
#include "neurim/base/json.h"
#include "neurim/function/image_layout.h"
#include "neurim/model/onnx/layer.h"

namespace neurim {

namespace {

using Json = nlohmann::json;
using Entries = std::map<std::string, std::string>;

/// {0: 'cat', 1: "it's"}, as Python prints it.
std::vector<std::string> names_of_python(const std::string& text) {
  std::map<std::int64_t, std::string> all;
  std::size_t at = 0;
  while ((at = text.find_first_of("0123456789", at)) != std::string::npos) {
    std::size_t digits = 0;
    const std::int64_t number = std::stoll(text.substr(at, 18), &digits);
    at = text.find_first_of("'\"", at + digits);
    require(at != std::string::npos, "there is no name of class ", number);
    const char quote = text[at];
    std::string name;
    for (++at; at < text.size() && text[at] != quote; ++at) {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      name += text[at];
    }
    require(at < text.size(), "the name of class ", number, " does not end");
    all[number] = name;
    ++at;
  }
  std::vector<std::string> names;
  for (const auto& [number, name] : all) {
    require(number == std::ssize(names), "class ", names.size(), " has no name");
    names.push_back(name);
  }
  return names;
}

std::vector<std::string> names_of_json(const std::string& text) {
  const Json json = Json::parse(text);
  if (json.is_array()) return json;
  std::vector<std::string> names(json.size());
  for (const auto& [key, name] : json.items()) names.at(static_cast<std::size_t>(std::stoll(key))) = name;
  return names;
}

std::vector<std::string> names_in(const Entries& entries) {
  const auto found = entries.find("names");
  if (found == entries.end()) return {};
  check_json(found->second, 8);
  return Json::accept(found->second) ? names_of_json(found->second) : names_of_python(found->second);
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::istringstream stream(read_text(file));
  for (std::string line; std::getline(stream, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

/// The metadata of the file as a config; `notes` gets what it does not say.
void read_metadata(const Entries& entries, ModelConfig& config, std::vector<std::string>& notes) {
  if (const auto found = entries.find("preprocess"); found != entries.end())
    config.preprocess = Preprocess::from_json(found->second);
  else
    notes.push_back("does not say how pixels are scaled, so they are taken as they are in [0, 1]");
  if (const auto found = entries.find("thresholds"); found != entries.end())
    config.thresholds = Json::parse(found->second).get<std::vector<double>>();
  if (const auto found = entries.find("reject_threshold"); found != entries.end())
    config.reject_threshold = std::stod(found->second);
}

/// (C,H,W) as the metadata say, else 3 x 224 x 224.
Shape size_in(const Entries& entries) {
  const auto found = entries.find("imgsz");
  if (found == entries.end()) return {3, 224, 224};
  const Json size = Json::parse(found->second);
  if (size.is_number()) return {3, size.get<std::int64_t>(), size.get<std::int64_t>()};
  return {3, size.at(0).get<std::int64_t>(), size.at(1).get<std::int64_t>()};
}

constexpr std::string_view kSource = "onnx:";  // and the bytes of the file in base64

Model described(const OnnxLayer& layer, const std::string& name, const Preprocess& preprocess) {
  return {.name = name,
          .image_size = preprocess.height,
          .in_chans = preprocess.channels,
          .num_classes = layer.classes(),
          .mean = preprocess.mean,
          .std = preprocess.std,
          .net = layer};
}

Checkpoint loaded(const fs::path& path, const OnnxModel& onnx) {
  const Entries& entries = onnx.metadata();
  ModelConfig config{.model = path.filename().string()};
  std::vector<std::string> notes;
  read_metadata(entries, config, notes);
  const Shape image = image_of(onnx, size_in(entries));
  config.in_chans = image[0];
  config.preprocess.channels = static_cast<int>(config.in_chans);
  config.preprocess.height = static_cast<int>(image[1]), config.preprocess.width = static_cast<int>(image[2]);
  config.preprocess.check();
  const OnnxLayer layer(onnx, image);
  if (takes_channels_last(onnx) && !takes_channels_last(onnx.metadata()))
    notes.push_back("takes images whose last axis is the channels: it is read as (N,H,W,C)");
  config.class_names = names_in(entries);
  if (config.class_names.empty() && is_there(path.parent_path() / "labels.txt"))
    config.class_names = lines_of(path.parent_path() / "labels.txt");
  if (config.class_names.empty()) {
    for (std::int64_t i = 0; i < layer.classes(); ++i) config.class_names.push_back(text(i));
    notes.push_back("does not name its classes, so they are called by their numbers");
  }
  require(std::ssize(config.class_names) == layer.classes(), "gives ", layer.classes(),
          " numbers, and there are names of ", plural(std::ssize(config.class_names), "class"));
  if (layer.scores() == OnnxScores::sigmoid && config.thresholds.empty()) {
    config.thresholds.assign(config.class_names.size(), 0.5);
    notes.push_back("ends with a sigmoid, so an image may have several classes, each from 0.5 on");
  }
  Model model = described(layer, config.model, config.preprocess);
  return {path, std::move(config), std::move(model), std::move(notes)};
}

/// Runs what reads metadata of a file; texts that are no such are Error(data).
template <class Read>
auto reading(const std::string& name, const Read& read) {
  return naming([&] { return name; },
                [&] {
                  try {
                    return read();
                  } catch (const nlohmann::json::exception& error) {
                    fail(Fault::data, "its metadata are damaged: ", error.what());
                  } catch (const std::logic_error& error) {  // of numbers in texts
                    fail(Fault::data, "its metadata are damaged: ", error.what());
                  }
                });
}

}  // namespace

bool is_onnx_file(const fs::path& path) { return lower(path.extension().string()) == ".onnx"; }

Checkpoint load_onnx_checkpoint(const fs::path& path) {
  const OnnxModel onnx = OnnxModel::open(path, {.part = OnnxPart::network});
  return reading(path.string(), [&] { return loaded(path, onnx); });
}

Model trainable_onnx(const fs::path& path, std::int64_t classes, std::uint64_t seed,
                     const std::optional<InputSize>& imgsz) {
  const OnnxModel onnx = OnnxModel::open(
      path, {.training = OnnxTraining{.classes = classes, .seed = seed}, .part = OnnxPart::network});
  return reading(path.string(), [&] {
    if (onnx.weights().empty()) fail(Fault::data, "has no weights to learn: its layers read no floating initializers");
    ModelConfig config;
    std::vector<std::string> notes;
    read_metadata(onnx.metadata(), config, notes);
    Shape otherwise = size_in(onnx.metadata());
    if (imgsz) otherwise[1] = imgsz->height, otherwise[2] = imgsz->width;
    const Shape image = image_of(onnx, otherwise);
    Preprocess& preprocess = config.preprocess;
    preprocess.channels = static_cast<int>(image[0]);
    preprocess.height = static_cast<int>(image[1]), preprocess.width = static_cast<int>(image[2]);
    Model model = described(OnnxLayer(onnx, image), path.filename().string(), preprocess);
    require(classes == 0 || model.num_classes == classes, "gives ", model.num_classes, " numbers, and there are ",
            plural(classes, "class"));
    model.source = text(kSource, to_base64(onnx.graph_bytes()));
    return model;
  });
}

bool is_onnx_source(const std::string& source) { return starts_with(source, kSource); }

Model model_of_onnx_source(const std::string& source, const ModelConfig& config) {
  const OnnxModel onnx = OnnxModel::parse(from_base64(std::string_view(source).substr(kSource.size())), {},
                                          {.training = OnnxTraining{}, .part = OnnxPart::network});
  const Preprocess& p = config.preprocess;
  Model model = described(OnnxLayer(onnx, {p.channels, p.height, p.width}), config.model, p);
  model.source = source;
  return model;
}

}  // namespace neurim
