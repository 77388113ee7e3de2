#include "neurim/model/zoo.h"

#include <numeric>

#include "neurim/base/error.h"
#include "neurim/model/zoo/cifar_resnet.h"
#include "neurim/model/zoo/lenet.h"
#include "neurim/model/zoo/resnet.h"

namespace neurim {

namespace {

struct Entry {
  std::string_view name;
  nn::Layer (*build)(std::int64_t classes, std::int64_t in_chans);
  std::int64_t image_size, classes;
  std::vector<double> mean, deviation;
};

const std::vector<Entry>& entries() {
  using Block = ResNet::Block;
  static const std::vector<double> imagenet_mean{0.485, 0.456, 0.406},
      imagenet_deviation{0.229, 0.224, 0.225};
  static const std::vector<Entry> table{
      {"lenet5",
       [](auto classes, auto in) -> nn::Layer { return LeNet5(classes, in); },
       28,
       10,
       {0.1307},
       {0.3081}},
      {"resnet18",
       [](auto classes, auto in) -> nn::Layer { return ResNet(Block::basic, {2, 2, 2, 2}, classes, in); },
       224, 1000, imagenet_mean, imagenet_deviation},
      {"resnet20", [](auto classes, auto in) -> nn::Layer { return CifarResNet(3, classes, in); }, 32, 10,
       imagenet_mean, imagenet_deviation},
      {"resnet50",
       [](auto classes, auto in) -> nn::Layer {
         return ResNet(Block::bottleneck, {3, 4, 6, 3}, classes, in);
       },
       224, 1000, imagenet_mean, imagenet_deviation},
  };
  return table;
}

const Entry& entry(std::string_view name) {
  for (const Entry& e : entries())
    if (e.name == name) return e;
  const std::string near = nearest(name, model_names());
  fail(Fault::usage, "model: there is no '", name, "'; ",
       near.empty() ? "" : text("did you mean '", near, "'? "), "known are ", join(model_names(), ", "));
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
              e.build(classes, channels)};
  if (options.seed)
    initialise(model, *options.seed);
  else
    named_parameters(model);  // for the names
  return model;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Entry& e : entries()) names.emplace_back(e.name);
  return names;
}

}  // namespace neurim
