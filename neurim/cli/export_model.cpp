#include "neurim/cli/export_model.h"

#include <algorithm>
#include <cmath>

#include "neurim/base/error.h"
#include "neurim/base/json.h"
#include "neurim/cli/open_model.h"

namespace neurim::cli {

fs::path export_path(const Checkpoint& checkpoint) {
  // "timm/resnet18"
  if (checkpoint.path.empty()) return fs::path(checkpoint.config.model).filename().string() + ".onnx";
  const std::string name = checkpoint.path.filename().string();  // "best.safetensors", "model.safetensors.index.json"
  const fs::path file = name.substr(0, std::min(name.find(".safetensors"), name.rfind('.'))) + ".onnx",
                 folder = checkpoint.path.parent_path();
  return folder.filename() == "weights" ? folder.parent_path() / "export" / file : folder / file;
}

OnnxExport onnx_of(const Checkpoint& checkpoint, const fs::path& path, OnnxExportOptions options) {
  const ModelConfig& config = checkpoint.config;
  const Preprocess& p = config.preprocess;
  options.metadata = {{"task", names_of(config.task()).task}, {"model", config.model}};
  if (config.sequence) {
    options.metadata["window"] = text(config.sequence->window);
  } else {
    options.image = {p.channels, p.height, p.width};
    options.metadata["imgsz"] = text('[', p.height, ", ", p.width, ']');
    options.metadata["preprocess"] = p.json();
  }
  if (config.task() == TaskKind::forecast) {
    options.metadata["columns"] = JsonText(config.sequence->columns).line();
    options.metadata["target"] = config.sequence->target;
  } else {
    options.metadata["names"] = JsonText(config.class_names).line();
  }
  if (config.multi_label()) options.metadata["thresholds"] = JsonText(config.thresholds).line();
  if (!std::isnan(config.reject_threshold)) options.metadata["reject_threshold"] = text(config.reject_threshold);
  if (!config.sequence) return onnx_of(checkpoint.model, path, options);
  return onnx_of([&](const Tensors& in) { return Tensors{checkpoint.model(in[0])}; },
                 {{"input", sequence_type(config, 1)}}, {config.task() == TaskKind::forecast ? "forecast" : "logits"},
                 path, options);
}

OnnxExport export_checkpoint(const Checkpoint& checkpoint, const fs::path& path, const OnnxExportOptions& options) {
  OnnxExport files = onnx_of(checkpoint, path, options);
  std::error_code error;
  std::vector<fs::path> missing;  // folders, innermost first
  for (fs::path folder = path.parent_path(); !folder.empty() && !fs::exists(folder, error);
       folder = folder.parent_path())
    missing.push_back(folder);
  try {
    if (!missing.empty()) make_folder(missing.front());
    files.write();
    return files;
  } catch (...) {
    for (const fs::path& folder : missing) fs::remove(folder, error);  // only if it is empty
    throw;
  }
}

}  // namespace neurim::cli
