#include "neurim/train/model_folder.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <nlohmann/json.hpp>

#include "neurim/base/error.h"
#include "neurim/base/json.h"
#include "neurim/model/state.h"
#include "neurim/model/zoo.h"
#include "neurim/train/onnx_checkpoint.h"

namespace neurim {

namespace {

using Json = nlohmann::json;

constexpr const char* kFolderFormat = "1";
constexpr const char* kModes[] = {"center", "squash", "border"};  // timm's crop_mode, in the order of ResizeMode
constexpr std::size_t kMostBytes = 16 << 20, kMostShown = 60, kMostDepth = 16;
constexpr std::int64_t kMostClasses = 1'000'000;

/// A value as errors quote it.
std::string shown(const Json& value) {
  const std::string whole = value.dump(-1, ' ', true);
  return whole.size() > kMostShown ? whole.substr(0, kMostShown) + "…" : whole;
}

/// Whether the value is of the type.
bool holds(const Json& value, const std::string&) { return value.is_string(); }
bool holds(const Json& value, double) { return value.is_number(); }
/// 8.0 counts as the integer 8.
bool holds(const Json& value, std::int64_t) {
  if (!value.is_number_float()) return value.is_number();
  const auto number = value.get<double>();
  return std::abs(number) < 0x1p53 && number == std::floor(number);
}
bool holds(const Json& value, const Json&) { return value.is_object(); }
template <class T>
bool holds(const Json& value, const std::vector<T>&) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& each) { return holds(each, T()); });
}

/// The object's value for the key; null, which timm treats like a missing key, if there is none.
const Json& member(const Json& object, const std::string& key) {
  static const Json none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

/// The same, converted to a type. `expected` describes it for errors.
template <class T>
T needed(const Json& object, const std::string& key, const char* expected) {
  const Json& value = member(object, key);
  require(holds(value, T()), key, value.is_null() ? " is missing" : " is ", value.is_null() ? "" : shown(value),
          "; it is ", expected);
  return value.get<T>();
}
/// The same, with a default.
template <class T>
T given(const Json& object, const std::string& key, const char* expected, const T& otherwise) {
  return member(object, key).is_null() ? otherwise : needed<T>(object, key, expected);
}

/// The name of the model: timm's if that is known, else what Neurim wrote itself.
std::string model_name(const Json& timm, const Json& own) {
  if (member(timm, "architecture").is_null())
    fail(Fault::data, "names no 'architecture', as timm's do",
         timm.contains("model_type")
             ? text("; of Hugging Face's own models (this is ", shown(timm["model_type"]), ") none is known here")
             : std::string("; is it of another library?"));
  // "resnet18.a1_in1k": after the dot comes the name of the weights' training.
  const auto name = needed<std::string>(timm, "architecture", "the name of a model");
  const std::string net = name.substr(0, name.find('.')), of_timm = text(kTimmModels, net);
  if (!own.empty()) return given<std::string>(own, "model", "the name of a model", net);
  const std::vector<std::string> known = model_names();
  return std::find(known.begin(), known.end(), of_timm) != known.end() ? of_timm : net;
}

std::vector<std::string> class_names(const Json& timm, const Json& pretrained) {
  const Json& holder = timm.contains("num_classes") ? timm : pretrained;
  const auto count = needed<std::int64_t>(holder, "num_classes", "a whole number");
  require(count != 0,
          "num_classes is 0, so the weights have no last layer; begin a training with them: pretrained=FOLDER");
  require(count >= 1 && count <= kMostClasses, "num_classes is ", count, "; it is 1 to ", kMostClasses);
  const Json& labels = member(timm, "label_names");
  std::vector<std::string> names;
  if (labels.is_array()) {
    names = needed<std::vector<std::string>>(timm, "label_names", "a list of names");
    require(std::ssize(names) == count, "num_classes is ", count, ", but label_names are ", names.size());
    return names;
  }
  // If some classes have no name, label_names is an object of those that have.
  const Json named = given<Json>(timm, "label_names", "a list of names, or an object of them", Json::object());
  for (std::int64_t i = 0; i < count; ++i)
    names.push_back(naming([] { return "label_names"; }, [&] { return given(named, text(i), "a name", text(i)); }));
  return names;
}

/// Refuses what would make timm build another network than ours of that name: pooling, and model_args.
void check_arguments(const Json& timm, const ModelConfig& config) {
  const std::string net = timm.value("architecture", "");
  const Json expected{{"global_pool", starts_with(net, "vit_") || starts_with(net, "deit_") ? "token" : "avg"},
                      {"in_chans", config.in_chans},
                      {"num_classes", config.class_names.size()},
                      {"img_size", {config.preprocess.height, config.preprocess.width}}};
  const auto check = [&](const std::string& name, const Json& value) {
    require(expected.contains(name) && expected[name] == value, name, " is ", shown(value), "; ", net,
            " is known here ",
            expected.contains(name) ? text("with ", expected[name].dump(), " alone") : std::string("without it"));
  };
  if (timm.contains("global_pool")) check("global_pool", timm["global_pool"]);
  const auto arguments = given(timm, "model_args", "an object", Json::object());
  for (const auto& [name, value] : arguments.items())
    check(name, name == "img_size" && value.is_number() ? Json{value, value} : value);
}

PixelScaling scaling(const Json& pretrained) {
  const auto levels = [&](const char* key) {
    const auto values = needed<std::vector<double>>(pretrained, key, "a list of numbers, one a channel");
    require(!values.empty(), key, " is an empty list; it is a list of numbers, one a channel");
    check_scaling(key, values);
    return values;
  };
  return {levels("mean"), levels("std")};
}

Preprocess preprocess(const Json& pretrained) {
  Preprocess p;
  const char* sizes = "a list of channels, height and width";
  const auto size = needed<std::vector<std::int64_t>>(pretrained, "input_size", sizes);
  require(size.size() == 3, "input_size has ", size.size(), " numbers; it is ", sizes);
  const auto narrow = [](std::int64_t side) { return static_cast<int>(std::clamp<std::int64_t>(side, 0, 1 << 30)); };
  p.channels = narrow(size[0]), p.height = narrow(size[1]), p.width = narrow(size[2]);
  const PixelScaling scaled = scaling(pretrained);
  p.mean = scaled.mean, p.std = scaled.std;
  // Missing keys have timm's defaults.
  p.crop_pct = given(pretrained, "crop_pct", "a number", 0.875);
  const auto mode = given<std::string>(pretrained, "crop_mode", "a word", "center");
  p.interpolation = interpolation_named(given<std::string>(pretrained, "interpolation", "a word", "bicubic"));
  // timm crops a squashed image by crop_pct, and fills a border with the mean.
  require(mode == "center" || (mode == "squash" && p.crop_pct == 1), "crop_mode is \"", mode, "\" with crop_pct ",
          p.crop_pct, "; known here are \"center\", and \"squash\" with crop_pct 1");
  p.resize = mode == "squash" ? ResizeMode::squash : ResizeMode::crop;
  p.check();
  return p;
}

/// The result of `read` on the folder's config.json, its pretrained_cfg and its "neurim" object.
template <class Read>
auto reading_config(const fs::path& folder, const Read& read) {
  const fs::path path = folder / "config.json";
  try {
    require(fs::file_size(path) <= kMostBytes, "is larger than ", kMostBytes, " bytes");
    const std::string content = read_text(path);
    check_json(content, kMostDepth);
    const Json timm = Json::parse(content);
    require(timm.is_object(), "is no JSON object");
    // Before 0.9 timm wrote the fields of pretrained_cfg at the top level.
    return read(timm, given(timm, "pretrained_cfg", "an object", timm),
                given(timm, "neurim", "an object", Json::object()));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    fail(Fault::data, path.string(), ": ", error.what());
  }
}

}  // namespace

std::string model_json(const ModelConfig& config) {
  using Json = nlohmann::ordered_json;  // keeps the order of keys
  const Preprocess& p = config.preprocess;
  Json own{{"format", kFolderFormat}, {"model", config.model}, {"preprocess", Json::parse(p.json())}};
  if (config.multi_label()) own["thresholds"] = config.thresholds;
  if (config.regression()) own["target_std"] = config.targets.std, own["target_mean"] = config.targets.mean;
  if (!std::isnan(config.reject_threshold)) own["reject_threshold"] = config.reject_threshold;
  if (config.temperature != 1) own["temperature"] = config.temperature;
  if (!config.source.empty()) own["model_file"] = config.source;
  const bool of_timm = starts_with(config.model, kTimmModels);
  Json json{{"architecture", of_timm ? config.model.substr(kTimmModels.size()) : config.model},
            {"num_classes", config.class_names.size()},
            {"label_names", config.class_names},
            {"pretrained_cfg",
             {{"input_size", {p.channels, p.height, p.width}},
              {"mean", per_channel(p.mean, p.channels)},
              {"std", per_channel(p.std, p.channels)},
              {"crop_pct", p.resize == ResizeMode::crop ? p.crop_pct : 1},
              {"crop_mode", kModes[static_cast<std::size_t>(p.resize)]},
              {"interpolation", name(p.interpolation)}}},
            {"neurim", own}};
  if (config.source.empty() && has_one_image_size(config.model))
    json["model_args"] = {{"img_size", {p.height, p.width}}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);  // class names may be invalid UTF-8
}

void check_has_state_dict(const Checkpoint& checkpoint) {
  require(!checkpoint.of_function && !is_onnx_file(checkpoint.path), checkpoint.path.string(), ": is a ",
          checkpoint.of_function ? "function" : "ONNX file",
          ", whose tensors are not those of a network as PyTorch has it; export the run that it was made of");
}

Model timm_model_of(const Checkpoint& checkpoint) {
  check_has_state_dict(checkpoint);
  const ModelConfig& config = checkpoint.config;
  const auto fail_unknown = [&] {
    fail(Fault::usage, config.model, ": timm has no network with these weights that is known here",
         config.sequence ? "" : "; format=pt writes them as a state dict of PyTorch");
  };
  if (!config.source.empty() || config.sequence) fail_unknown();
  const Preprocess& p = config.preprocess;
  Model plain = checkpoint.model;
  plain.temperature = 1;  // which timm knows nothing of
  const Tensor image = Tensor::full(image_type(p, 1), 0.5);
  const std::vector<float> ours = plain(image).values<float>();
  const auto held = temporary_folder();
  save_model(plain, *held / "model.safetensors");
  const StateDict weights = read_state_dict(*held / "model.safetensors");
  for (const std::string& name : timm_models_of(plain)) {
    const Model model = create_model(name, {.num_classes = plain.num_classes,
                                            .in_chans = config.in_chans,
                                            .image_size = InputSize(p.height, p.width).side(),
                                            .seed = {}});
    // timm takes images of their own size alone in networks that compute tensors of it.
    if (!model.computed.empty() && (p.height != model.image_size || p.width != model.image_size)) continue;
    const LoadReport report = load_model(model, weights, Fit::any);
    if (report.taken < report.all) continue;
    const std::vector<float> theirs = model(image).values<float>();
    const auto same = [](float a, float b) { return std::abs(a - b) <= 1e-3f * (1 + std::abs(a)); };
    if (std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(), same)) return model;
  }
  fail_unknown();
  return plain;
}

void write_timm_folder(const Model& model, const ModelConfig& config, const fs::path& folder) {
  ModelConfig theirs = config;
  theirs.model = model.name;
  if (theirs.class_names.empty())
    for (std::int64_t i = 0; i < model.num_classes; ++i) theirs.class_names.push_back(text(i));
  make_folder(folder);
  std::error_code ignored;
  fs::remove(folder / "config.json", ignored);
  save_model(model, folder / "model.safetensors", {{"format", "pt"}});
  write_file(folder / "config.json", model_json(theirs) + '\n');
}

bool is_model_folder(const fs::path& path) { return is_there(path / "config.json"); }

fs::path weights_of_folder(const fs::path& folder) {
  const std::vector<std::string> names{"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                       "pytorch_model.bin.index.json"};
  for (const std::string& name : names)
    if (is_there(folder / name)) return folder / name;
  fail(Fault::data, folder.string(), ": has a config.json but none of ", join(names, ", "), " beside it");
}

std::optional<PixelScaling> scaling_of_folder(const fs::path& folder) {
  return reading_config(folder,
                        [](const Json&, const Json& pretrained, const Json& own) -> std::optional<PixelScaling> {
                          if (own.contains("preprocess")) {
                            const Preprocess p = Preprocess::from_json(own["preprocess"].dump());
                            return PixelScaling{p.mean, p.std};
                          }
                          if (!pretrained.contains("mean") && !pretrained.contains("std")) return std::nullopt;
                          return scaling(pretrained);
                        });
}

ModelConfig config_of_folder(const fs::path& folder) {
  return reading_config(folder, [](const Json& timm, const Json& pretrained, const Json& own) {
    ModelConfig config{.model = model_name(timm, own), .class_names = class_names(timm, pretrained)};
    config.preprocess = own.contains("preprocess") ? Preprocess::from_json(own["preprocess"].dump())
                                                   : preprocess(pretrained);
    config.thresholds = given(own, "thresholds", "a list of numbers", config.thresholds);
    config.targets.std = given(own, "target_std", "a list of numbers", config.targets.std);
    config.targets.mean = given(own, "target_mean", "a list of numbers", config.targets.mean);
    config.reject_threshold = given(own, "reject_threshold", "a number", config.reject_threshold);
    config.temperature = given(own, "temperature", "a number", config.temperature);
    require(config.temperature > 0, "the temperature is ", config.temperature);
    config.source = given(own, "model_file", "the text of a model file", config.source);
    require(config.thresholds.empty() || config.thresholds.size() == config.class_names.size(),
            config.thresholds.size(), " thresholds for ", config.class_names.size(), " classes");
    require(config.targets.std.size() == config.targets.mean.size() &&
                (!config.regression() || config.targets.std.size() == config.class_names.size()),
            config.targets.std.size(), " target_std and ", config.targets.mean.size(), " target_mean for ",
            config.class_names.size(), " names");
    config.in_chans = config.preprocess.channels;
    check_arguments(timm, config);
    return config;
  });
}

}  // namespace neurim
