#include "neurim/model/model_file.h"

#include "neurim/graph/trace.h"
#include "neurim/model/network_builder.h"
#include "neurim/model/option_reader.h"
#include "neurim/model/zoo/entry.h"

namespace neurim {

namespace {

constexpr std::int64_t kMostSide = 1 << 14, kMostChannels = 1 << 16, kMostClasses = 1 << 24;

bool is_yaml(std::string_view name) { return ends_with(name, ".yaml") || ends_with(name, ".yml"); }

Toml parsed(std::string_view text, const std::string& where) {
  if (is_yaml(where))
    fail(Fault::data, where, ": is YAML by its name, but model files are TOML (.toml) here; see docs/guides/models.md");
  return parse_toml(text, where);
}

}  // namespace

ModelFile::ModelFile(std::string text, const std::string& where)
    : text_(std::move(text)), where_(where), document_(std::make_shared<const Toml>(parsed(text_, where))) {
  check_known(where_, "", document(), {"args", "blocks", "imgsz", "in_chans", "layers", "mean", "num_classes", "std"});
  if (!says("layers"))
    fail(Fault::data, where_, ": has no layers; give a list of them: layers = [ { layer = \"Flatten\" }, … ]");
}

const Toml::Table& ModelFile::document() const { return *document_->as<Toml::Table>(); }

bool ModelFile::says(std::string_view key) const { return find(document(), key) != nullptr; }

std::pair<std::int64_t, std::int64_t> ModelFile::size(const ModelFileOptions& options) const {
  if (options.height > 0) return {options.height, options.width};
  const Toml* given = find(document(), "imgsz");
  const std::int64_t usual = zoo::Entry().image_size;
  if (!given) return {usual, usual};
  return located(where_, *given, "", [&]() -> std::pair<std::int64_t, std::int64_t> {
    const auto* sides = given->as<Toml::Array>();
    require(!sides || sides->size() == 2, "imgsz is one number, or a list of height and width");
    return {whole_number("imgsz", sides ? sides->front() : *given, 1, kMostSide),
            whole_number("imgsz", sides ? sides->back() : *given, 1, kMostSide)};
  });
}

Model ModelFile::build(const ModelFileOptions& options) const {
  const auto fits = [](std::int64_t asked, std::int64_t most) { return asked >= 0 && asked <= most; };
  require(fits(options.num_classes, kMostClasses) && fits(options.in_chans, kMostChannels) &&
              fits(options.height, kMostSide) && fits(options.width, kMostSide),
          where_, ": num_classes (", options.num_classes, "), in_chans (", options.in_chans, ") and the images' size (",
          options.height, 'x', options.width, ") are at most ", kMostClasses, ", ", kMostChannels, " and ", kMostSide,
          ", and 0 for what the file says");
  const zoo::Entry usual{};
  const auto count = [&](const char* key, std::int64_t asked, std::int64_t otherwise, std::int64_t most) {
    const Toml* given = find(document(), key);
    if (asked > 0 || !given) return asked > 0 ? asked : otherwise;
    return located(where_, *given, "", [&] { return whole_number(key, *given, 1, most); });
  };
  const std::int64_t classes = count("num_classes", options.num_classes, usual.classes, kMostClasses);
  const std::int64_t channels = count("in_chans", options.in_chans, std::ssize(usual.mean), kMostChannels),
                     own_channels = count("in_chans", 0, std::ssize(usual.mean), kMostChannels);
  const auto scaling = [&](const char* key, const std::vector<double>& otherwise) {
    const Toml* given = find(document(), key);
    if (!given) return per_channel(otherwise, channels);
    return located(where_, *given, "", [&] {
      const std::vector<double> values = numbers(key, *given);
      const std::int64_t size = std::ssize(values);  // those of the file's own channels are fitted to what is asked for
      require(size == 1 || size == channels || size == own_channels, key, " has ", size, " values for ", own_channels,
              " channels; give one, or one for each channel");
      // Weights that are not drawn are read from what was trained with these values, whatever they are.
      if (options.seed) check_scaling(key, values);
      return per_channel(values, channels);
    });
  };
  const std::pair<std::int64_t, std::int64_t> sides = size(options);
  const Toml& layers = *find(document(), "layers");
  const nn::Undrawn undrawn(options.most_values);
  Model model = located(where_, layers, "", [&]() -> Model {
    Trace trace({});
    Tensor y = trace.input({DType::f32, {1, channels, sides.first, sides.second}});
    nn::Layer net = NetworkBuilder(document(), where_, classes).network(layers, y);
    const Shape logits{1, classes};
    require(y.shape() == logits, "the last layer gives ", y.shape(), " for one image, and ", classes, " classes take ",
            logits, "; end with ", y.rank() > 2 ? "{ layer = \"Flatten\" } and " : "",
            "{ layer = \"Linear\", out = \"$classes\" }");
    return {.name = fs::path(where_).stem().string(),
            .image_size = sides.first,
            .in_chans = channels,
            .num_classes = classes,
            .mean = scaling("mean", usual.mean),
            .std = scaling("std", usual.std),
            .net = std::move(net),
            .source = text_};
  });
  if (options.seed)
    initialise(model, *options.seed);
  else
    named_parameters(model);  // for the names
  return model;
}

bool is_model_file(std::string_view name) { return ends_with(name, ".toml") || is_yaml(name); }

Model create_model_file(const fs::path& path, const ModelFileOptions& options) {
  return ModelFile(read_text(path), path.string()).build(options);
}

}  // namespace neurim
