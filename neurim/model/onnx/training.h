// What of an ONNX model is learnt. For model.cpp.
#pragma once
#include "neurim/model/onnx/model.h"

namespace onnx {
class GraphProto;
}

namespace neurim {

/// The initializers that layers read as weights, without their tensors, in the order of the graph.
std::vector<OnnxWeight> weights_of(const onnx::GraphProto& graph);

/// Draws the weights of the last layer anew for another number of classes, as PyTorch draws those of Linear. Throws
/// Error(data) where what makes the output is no Gemm, MatMul or Conv whose weights are initializers.
void replace_head(onnx::GraphProto& graph, const OnnxTraining& training);

}  // namespace neurim
