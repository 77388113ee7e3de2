// What an op writes itself with in ONNX's operators: Op::write_onnx.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "neurim/base/text.h"
#include "neurim/graph/op.h"

namespace neurim {

/// A size in the file.
struct OnnxSize {
  std::int64_t count = 0;  ///< the size
  bool per_image = false;  ///< whether it is `count` for each image of the batch
};
using OnnxSizes = std::vector<OnnxSize>;  ///< a shape, or another list of sizes

/// A name and a value.
using OnnxAttribute = std::pair<
    std::string, std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<std::string>>>;
using OnnxAttributes = std::vector<OnnxAttribute>;  ///< of one node

/// The number that ONNX gives an element type (TensorProto.DataType).
std::int64_t onnx_type(DType dtype);

/// The batch sizes of the two traces whose difference shows what depends on the batch.
inline constexpr std::int64_t kOnnxBatches[] = {2, 3};

/// The sizes that are `smaller` and `larger` in the two traces; throws Error(usage) with `who` unless each is constant
/// or a multiple of the batch size.
OnnxSizes onnx_sizes(std::span<const std::int64_t> smaller, std::span<const std::int64_t> larger, std::string_view who);

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
  /// The sizes as an i64 vector: a constant, or computed from the batch of the first input.
  virtual std::string sizes(const OnnxSizes& sizes, std::string_view wish) = 0;
};

/// One op of a graph on its way into the file.
struct OnnxNode {
  OnnxFile& file;                         ///< where nodes go
  const Op& larger;                       ///< the same op in the trace with the larger batch
  std::string name;                       ///< of the result; new names begin with it
  std::vector<std::string> in;            ///< the names of the inputs
  Types types;                            ///< of the inputs, in the trace with the smaller batch
  Type out;                               ///< of the result, in the same trace
  OnnxSizes out_sizes;                    ///< its shape
  std::vector<std::string> results = {};  ///< of an op with several outputs: the name of each

  /// Adds a node and returns the name of its output.
  std::string add(std::string_view type, const std::vector<std::string>& inputs,
                  const OnnxAttributes& attributes = {}) {
    return file.node(type, inputs, attributes, text(name, '/', type), 1)[0];
  }
  /// One number of the dtype of the result.
  std::string scalar(double value) { return file.constant(Tensor::scalar(value, out.dtype), text(name, "/value")); }
  /// An i64 vector; `who` is the op, for messages.
  std::string list(const OnnxSizes& values, std::string_view what) { return file.sizes(values, text(name, '/', what)); }
  /// The same of constants.
  std::string list(std::span<const std::int64_t> values, std::string_view what) {
    return list(onnx_sizes(values, values, name), what);
  }
  /// The inputs in the dtype of the first: ONNX's normalizations take one dtype, ours a wider weight too.
  std::vector<std::string> in_one_dtype();
  /// A matrix with its last two axes exchanged; `rank` is that of the operand.
  std::string transposed(const std::string& matrix, int rank);
};

/// The attributes of an op under the names that ONNX has for them.
OnnxAttributes onnx_attributes(const Op& op);
/// The operator of Op::onnx; throws Error(usage) where the file's opset does not have it yet.
std::string_view onnx_operator(const Op& op, const OnnxFile& file);

}  // namespace neurim
