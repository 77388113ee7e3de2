#include "neurim/train/model_folder.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "neurim/base/error.h"
#include "neurim/model/zoo.h"

namespace neurim {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFolderFormat = "1";
constexpr const char* kModes[] = {"center", "squash",
                                  "border"};  // timm's crop_mode, in the order of ResizeMode
constexpr std::size_t kMostBytes = 16 << 20, kMostClasses = 1'000'000;

/// The name of its model. What timm writes is timm's where it is known, what is written here says so itself.
std::string model_name(const Json& config, const Json& own) {
  if (!config.contains("architecture"))
    fail(Fault::data, "names no 'architecture', as timm's do",
         config.contains("model_type")
             ? text("; of Hugging Face's own models (this is '", config["model_type"].get<std::string>(),
                    "') none is known here")
             : std::string("; is it of another library?"));
  // "resnet18.a1_in1k": which training the weights are from comes after the dot.
  const std::string name = config["architecture"], net = name.substr(0, name.find('.')),
                    of_timm = text(kTimmModels, net);
  if (!own.empty()) return own.value("model", net);
  const std::vector<std::string> known = model_names();
  return std::find(known.begin(), known.end(), of_timm) != known.end() ? of_timm : net;
}

std::vector<std::string> class_names(const Json& config, const Json& pretrained) {
  const Json& holder = config.contains("num_classes") ? config : pretrained;
  const auto count = holder.at("num_classes").get<std::size_t>();
  require(count >= 1 && count <= kMostClasses, "num_classes is ", count, "; it is 1 to ", kMostClasses);
  std::vector<std::string> names;
  const Json labels = config.value("label_names", Json());
  if (labels.is_array()) {
    labels.get_to(names);
    require(names.size() == count, "num_classes is ", count, ", but label_names are ", names.size());
    return names;
  }
  // Where some classes have no name, label_names is an object of those that have.
  for (std::size_t i = 0; i < count; ++i) names.push_back(labels.is_object() ? labels.value(text(i), text(i)) : text(i));
  return names;
}

/// Refuses what would make timm build another net than the one here of that name: how it pools, and model_args.
void check_arguments(const Json& config, const ModelCard& card) {
  const std::string net = config.value("architecture", "");
  const Json expected{{"global_pool", starts_with(net, "vit_") || starts_with(net, "deit_") ? "token" : "avg"},
                      {"in_chans", card.in_chans},
                      {"num_classes", card.class_names.size()},
                      {"img_size", {card.preprocess.height, card.preprocess.width}}};
  const auto check = [&](const std::string& name, const Json& value) {
    require(expected.contains(name) && expected[name] == value, name, " is ", value.dump(), "; ", net, " is known here ",
            expected.contains(name) ? text("with ", expected[name].dump(), " alone") : std::string("without it"));
  };
  if (config.contains("global_pool")) check("global_pool", config["global_pool"]);
  const Json arguments = config.value("model_args", Json::object());
  for (const auto& [name, value] : arguments.items()) check(name, value);
}

Preprocess preprocess(const Json& pretrained) {
  Preprocess p;
  const auto size = pretrained.at("input_size").get<std::vector<int>>();
  require(size.size() == 3, "input_size has ", size.size(), " numbers; it is channels, height, width");
  p.channels = size[0], p.height = size[1], p.width = size[2];
  p.mean = pretrained.at("mean").get<std::vector<double>>();
  p.std = pretrained.at("std").get<std::vector<double>>();
  p.crop_pct = pretrained.value("crop_pct", 0.875);  // timm's own default
  const std::string mode = pretrained.value("crop_mode", "center");
  const auto* found = std::find(std::begin(kModes), std::end(kModes), mode);
  require(found != std::end(kModes), "crop_mode is '", mode, "'; center, squash and border are known");
  p.resize = static_cast<ResizeMode>(found - std::begin(kModes));
  p.interpolation = interpolation_named(pretrained.value("interpolation", "bilinear"));
  p.check();
  return p;
}

}  // namespace

std::string model_json(const ModelCard& card) {
  const Preprocess& p = card.preprocess;
  Json own{{"format", kFolderFormat}, {"model", card.model}, {"preprocess", Json::parse(p.json())}};
  if (card.multi_label()) own["thresholds"] = card.thresholds;
  if (!std::isnan(card.reject_threshold)) own["reject_threshold"] = card.reject_threshold;
  if (!card.source.empty()) own["model_file"] = card.source;
  const bool of_timm = starts_with(card.model, kTimmModels);
  return Json{{"architecture", of_timm ? card.model.substr(kTimmModels.size()) : card.model},
              {"num_classes", card.class_names.size()},
              {"label_names", card.class_names},
              {"pretrained_cfg",
               {{"input_size", {p.channels, p.height, p.width}},
                {"mean", per_channel(p.mean, p.channels)},
                {"std", per_channel(p.std, p.channels)},
                {"crop_pct", p.crop_pct},
                {"crop_mode", kModes[static_cast<std::size_t>(p.resize)]},
                {"interpolation", name(p.interpolation)}}},
              {"neurim", own}}
      .dump(2, ' ', false, Json::error_handler_t::replace);  // class names may be no UTF-8
}

bool is_model_folder(const fs::path& path) { return is_there(path / "config.json"); }

fs::path weights_of_folder(const fs::path& folder) {
  const std::vector<std::string> names{"model.safetensors", "model.safetensors.index.json",
                                       "pytorch_model.bin", "pytorch_model.bin.index.json"};
  for (const std::string& name : names)
    if (is_there(folder / name)) return folder / name;
  fail(Fault::data, folder.string(), ": has a config.json but none of ", join(names, ", "), " beside it");
}

ModelCard card_of_folder(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  try {
    require(fs::file_size(path) <= kMostBytes, "is larger than ", kMostBytes, " bytes");
    const Json config = Json::parse(read_file(path));
    require(config.is_object(), "is no JSON object");
    // timm before 0.9 wrote the fields of pretrained_cfg beside the others.
    const Json& pretrained = config.contains("pretrained_cfg") ? config["pretrained_cfg"] : config;
    const Json own = config.value("neurim", Json::object());
    ModelCard card{.model = model_name(config, own), .class_names = class_names(config, pretrained)};
    card.preprocess = own.contains("preprocess") ? Preprocess::from_json(own["preprocess"].dump()) : preprocess(pretrained);
    card.thresholds = own.value("thresholds", card.thresholds);
    card.reject_threshold = own.value("reject_threshold", card.reject_threshold);
    card.source = own.value("model_file", "");
    require(card.thresholds.empty() || card.thresholds.size() == card.class_names.size(), card.thresholds.size(),
            " thresholds for ", card.class_names.size(), " classes");
    card.in_chans = card.preprocess.channels;
    check_arguments(config, card);
    return card;
  } catch (const std::exception& error) {
    fail(Fault::data, path.string(), ": ", error.what());
  }
}

}  // namespace neurim
