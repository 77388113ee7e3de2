// How a family of models enters the zoo.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/base/text.h"
#include "neurim/model/zoo.h"
#include "neurim/model/zoo/timm.h"
#include "neurim/nn/layer.h"

namespace neurim::zoo {

/// What may differ between two models of one name.
struct Options {
  std::int64_t classes, in_chans;
  double dropout;           ///< of the classifier, or where the family has it
  double drop_path;         ///< of the residual branches: see ModelOptions
  std::int64_t image_size;  ///< height and width, in pixels
};

struct Entry {
  std::string name;
  std::function<nn::Layer(const Options&)> build;
  std::int64_t image_size = 224, classes = 1000;
  double dropout = 0, drop_path = 0;  ///< the published rates; 0: the model has no place for it
  std::vector<double> mean{0.485, 0.456, 0.406}, std{0.229, 0.224, 0.225};  ///< ImageNet's
  std::int64_t patch = 0;  ///< its weights are for images of one size, which is a multiple of this; 0: for any size
  bool of_timm = false;    ///< torchvision has none of the name, timm has
  std::function<Renames()> other_names =
      {};  ///< what the other library, mostly timm, calls the tensors, where it differs
  std::function<Renames()> older_names = {};  ///< of tensors in files that the same library published before
  std::vector<std::string> passed_over = {};  ///< see Model
  std::function<std::map<std::string, Tensor>()> computed = {};  ///< see Model
};
using Entries = std::vector<Entry>;

/// The entry under timm's name. What it builds has torchvision's names of tensors, and gets timm's. An
/// image_size of 0 stays.
inline Entry timm(Entry entry, std::string_view name, std::int64_t image_size = 0) {
  entry.name = text(kTimmModels, name);
  if (image_size) entry.image_size = image_size;
  return entry;
}

/// The entries, and after them the same for timm, where each has the same name.
inline Entries with_timm(Entries entries) {
  for (std::size_t i = 0, count = entries.size(); i < count; ++i) entries.push_back(timm(entries[i], entries[i].name));
  return entries;
}

// The families, one file each.
Entries alexnet_models();
Entries cifar_resnet_models();
Entries convnext_models();
Entries densenet_models();
Entries efficientnet_models();
Entries googlenet_models();
Entries inception_models();
Entries lenet_models();
Entries mnasnet_models();
Entries mobilenet_v1_models();
Entries mobilenet_v2_models();
Entries mobilenet_v3_models();
Entries recurrent_classifier_models();
Entries regnet_models();
Entries resnet_models();
Entries shufflenet_models();
Entries squeezenet_models();
Entries swin_models();
Entries vgg_models();
Entries vit_models();
Entries wide_resnet_models();

}  // namespace neurim::zoo
