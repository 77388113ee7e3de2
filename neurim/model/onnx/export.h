// Writing models as ONNX files, for other runtimes. https://onnx.ai
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "neurim/base/file.h"
#include "neurim/function/function.h"
#include "neurim/graph/onnx.h"
#include "neurim/model/model.h"

namespace neurim {

/// What an ONNX file holds at most: a megabyte less than the 2 GiB that protobuf's readers refuse.
inline constexpr std::size_t kMostOnnxBytes = (std::size_t{1} << 31) - (std::size_t{1} << 20);

/// What stands in a file before and after a function of one input and one output. The metadata of the file say under
/// kOnnxPixels which value the function reads.
struct OnnxFrame {
  Function::Port input, output;  ///< of the file
  /// Adds the nodes that make what the function reads of the file's input, and gives the name of their result.
  std::function<std::string(OnnxFile&, const std::string& input)> before;
  /// The same of the file's output.
  std::function<std::string(OnnxFile&, const std::string& result)> after;
};

inline constexpr std::int64_t kBf16Opset = 22;  ///< the first whose convolutions and poolings take bf16

/// Whether convolutions or poolings of the graph read bf16, for which the file needs kBf16Opset.
bool needs_bf16_opset(const Graph& graph);

/// How a model is written.
struct OnnxExportOptions {
  /// The version of ONNX's operators, 13 to 23. Runtimes read what is older than they are, so the oldest one
  /// is the most widely read; what needs a newer one says so.
  std::int64_t opset = 17;
  bool dynamic_batch = true;                    ///< the file takes any number of images, else exactly one
  std::map<std::string, std::string> metadata;  ///< written as metadata_props: "names", "imgsz", …
  Shape image;                                  ///< (C,H,W); empty: what the model was made for
  std::size_t most_bytes = kMostOnnxBytes;      ///< of the file; weights that do not fit go beside it: see OnnxExport
  std::optional<OnnxFrame> frame = {};          ///< around the function
  /// f16, or bf16 from kBf16Opset on: weights and all that is computed are of this type; inputs and outputs stay f32.
  DType dtype = DType::f32;
};

/// Writes the inference graph of the model with its weights, atomically (see OnnxExport::write): input "input" f32
/// (N,C,H,W), output "logits" (N,num_classes), initializers under the parameters' names. The same model gives
/// the same bytes. Throws Error(usage) for an operation that ONNX has no form of (dropout and others of
/// training alone), where the network needs the batch size as a number, and for an opset that is unknown or too old.
void export_onnx(const Model& model, const fs::path& path, const OnnxExportOptions& options = {});

/// The same of a function. `options.image` is not used; nor is the dynamic batch, as sizes that are symbols stay free.
void export_onnx(const Function& function, const fs::path& path, const OnnxExportOptions& options = {});

/// The same of any function of tensors; its results are named `outputs`. With a dynamic batch, axis 0 of each input is
/// the symbol `batch`, whatever its size here.
void export_onnx(const std::function<Tensors(Tensors)>& function, std::vector<Function::Port> inputs,
                 const std::vector<std::string>& outputs, const fs::path& path, const OnnxExportOptions& options = {},
                 Device device = {});

/// A model as it is written: one file, or where its weights do not fit into one, a second one beside it that has them
/// (ONNX's external data). The model knows that one by its name, so the two are moved together.
struct OnnxExport {
  fs::path path;      ///< of the model; the file beside it is data_path()
  std::string model;  ///< the bytes of the file
  std::string data;   ///< those of the file beside it, or none

  fs::path data_path() const;                                      ///< PATH.data
  std::vector<std::string> names() const;                          ///< of the one file, or of both
  std::size_t size() const { return model.size() + data.size(); }  ///< bytes of both files

  /// Throws Error(usage) where the path has no place for a second file that is needed, Error(resource) where write
  /// could not write.
  void check_can_write() const;
  /// Writes the one file as write_file does. Of two, none is replaced before both are written; an older model with
  /// weights beside it is removed before those are replaced, so that no model is ever found with the weights of
  /// another.
  void write() const;
};

/// What these write.
OnnxExport onnx_of(const Model& model, const fs::path& path, const OnnxExportOptions& options = {});
/// The same of a function.
OnnxExport onnx_of(const Function& function, const fs::path& path, const OnnxExportOptions& options = {});
/// The same of a function of tensors.
OnnxExport onnx_of(const std::function<Tensors(Tensors)>& function, std::vector<Function::Port> inputs,
                   const std::vector<std::string>& outputs, const fs::path& path, const OnnxExportOptions& options = {},
                   Device device = {});

}  // namespace neurim
