// ONNX's messages of values: initializers of models, and the files input_0.pb, output_0.pb of test data.
#pragma once
#include <filesystem>

#include "neurim/base/file.h"
#include "neurim/model/onnx/value.h"

namespace onnx {
class TensorProto;
class SparseTensorProto;
}  // namespace onnx

namespace neurim {

/// What such a file holds: the message is not told by its bytes.
enum class OnnxKind : std::uint8_t { tensor, sequence, optional };

/// The values of a tensor message; `folder` is where the files lie that hold data outside of it. Throws Error(data).
OnnxValue value_of(const onnx::TensorProto& tensor, const fs::path& folder);
/// The same of a sparse tensor, as a dense one.
OnnxValue value_of(const onnx::SparseTensorProto& tensor, const fs::path& folder);

/// Sets the element type, the sizes and the values of a message.
void set_values(onnx::TensorProto& tensor, const OnnxValue& value);
/// Takes the values out of a message and marks it.
void set_absent(onnx::TensorProto& tensor);
/// As value_of; of a marked message a tensor whose values are not set.
OnnxValue value_or_absent(const onnx::TensorProto& tensor, const fs::path& folder);

OnnxValue read_onnx_value(const fs::path& path, OnnxKind kind);  ///< throws Error(data) naming the file
/// Writes the message. Throws Error(resource).
void write_onnx_value(const fs::path& path, const OnnxValue& value, OnnxKind kind, const std::string& name = {});

}  // namespace neurim
