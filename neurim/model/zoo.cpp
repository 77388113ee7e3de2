#include "neurim/model/zoo.h"

#include <algorithm>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/model/recurrent_models.h"
#include "neurim/model/zoo/entry.h"

namespace neurim {

namespace {

using zoo::Entries;
using zoo::Entry;

/// All families, sorted by name.
const Entries& entries() {
  static const Entries all = [] {
    Entries table;
    for (const auto& family :
         {zoo::alexnet_models, zoo::cifar_resnet_models, zoo::densenet_models, zoo::efficientnet_models,
          zoo::googlenet_models, zoo::inception_models, zoo::lenet_models, zoo::mnasnet_models,
          zoo::mobilenet_v1_models, zoo::mobilenet_v2_models, zoo::mobilenet_v3_models, zoo::regnet_models,
          zoo::resnet_models, zoo::shufflenet_models, zoo::squeezenet_models, zoo::vgg_models,
          zoo::wide_resnet_models})
      for (Entry& e : family()) table.push_back(std::move(e));
    std::sort(table.begin(), table.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return table;
  }();
  return all;
}

const Entry& entry(std::string_view name) {
  for (const Entry& e : entries())
    if (e.name == name) return e;
  require(!is_recurrent_model(name), "model: ", name,
          " learns from series and texts, whose columns or characters make its shape; train one: neurim train "
          "data=series.csv model=", name);
  std::vector<std::string> names = model_names();
  for (const std::string& recurrent : recurrent_model_names()) names.push_back(recurrent);
  const std::string near = nearest(name, names);
  fail(Fault::usage, "model: there is no '", name, "'; ",
       near.empty() ? "" : text("did you mean '", near, "'? "), "`neurim models` lists the ",
       entries().size(), " known ones");
}

/// The published values, or for another number of channels their average for each.
std::vector<double> per_channel(const std::vector<double>& published, std::int64_t channels) {
  if (static_cast<std::int64_t>(published.size()) == channels) return published;
  const double sum = std::accumulate(published.begin(), published.end(), 0.0);
  return std::vector<double>(static_cast<std::size_t>(channels), sum / static_cast<double>(published.size()));
}

}  // namespace

Model create_model(std::string_view name, const ModelOptions& options) {
  const Entry& e = entry(name);
  require(options.num_classes >= 0 && options.in_chans >= 0, "model: num_classes (", options.num_classes,
          ") and in_chans (", options.in_chans, ") must be 1 or more, or 0 for what ", name,
          " was published with");
  const double dropout = options.dropout.value_or(e.dropout);
  require(dropout >= 0 && dropout <= 1, "model: dropout (", dropout, ") is a share, from 0 to 1");
  require(dropout == 0 || e.dropout > 0, "model: ", name, " has no dropout; leave dropout=", dropout, " out");
  const std::int64_t classes = options.num_classes ? options.num_classes : e.classes;
  const std::int64_t channels =
      options.in_chans ? options.in_chans : static_cast<std::int64_t>(e.mean.size());
  const nn::Undrawn undrawn;
  Model model{std::string(name),
              e.image_size,
              channels,
              classes,
              per_channel(e.mean, channels),
              per_channel(e.deviation, channels),
              e.build({classes, channels, dropout})};
  if (options.seed)
    initialise(model, *options.seed);
  else
    named_parameters(model);  // for the names
  return model;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Entry& e : entries()) names.push_back(e.name);
  return names;
}

}  // namespace neurim
