// ONNX files as checkpoints of classifiers.
#pragma once
#include "neurim/train/checkpoint.h"
#include "neurim/train/options.h"

namespace neurim {

/// Whether the name is that of an ONNX file.
bool is_onnx_file(const fs::path& path);

/// Loads a classifier of images. Its class names, size and preprocessing are those of the metadata that Neurim's export
/// writes ("names", "imgsz", "preprocess", "thresholds", "reject_threshold"); of other files those that they have, else
/// the lines of labels.txt beside the file, classes by their numbers, the size of the input and pixels scaled to [0,
/// 1], with a note of what the file does not say. Throws Error(data) for a file that is no such classifier.
Checkpoint load_onnx_checkpoint(const fs::path& path);

/// The network of an ONNX file for fine-tuning: its weights are learnt, and its last layer's are drawn anew where it
/// has another number of classes. Its source is the graph as text. Throws Error(data) for a file that is no classifier
/// of images or whose last layer is not found.
Model trainable_onnx(const fs::path& path, std::int64_t classes, std::uint64_t seed,
                     const std::optional<InputSize>& imgsz = {});

/// Whether a model's source is that of trainable_onnx.
bool is_onnx_source(const std::string& source);
/// The model of such a source, with weights that have no values yet.
Model model_of_onnx_source(const std::string& source, const ModelConfig& config);

}  // namespace neurim
