// Exports of checkpoints: ONNX files and function files, with what their use needs in the metadata.
#pragma once
#include "neurim/function/image_layout.h"
#include "neurim/model/onnx/export.h"
#include "neurim/train/checkpoint.h"

namespace neurim {

/// The default path of an export: RUN/export/best.ENDING for a run's weights, else next to the file.
fs::path export_path(const Checkpoint& checkpoint, std::string_view ending);

/// The model for inference, traced: of images "input" f32(batch,channels,height,width) -> "logits" (batch,classes); of
/// a forecaster "input" f32(batch,time,columns) -> "forecast" f32(batch,horizon), both in the units of the series; of a
/// language model "input" i64(batch,time), indices of characters, -> "logits". `dynamic`: batch and time are symbols,
/// else 1 and the window of training. The metadata are those of the weights file. `layout`: of the images.
Function function_of(const Checkpoint& checkpoint, bool dynamic = true, InputLayout layout = InputLayout::model);

/// Whether an ONNX file of a classifier has its preprocessing in it: see preprocess_frame.
enum class ExportedPreprocess : std::uint8_t { external, embedded };

/// Describes the ONNX file of that path, of the same inputs and outputs or those of preprocess_frame, with class names,
/// preprocessing and thresholds in its metadata.
OnnxExport onnx_of(const Checkpoint& checkpoint, const fs::path& path, OnnxExportOptions options = {},
                   ExportedPreprocess preprocess = ExportedPreprocess::external,
                   InputLayout layout = InputLayout::model);

/// Writes the file and the folders above it. Returns what was written.
OnnxExport export_checkpoint(const Checkpoint& checkpoint, const fs::path& path, const OnnxExportOptions& options = {},
                             ExportedPreprocess preprocess = ExportedPreprocess::external,
                             InputLayout layout = InputLayout::model);
/// Writes the weights as PyTorch's state dict, under the model's own names. Throws Error(usage) for a model of a
/// function or an ONNX file.
void export_state_dict(const Checkpoint& checkpoint, const fs::path& path);
/// The same of a function file.
void export_function(const Checkpoint& checkpoint, const fs::path& path, bool dynamic = true,
                     InputLayout layout = InputLayout::model);

}  // namespace neurim
