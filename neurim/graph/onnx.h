// What an op writes itself with in ONNX's operators: Op::write_onnx.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "neurim/base/text.h"
#include "neurim/graph/op.h"

namespace neurim {

/// A name and a value.
using OnnxAttribute = std::pair<
    std::string, std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<std::string>>>;
using OnnxAttributes = std::vector<OnnxAttribute>;  ///< of one node

/// The number that ONNX gives an element type (TensorProto.DataType).
std::int64_t onnx_type(DType dtype);

/// The file that nodes are added to. Names are what values are known by; each is made unique when it is given out.
class OnnxFile {
 public:
  virtual ~OnnxFile() = default;
  virtual std::int64_t opset() const = 0;  ///< the version of the operators
  /// Adds a node with `outputs` outputs, whose names it returns: `wish`, or that with a number.
  virtual std::vector<std::string> node(std::string_view type, const std::vector<std::string>& in,
                                        const OnnxAttributes& attributes, std::string_view wish, int outputs) = 0;
  /// Adds a stored tensor as an initializer and returns its name.
  virtual std::string constant(const Tensor& tensor, std::string_view wish) = 0;
  /// The sizes as an i64 vector: a constant, or computed from the sizes of the inputs.
  virtual std::string sizes(std::span<const Dim> sizes, std::string_view wish) = 0;
};

/// One op of a graph on its way into the file.
struct OnnxNode {
  OnnxFile& file;                         ///< where nodes go
  std::string name;                       ///< of the result; new names begin with it
  std::vector<std::string> in;            ///< the names of the inputs
  Types types;                            ///< of the inputs
  Type out;                               ///< of the result
  std::vector<std::string> results = {};  ///< of an op with several outputs: the name of each

  /// Adds a node and returns the name of its output.
  std::string add(std::string_view type, const std::vector<std::string>& inputs,
                  const OnnxAttributes& attributes = {}) {
    return file.node(type, inputs, attributes, text(name, '/', type), 1)[0];
  }
  /// One number of the dtype of the result.
  std::string scalar(double value) { return file.constant(Tensor::scalar(value, out.dtype), text(name, "/value")); }
  /// An i64 vector.
  std::string list(std::span<const Dim> values, std::string_view what) {
    return file.sizes(values, text(name, '/', what));
  }
  /// The same of numbers.
  std::string list(std::span<const std::int64_t> values, std::string_view what) {
    return list(std::vector<Dim>(values.begin(), values.end()), what);
  }
  /// The inputs in the dtype of the first: ONNX's normalizations take one dtype, ours a wider weight too.
  std::vector<std::string> in_one_dtype();
  /// A matrix with its last two axes exchanged; `rank` is that of the operand.
  std::string transposed(const std::string& matrix, int rank);
};

/// The attributes of an op under the names that ONNX has for them.
OnnxAttributes onnx_attributes(const Op& op);
/// Throws Error(usage) where the file's opset does not have the form of the op yet.
void check_opset(const Op& op, const OnnxFile& file);
/// The operator of Op::onnx; throws Error(usage) where the file's opset does not have it yet.
std::string_view onnx_operator(const Op& op, const OnnxFile& file);

}  // namespace neurim
