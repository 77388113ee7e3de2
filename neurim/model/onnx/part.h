// Parts of an ONNX graph. For model.cpp.
#pragma once
#include <string>

namespace onnx {
class GraphProto;
}

namespace neurim {

/// Keeps the nodes that the value is made by, and makes it the only output. Throws Error(data) where the graph does not
/// describe its type.
void keep_until(onnx::GraphProto& graph, const std::string& value);

/// Keeps the nodes that make the outputs of the value, which becomes the only input. Throws Error(data) too where they
/// read another input.
void keep_from(onnx::GraphProto& graph, const std::string& value);

}  // namespace neurim
