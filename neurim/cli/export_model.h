// Writing a checkpoint as an ONNX file that says how to use it.
#pragma once
#include "neurim/model/onnx/export.h"
#include "neurim/train/checkpoint.h"

namespace neurim::cli {

/// Where a model is exported to when nothing else is said: RUN/export/best.onnx for a run's weights, else
/// beside the file.
fs::path export_path(const Checkpoint& checkpoint);

/// The ONNX file of that path, with class names, preprocessing and thresholds in the metadata; the card's
/// preprocessing says what the input is. A forecaster takes "input" f32(N,window,columns) and gives
/// "forecast" f32(N,horizon), both in the units of the series; a language model takes "input" i64(N,window),
/// numbers of characters, and gives "logits".
OnnxExport onnx_of(const Checkpoint& checkpoint, const fs::path& path, OnnxExportOptions options = {});

/// Writes it, and makes its folders; returns what was written.
OnnxExport export_checkpoint(const Checkpoint& checkpoint, const fs::path& path, const OnnxExportOptions& options = {});

}  // namespace neurim::cli
