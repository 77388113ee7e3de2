// Model folders as published by timm and Hugging Face: config.json beside model.safetensors.
#pragma once
#include "neurim/train/checkpoint.h"

namespace neurim {

/// The model config as timm's config.json, with the preprocessing under "neurim".
std::string model_json(const ModelConfig& config);

/// Throws Error(usage) where the checkpoint is of a function or an ONNX file, whose tensors are not those of a network.
void check_has_state_dict(const Checkpoint& checkpoint);

/// The model with timm's names and the same weights, of those that are known here. Throws Error(usage) where timm has
/// no network with these tensors that gives the same answer.
Model timm_model_of(const Checkpoint& checkpoint);

/// Writes config.json and model.safetensors of such a model for timm. A folder that is there gets them; while they are
/// not whole it has no config.json.
void write_timm_folder(const Model& model, const ModelConfig& config, const fs::path& folder);

/// Whether the folder has a config.json.
bool is_model_folder(const fs::path& path);

/// Of such a folder: model.safetensors or pytorch_model.bin, or the index of either for weights in
/// several files (….index.json). Throws Error(data) where there is none.
fs::path weights_of_folder(const fs::path& folder);

/// What its config.json says, as timm writes it: architecture (timm's model where "timm/…" of that name is
/// known; "neurim" may hold the name of the model instead), num_classes, label_names, and of
/// pretrained_cfg input_size, mean, std, crop_pct, crop_mode and interpolation
/// (github.com/huggingface/pytorch-image-models). Where "neurim" holds a preprocessing, that one counts.
/// Classes without names are called "0", "1", … Throws Error(data) naming the file and the field.
ModelConfig config_of_folder(const fs::path& folder);

/// How its config.json says that pixels were scaled; nothing where it does not say. All else may be of a model that is
/// not known here. Throws as config_of_folder.
std::optional<PixelScaling> scaling_of_folder(const fs::path& folder);

}  // namespace neurim
