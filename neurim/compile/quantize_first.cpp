// Moves quantize before ops that move or select elements: the maximum of bytes is the byte of the maximum, and a
// quarter of the memory is moved. Quantize maps NaN to the least number, so after it a NaN no longer wins a maximum.
#include <algorithm>
#include <vector>

#include "neurim/compile/passes.h"
#include "neurim/graph/value.h"
#include "neurim/ops/quantize.h"

namespace neurim {

namespace {

/// The scale, where it is known, one number and above zero, so that bytes have the order of numbers; else 0.
float scale_of(const Tensor& scale) {
  if (!constant(scale) || scale.dtype() != DType::f32 || scale.shape().numel() != 1) return 0;
  return std::max(0.0f, scale.values<float>()[0]);
}

/// What comes of a quantize that may be done earlier, else nothing.
Tensors earlier(const Graph::Node& node, const Tensors& in, bool read_alone) {
  const auto& own = static_cast<const Quantize&>(*node.op);
  const float scale = scale_of(in[1]);
  const Graph::Node* const before = in[0].traced() ? producer(in[0]) : nullptr;
  if (!before || !(scale > 0)) return {};
  std::vector<Tensor> read;
  for (const int value : before->in) read.push_back(traced_value(value));
  // Of bytes that were made real with the same scale nothing is left to do, if their products with it are no tiny
  // numbers.
  constexpr float kTiny = 1e-30f;
  const auto* const real = dynamic_cast<const Dequantize*>(before->op.get());
  if (real && real->zero_point == own.zero_point && read[0].dtype() == own.dtype && scale > kTiny &&
      scale_of(read[1]) == scale)
    return {read[0]};
  const std::shared_ptr<const Op> op = before->op;  // the trace's nodes move
  if (!read_alone || !op->fusion().data_movement) return {};
  for (Tensor& x : read)
    if (x.dtype() != DType::f32 || x.shape().rank() < in[1].shape().rank()) return {};
  for (Tensor& x : read) x = quantize(x, in[1], own.zero_point, own.dtype);
  return {apply1(op, read)};
}

}  // namespace

Graph quantize_first(const Graph& graph) {
  const auto quantizes = [](const Graph::Node& node) { return node.op->name() == "quantize"; };
  Graph out = graph;
  for (bool changed = std::any_of(graph.nodes.begin(), graph.nodes.end(), quantizes); changed;) {
    changed = false;
    const std::vector<int> readers = count_readers(out);
    out = fold(rewrite(out, [&](const Graph::Node& node, const Tensors& in) -> Tensors {
      if (!quantizes(node)) return {};
      Tensors found = earlier(node, in, readers[node.in[0]] == 1);
      changed |= !found.empty();
      return found;
    }));
  }
  return out;
}

}  // namespace neurim
