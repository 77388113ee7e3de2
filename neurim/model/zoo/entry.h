// How a family of models enters the zoo.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "neurim/nn/layer.h"

namespace neurim::zoo {

/// What may differ between two models of one name.
struct Options {
  std::int64_t classes, in_chans;
  double dropout;  ///< of the classifier, or where the family has it
};

struct Entry {
  std::string name;
  std::function<nn::Layer(const Options&)> build;
  std::int64_t image_size = 224, classes = 1000;
  double dropout = 0;  ///< the published rate; 0: the model has none
  std::vector<double> mean{0.485, 0.456, 0.406}, deviation{0.229, 0.224, 0.225};  ///< ImageNet's
};
using Entries = std::vector<Entry>;

/// Values that were published for each channel; for another number of channels their average for each.
std::vector<double> per_channel(const std::vector<double>& published, std::int64_t channels);

// The families, one file each.
Entries alexnet_models();
Entries cifar_resnet_models();
Entries densenet_models();
Entries efficientnet_models();
Entries googlenet_models();
Entries inception_models();
Entries lenet_models();
Entries mnasnet_models();
Entries mobilenet_v1_models();
Entries mobilenet_v2_models();
Entries mobilenet_v3_models();
Entries regnet_models();
Entries resnet_models();
Entries shufflenet_models();
Entries squeezenet_models();
Entries vgg_models();
Entries wide_resnet_models();

}  // namespace neurim::zoo
