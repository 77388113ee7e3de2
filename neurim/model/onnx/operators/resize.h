// Resize and Upsample.
#pragma once
#include "neurim/model/onnx/call.h"

namespace neurim {

void add_resize_operators(OnnxOperators& to);  ///< Resize, Upsample

}  // namespace neurim
