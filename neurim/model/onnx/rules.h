// How each op is written in ONNX's operators. Internal to model/onnx/.
#pragma once
#include "neurim/base/text.h"
#include "neurim/graph/op.h"
#include "neurim/model/onnx/writer.h"

namespace neurim {

/// The batch sizes of the two traces whose difference shows what depends on the batch.
inline constexpr std::int64_t kOnnxBatches[] = {2, 3};

/// What is `smaller` and `larger` in the two traces; throws Error(usage) with `who` unless it is constant or
/// a multiple of the batch size.
OnnxSizes onnx_sizes(std::span<const std::int64_t> smaller, std::span<const std::int64_t> larger, std::string_view who);

/// One node of the graph on its way into the file.
struct OnnxContext {
  OnnxWriter& file;
  const Op& op;
  const Op& larger;  ///< the same op in the trace with the larger batch
  std::string name;  ///< of the result; new names begin with it
  std::vector<std::string> in;
  Types types;  ///< of the inputs, in the trace of `op`
  Type out;
  OnnxSizes out_sizes;
  std::vector<std::string> results = {};  ///< of an op with several outputs: what its rule found for each

  /// Adds a node and returns the name of its output.
  std::string node(std::string_view type, const std::vector<std::string>& inputs,
                   const OnnxAttributes& attributes = {}) {
    return file.node(type, inputs, attributes, text(name, '/', type));
  }
  /// One number of the dtype of the result.
  std::string scalar(double value) { return file.constant(Tensor::scalar(value, out.dtype), text(name, "/value")); }
  /// An i64 vector.
  std::string list(const OnnxSizes& values, std::string_view what) { return file.sizes(values, text(name, '/', what)); }
  std::string list(std::span<const std::int64_t> values, std::string_view what) {
    return list(onnx_sizes(values, values, op.name()), what);
  }
};

/// How an op is written: the last node that `write` adds is the result, unless it names `results`.
struct OnnxRule {
  void (*write)(OnnxContext&) = nullptr;
  bool sizes = false;  ///< the rule reads `larger`; attributes of other ops may not depend on the batch
};

/// The rule of an op; one without `write` for an op that ONNX has no form of.
OnnxRule onnx_rule(const Op& op);

}  // namespace neurim
