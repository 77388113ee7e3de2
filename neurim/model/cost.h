// What a model costs for one image, counted from its traced graph.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "neurim/model/model.h"

namespace neurim {

/// One operation of the inference graph.
struct LayerCost {
  std::string where;            ///< the path of the module whose tensors it reads, "layer1.0.conv1", or ""
  std::string op;               ///< "conv2d"
  Shape out;                    ///< of its first result
  std::int64_t parameters = 0;  ///< learnt values, each counted where it is read first
  /// Of convolutions, matrix products and those of attention; other operations count as none, as in
  /// torchvision's tables.
  std::int64_t multiply_adds = 0;
};

/// In the order of execution, for one image (C,H,W). Throws Error(usage) where the model cannot take the
/// image.
std::vector<LayerCost> layer_costs(const Model& model, const Shape& image);

/// The sums over the layers of a model, for one image.
struct ModelCost {
  std::int64_t multiply_adds = 0;  ///< of all layers
  /// The values that the layers with multiply-adds give: Radosavovic et al., "Designing network design
  /// spaces", CVPR'20. Four times as many bytes, in f32, is about what training keeps of each image.
  std::int64_t activations = 0;
};
ModelCost total(const std::vector<LayerCost>& layers);  ///< the sum over layers

}  // namespace neurim
