// Writing models as ONNX files, for other runtimes. https://onnx.ai
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "neurim/base/file.h"
#include "neurim/model/model.h"

namespace neurim {

struct OnnxExportOptions {
  /// The version of ONNX's operators, 17 to 22. Runtimes read what is older than they are, so the oldest one
  /// is the most widely read; what needs a newer one says so.
  std::int64_t opset = 17;
  bool dynamic_batch = true;                    ///< the file takes any number of images, else exactly one
  std::map<std::string, std::string> metadata;  ///< written as metadata_props: "names", "imgsz", …
  Shape image;                                  ///< (C,H,W); empty: what the model was made for
};

/// Writes the inference graph of the model with its weights, atomically (see write_file): input "input" f32
/// (N,C,H,W), output "logits" (N,num_classes), initializers under the parameters' names. The same model gives
/// the same bytes. Throws Error(usage) for an operation that ONNX has no form of (dropout and others of
/// training alone), for one that depends on the batch size in another way than by sizes that are multiples of
/// it, for more than the 2 GiB that such a file can hold, and for an opset that is unknown or too old.
void export_onnx(const Model& model, const fs::path& path, const OnnxExportOptions& options = {});

/// A named input of an exported function. With a dynamic batch, axis 0 is the batch, whatever its size here.
struct OnnxInput {
  std::string name;
  Type type;
};

/// The same for any function of tensors; its results are named `outputs`. `options.image` is not used;
/// without a dynamic batch the inputs have the types that are given here.
void export_onnx(const std::function<Tensors(Tensors)>& function, const std::vector<OnnxInput>& inputs,
                 const std::vector<std::string>& outputs, const fs::path& path,
                 const OnnxExportOptions& options = {}, Device device = {});

/// The bytes of the files that these two write.
std::string onnx_of(const Model& model, const OnnxExportOptions& options = {});
std::string onnx_of(const std::function<Tensors(Tensors)>& function, const std::vector<OnnxInput>& inputs,
                    const std::vector<std::string>& outputs, const OnnxExportOptions& options = {},
                    Device device = {});

}  // namespace neurim
