// What an ONNX node gives whose inputs are constants. Internal to model/onnx/.
#pragma once
#include <string_view>

#include "neurim/model/onnx/writer.h"

namespace neurim {

/// The output of a node of that type, attributes and inputs, of those that rules bring weights into ONNX's form with;
/// undefined for other types.
Tensor folded(std::string_view type, const Tensors& in, const OnnxAttributes& attributes);

}  // namespace neurim
