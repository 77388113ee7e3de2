// Exports a checkpoint to ONNX with the metadata that its use needs.
#pragma once
#include "neurim/model/onnx/export.h"
#include "neurim/train/checkpoint.h"

namespace neurim::cli {

/// The default path of an export: RUN/export/best.onnx for a run's weights, else next to the file.
fs::path export_path(const Checkpoint& checkpoint);

/// Describes the ONNX file of that path, with class names, preprocessing and thresholds in its metadata. The input type
/// follows from the preprocessing of the model config. A forecaster takes "input" f32(N,window,columns) and gives
/// "forecast" f32(N,horizon), both in the units of the series. A language model takes "input" i64(N,window), indices of
/// characters, and gives "logits".
OnnxExport onnx_of(const Checkpoint& checkpoint, const fs::path& path, OnnxExportOptions options = {});

/// Writes the file and the folders above it. Returns what was written.
OnnxExport export_checkpoint(const Checkpoint& checkpoint, const fs::path& path, const OnnxExportOptions& options = {});

}  // namespace neurim::cli
