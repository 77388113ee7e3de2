// Operators that only move elements.
#pragma once
#include <functional>

#include "neurim/model/onnx/call.h"

namespace neurim {

/// The value whose elements are moved: a tensor's by `move`, texts by what `move` does to their numbers.
OnnxValue onnx_moved(const OnnxValue& value, const std::function<Tensor(const Tensor&)>& move);

/// Rows [first, last) along an axis, of texts too.
OnnxValue onnx_part(const OnnxValue& value, int axis, std::int64_t first, std::int64_t last);

/// Values of one element type one after the other, of texts too.
OnnxValue onnx_joined(const OnnxValues& values, int axis);

}  // namespace neurim
