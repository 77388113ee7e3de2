#include "neurim/model/zoo.h"

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/model/recurrent_models.h"
#include "neurim/model/zoo/entry.h"

namespace neurim {

namespace {

using zoo::Entries;
using zoo::Entry;

constexpr std::string_view kUsualSize = "_patch16_224";  // of vision transformers

/// All families, sorted by name.
const Entries& entries() {
  static const Entries all = [] {
    Entries table;
    for (const auto& family : {zoo::alexnet_models,
                               zoo::cifar_resnet_models,
                               zoo::convnext_models,
                               zoo::densenet_models,
                               zoo::efficientnet_models,
                               zoo::googlenet_models,
                               zoo::inception_models,
                               zoo::lenet_models,
                               zoo::mnasnet_models,
                               zoo::mobilenet_v1_models,
                               zoo::mobilenet_v2_models,
                               zoo::mobilenet_v3_models,
                               zoo::recurrent_classifier_models,
                               zoo::regnet_models,
                               zoo::resnet_models,
                               zoo::shufflenet_models,
                               zoo::squeezenet_models,
                               zoo::swin_models,
                               zoo::vgg_models,
                               zoo::vit_models,
                               zoo::wide_resnet_models})
      for (Entry& e : family()) table.push_back(std::move(e));
    std::sort(table.begin(), table.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return table;
  }();
  return all;
}

/// A model, or null: "vit_tiny" is vit_tiny_patch16_224, the one that is meant where nothing else is said, and where
/// the plain name is timm's it may say so.
const Entry* find(std::string_view name) {
  const std::string plain(starts_with(name, kTimmModels) ? name.substr(kTimmModels.size()) : name);
  for (const Entry& e : entries())
    if (e.name == name || (e.of_timm && e.name == plain)) return &e;
  return ends_with(name, kUsualSize) ? nullptr : find(text(name, kUsualSize));
}

const Entry& entry(std::string_view name) {
  if (const Entry* known = find(name)) return *known;
  require(!is_recurrent_model(name), "model: ", name,
          " learns from series and texts, whose columns or characters make its shape; train one: neurim train "
          "data=series.csv model=",
          name, "; of images ", name, "_classifier reads row after row");
  std::vector<std::string> names = model_names();
  for (const std::string& recurrent : recurrent_model_names()) names.push_back(recurrent);
  const std::string near = nearest(name, names);
  fail(Fault::usage, "model: there is no '", name, "'; ", near.empty() ? "" : text("did you mean '", near, "'? "),
       "`neurim models` lists the ", names.size(), " known ones");
}

/// The rate that was asked for, else the published one; 0 there says that the model has no place for any.
double rate(std::string_view what, const std::optional<double>& asked, double published, const Entry& e) {
  const double chosen = asked.value_or(published);
  require(chosen >= 0 && chosen <= 1, "model: ", what, " (", chosen, ") is a share, from 0 to 1");
  require(chosen == 0 || published > 0, "model: ", e.name, " has no ", what, "; leave ", what, '=', chosen, " out");
  return chosen;
}

/// The size of images that the model is built for.
std::int64_t image_size(std::int64_t asked, const Entry& e) {
  if (e.patch == 0 || asked == 0) return e.image_size;
  require(asked > 0 && asked % e.patch == 0, "model: ", e.name, " cuts images into patches of ", e.patch, 'x', e.patch,
          " pixels, and ", asked,
          " is no multiple of that; give imgsz=", std::max<std::int64_t>(asked / e.patch, 1) * e.patch);
  return asked;
}

}  // namespace

Model create_model(std::string_view name, const ModelOptions& options) {
  const Entry& e = entry(name);
  require(options.num_classes >= 0 && options.in_chans >= 0, "model: num_classes (", options.num_classes,
          ") and in_chans (", options.in_chans, ") must be 1 or more, or 0 for what ", name, " was published with");
  const double dropout = rate("dropout", options.dropout, e.dropout, e),
               drop_path = rate("drop_path", options.drop_path, e.drop_path, e);
  const std::int64_t classes = options.num_classes ? options.num_classes : e.classes;
  const std::int64_t channels = options.in_chans ? options.in_chans : static_cast<std::int64_t>(e.mean.size());
  const std::int64_t side = image_size(options.image_size, e);
  const bool of_timm = starts_with(e.name, kTimmModels);
  const zoo::Renames other_names = e.other_names ? e.other_names() : zoo::Renames();
  const nn::Undrawn undrawn;
  nn::Layer net = e.build({classes, channels, dropout, drop_path, side});
  if (of_timm && !other_names.empty()) net = zoo::Renamed{std::move(net), other_names};
  Model model{e.name,        side, channels, classes, per_channel(e.mean, channels), per_channel(e.std, channels),
              std::move(net)};
  const auto rename = [&](const zoo::Renames& table, std::map<std::string, std::string>& names) {
    for (const Parameter& p : named_parameters(model))
      if (std::string other = zoo::renamed(p.name, table); other != p.name) names.emplace(p.name, std::move(other));
  };
  rename(of_timm ? zoo::reversed(other_names) : other_names, model.other_names);
  if (e.older_names) rename(e.older_names(), model.older_names);
  model.passed_over = e.passed_over;
  if (e.computed) model.computed = e.computed();
  if (options.seed) initialise(model, *options.seed);
  return model;
}

std::vector<std::string> timm_models_of(const Model& model) {
  const auto shapes_of = [](const Model& of, bool renamed) {
    std::map<std::string, Shape> shapes;
    for (const Parameter& p : named_parameters(of)) {
      const bool computed = std::any_of(of.computed.begin(), of.computed.end(),
                                        [&](const auto& one) { return ends_with(p.name, one.first); });
      if (computed) continue;
      const auto other = of.other_names.find(p.name);
      shapes[renamed && other != of.other_names.end() ? other->second : p.name] = p.tensor.shape();
    }
    return shapes;
  };
  const std::string plain = model.name.substr(starts_with(model.name, kTimmModels) ? kTimmModels.size() : 0);
  const Entry* same = find(text(kTimmModels, plain));
  const auto shapes = shapes_of(model, !(same && same->name == model.name));
  std::vector<std::string> names;
  if (same) names.push_back(same->name);
  for (const Entry& e : entries()) {
    if (&e == same || !(e.of_timm || starts_with(e.name, kTimmModels))) continue;
    if (e.patch > 0 && model.image_size % e.patch != 0) continue;
    const Model other = create_model(e.name, {.num_classes = model.num_classes,
                                              .in_chans = model.in_chans,
                                              .image_size = e.patch > 0 ? model.image_size : 0,
                                              .seed = {}});
    if (shapes_of(other, false) == shapes) names.push_back(e.name);
  }
  return names;
}

bool has_one_image_size(std::string_view name) {
  const Entry* known = find(name);
  return known && known->patch > 0;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Entry& e : entries()) names.push_back(e.name);
  return names;
}

}  // namespace neurim
