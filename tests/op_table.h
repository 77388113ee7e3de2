// The op table: what the samples of the ops give to tests.
#pragma once
#include "neurim/compile/op_samples.h"
#include "neurim/graph/trace.h"

namespace neurim::op_table {

inline Types types_of(const Tensors& tensors) {
  Types types;
  for (const Tensor& tensor : tensors) types.push_back(tensor.type());
  return types;
}

/// Runs a graph node by node through apply(), then commits the states: the meaning that a plan has to keep.
inline Tensors interpret(const Graph& graph, const Tensors& in) {
  Tensors values(graph.values.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = graph.values[i].captured;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) values[graph.inputs[i]] = in[i];
  const auto select = [&](const std::vector<int>& indices) {
    Tensors chosen;
    for (int index : indices) chosen.push_back(values[index]);
    return chosen;
  };
  for (const Graph::Node& node : graph.nodes) {
    const Tensors out = neurim::apply(node.op, select(node.in));
    for (std::size_t i = 0; i < out.size(); ++i) values[node.out[i]] = out[i];
  }
  // Copies: an output or a commit may read a state that another commit overwrites.
  Tensors outputs = select(graph.outputs), next;
  if (!graph.commits.empty()) {
    for (Tensor& output : outputs) output = output.clone();
    for (const Graph::Commit& commit : graph.commits) next.push_back(values[commit.value].clone());
  }
  for (std::size_t i = 0; i < next.size(); ++i) graph.values[graph.commits[i].state].captured.assign(next[i]);
  return outputs;
}

}  // namespace neurim::op_table
