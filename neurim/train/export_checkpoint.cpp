#include "neurim/train/export_checkpoint.h"

#include <algorithm>
#include <cmath>

#include "neurim/base/error.h"
#include "neurim/base/json.h"
#include "neurim/model/state.h"
#include "neurim/train/model_folder.h"
#include "neurim/train/onnx_preprocess.h"
#include "neurim/weights/pytorch_file.h"

namespace neurim {

namespace {

/// Makes the folders above a file and writes it; where that fails, folders that were made go again.
template <class Write>
void write_below_new_folders(const fs::path& path, const Write& write) {
  std::error_code error;
  std::vector<fs::path> missing;  // folders, innermost first
  for (fs::path folder = path.parent_path(); !folder.empty() && !fs::exists(folder, error);
       folder = folder.parent_path())
    missing.push_back(folder);
  try {
    if (!missing.empty()) make_folder(missing.front());
    write();
  } catch (...) {
    for (const fs::path& folder : missing) fs::remove(folder, error);  // only if it is empty
    throw;
  }
}

}  // namespace

fs::path export_path(const Checkpoint& checkpoint, std::string_view ending) {
  // "timm/resnet18"
  if (checkpoint.path.empty()) return text(fs::path(checkpoint.config.model).filename().string(), '.', ending);
  const std::string name = checkpoint.path.filename().string();  // "best.safetensors", "model.safetensors.index.json"
  const fs::path file = text(name.substr(0, std::min(name.find(".safetensors"), name.rfind('.'))), '.', ending),
                 folder = checkpoint.path.parent_path();
  return folder.filename() == "weights" ? folder.parent_path() / "export" / file : folder / file;
}

Function function_of(const Checkpoint& checkpoint, bool dynamic, InputLayout layout) {
  const ModelConfig& config = checkpoint.config;
  named_parameters(checkpoint.model);  // for the names, where nothing has given them yet
  const Type input = dynamic ? input_type(config, Dim::symbol("batch"), Dim::symbol("time")) : input_type(config, 1);
  const Device device = device_of(checkpoint.model);
  Function function = trace_function([&](const Tensors& in) { return Tensors{checkpoint.model(in[0])}; },
                                     {{"input", input}}, {config.task().output}, metadata_of(config), device);
  return layout == InputLayout::nhwc ? channels_last(function, device) : function;
}

OnnxExport onnx_of(const Checkpoint& checkpoint, const fs::path& path, OnnxExportOptions options,
                   ExportedPreprocess preprocess, InputLayout layout) {
  const ModelConfig& config = checkpoint.config;
  const Preprocess& p = config.preprocess;
  options.metadata = {{"task", config.task().name}, {"model", config.model}};
  if (config.sequence) {
    options.metadata["window"] = text(config.sequence->window);
  } else {
    options.metadata["imgsz"] = text('[', p.height, ", ", p.width, ']');
    options.metadata["preprocess"] = p.json();
  }
  if (config.task() == forecast_task()) {
    options.metadata["columns"] = JsonText(config.sequence->columns).line();
    options.metadata["target"] = config.sequence->target;
  } else {
    options.metadata[config.regression() ? "targets" : "names"] = JsonText(config.class_names).line();
  }
  if (config.multi_label()) options.metadata["thresholds"] = JsonText(config.thresholds).line();
  if (!std::isnan(config.reject_threshold)) options.metadata["reject_threshold"] = text(config.reject_threshold);
  if (preprocess == ExportedPreprocess::embedded)
    options.frame = preprocess_frame(config, options.dynamic_batch ? Dim::symbol("batch") : Dim(1));
  const Function function = function_of(checkpoint, options.dynamic_batch, layout);
  if (takes_channels_last(function.metadata)) options.metadata[kInputLayout] = function.metadata.at(kInputLayout);
  return onnx_of(function, path, options);
}

OnnxExport export_checkpoint(const Checkpoint& checkpoint, const fs::path& path, const OnnxExportOptions& options,
                             ExportedPreprocess preprocess, InputLayout layout) {
  const OnnxExport files = onnx_of(checkpoint, path, options, preprocess, layout);
  write_below_new_folders(path, [&] { files.write(); });
  return files;
}

void export_function(const Checkpoint& checkpoint, const fs::path& path, bool dynamic, InputLayout layout) {
  const Function function = function_of(checkpoint, dynamic, layout);
  write_below_new_folders(path, [&] { write_function(function, path); });
}

void export_state_dict(const Checkpoint& checkpoint, const fs::path& path) {
  check_has_state_dict(checkpoint);
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const Parameter& parameter : named_parameters(checkpoint.model))
    tensors.emplace_back(parameter.name, parameter.tensor);
  write_below_new_folders(path, [&] { write_pytorch_file(path, tensors); });
}

}  // namespace neurim
