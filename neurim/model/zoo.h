// The models that Neurim knows by name.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/model/model.h"

namespace neurim {

/// What may be chosen of a model that is known by name.
struct ModelOptions {
  std::int64_t num_classes = 0;  ///< 0: what the model was published with
  std::int64_t in_chans = 0;     ///< 0: what the model was published with
  /// The rate of dropout, where the model has any; without one the published rate.
  std::optional<double> dropout = {};
  /// The rate of stochastic depth (Huang et al., ECCV'16) after the last block, where the model has any:
  /// each block's residual branch is left out for a sample with a probability that grows from 0 in proportion
  /// to the block's number. Without one the published rate.
  std::optional<double> drop_path = {};
  /// Height and width of the images, in pixels. Only models whose weights are for images of one size look at it: the
  /// position embeddings of vision transformers, whose patches divide it. 0: what the model was published for.
  std::int64_t image_size = 0;
  /// Initial weights are a function of the seed and each parameter's name. Without a seed they are left
  /// undefined, for a model that is loaded next.
  std::optional<std::uint64_t> seed = 0;
};

/// Builds a model on the CPU, every tensor named. With other channels than the published ones, mean and
/// std are the averages of those. "vit_tiny" is vit_tiny_patch16_224, and so on. Throws Error(usage) for
/// an unknown name, with the nearest known one, for a dropout or drop_path that the model has no place for, and for an
/// image_size that its patches do not divide.
Model create_model(std::string_view name, const ModelOptions& options = {});

/// The known models with timm's names of tensors that have the tensors of this one, of the same name first:
/// "timm/resnet18" for "resnet18", "timm/mobilenetv2_100" for "mobilenet_v2".
std::vector<std::string> timm_models_of(const Model& model);

/// Whether the name is of a known model whose weights are for images of one size.
bool has_one_image_size(std::string_view name);

/// The known names, sorted.
std::vector<std::string> model_names();

/// What the names of timm's models begin with: "timm/resnet18" has the name that "resnet18" has there.
inline constexpr std::string_view kTimmModels = "timm/";

}  // namespace neurim
