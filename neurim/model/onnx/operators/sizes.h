// Arithmetic of sizes that follow from symbols, such as exported models have between Shape and Reshape.
#pragma once
#include <optional>

#include "neurim/model/onnx/call.h"

namespace neurim {

/// The outputs of an operator of whose inputs some are sizes (is_sizes) and the others known whole numbers; nothing
/// where none is, or where the operator takes them otherwise, as Reshape its second input.
std::optional<OnnxValues> onnx_of_sizes(const OnnxOperator& op, const OnnxCall& call);

}  // namespace neurim
