#include <algorithm>
#include <map>

#include "neurim/compile/passes.h"
#include "neurim/graph/value.h"
#include "neurim/ops/cast.h"

namespace neurim {

Graph computed_in(const Graph& graph, DType dtype, std::span<const DType> replaced) {
  const auto goes = [&](DType is) { return std::find(replaced.begin(), replaced.end(), is) != replaced.end(); };
  const auto of = [&](int value) { return goes(graph.values[value].type.dtype); };
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(),
                   [&](const Graph::Node& node) { return std::any_of(node.in.begin(), node.in.end(), of); }))
    return graph;
  std::map<const Value*, Tensor> stored;  // in the new type
  const auto converted = [&](const Tensor& value) {
    if (!goes(value.dtype())) return value;
    if (!value.traced()) {
      Tensor& once = stored[value.value()];
      return once ? once : once = cast(value, dtype);
    }
    if (const Graph::Node* made = producer(value); made && made->op->name() == "cast")
      if (const Tensor from = traced_value(made->in[0]); from.dtype() == dtype) return from;  // before it was rounded
    return cast(value, dtype);
  };
  return rewrite(graph, [&](const Graph::Node& node, const Tensors& in) -> Tensors {
    if (std::none_of(node.in.begin(), node.in.end(), of)) return {};
    Tensors operands;
    for (const Tensor& value : in) operands.push_back(converted(value));
    Tensors out = node.op->name() == "cast" ? operands : neurim::apply(node.op, operands);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = cast(out[i], graph.values[node.out[i]].type.dtype);
    return out;
  });
}

}  // namespace neurim
