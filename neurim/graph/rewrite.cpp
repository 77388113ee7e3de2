#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/graph/recorder.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

/// The graph without the nodes and values that neither outputs nor commits need.
Graph pruned(const Graph& graph) {
  std::vector<char> live(graph.values.size(), 0);
  auto mark = [&](int value) { live[value] = 1; };
  for (int value : graph.outputs) mark(value);
  for (int value : graph.inputs) mark(value);
  for (const auto& commit : graph.commits) mark(commit.state), mark(commit.value);
  std::vector<char> keep(graph.nodes.size(), 0);
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    const Graph::Node& node = graph.nodes[n];
    keep[n] = std::any_of(node.out.begin(), node.out.end(), [&](int v) { return live[v]; });
    if (!keep[n]) continue;
    for (int value : node.in) mark(value);
    for (int value : node.out) mark(value);
  }
  Graph out;
  out.device = graph.device;
  out.training = graph.training;
  out.unequal = graph.unequal;
  std::vector<int> place(graph.values.size(), -1);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (!live[v]) continue;
    place[v] = static_cast<int>(out.values.size());
    out.values.push_back(graph.values[v]);
    out.values.back().node = -1;
  }
  auto moved = [&](std::vector<int> values) {
    for (int& value : values) value = place[value];
    return values;
  };
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!keep[n]) continue;
    Graph::Node node = graph.nodes[n];
    node.in = moved(node.in);
    node.out = moved(node.out);
    for (int value : node.out) out.values[value].node = static_cast<int>(out.nodes.size());
    out.nodes.push_back(std::move(node));
  }
  out.inputs = moved(graph.inputs);
  out.outputs = moved(graph.outputs);
  for (const auto& commit : graph.commits) out.commits.push_back({place[commit.state], place[commit.value]});
  return out;
}

}  // namespace

Graph rewrite(const Graph& graph, const Visit& visit) {
  Trace trace({.training = graph.training, .device = graph.device});
  Recorder& recorder = *Recorder::current();
  for (const auto& pair : graph.unequal) recorder.unequal.emplace(std::pair{text(pair.first), text(pair.second)}, pair);
  Tensors now(graph.values.size());
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].captured) now[v] = graph.values[v].captured;
  for (int input : graph.inputs) {
    const Graph::Value& value = graph.values[input];
    now[input] = trace.input(value.type, value.name);
  }
  for (const Graph::Node& node : graph.nodes) {
    Tensors in;
    for (int value : node.in) in.push_back(now[value]);
    const std::size_t before = recorder.graph.nodes.size();
    Tensors out = visit(node, in);
    if (out.empty()) out = neurim::apply(node.op, in);
    for (std::size_t n = before; n < recorder.graph.nodes.size(); ++n)
      if (recorder.graph.nodes[n].where.empty()) recorder.graph.nodes[n].where = node.where;
    NEURIM_ASSERT(out.size() == node.out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      NEURIM_ASSERT(out[i].type() == graph.values[node.out[i]].type);
      now[node.out[i]] = out[i];
    }
  }
  Tensors next;  // all before the first is assigned: one may be the old value of another
  for (const auto& commit : graph.commits) next.push_back(recorder.handle(recorder.read(now[commit.value])));
  for (std::size_t i = 0; i < next.size(); ++i) recorder.assign(graph.values[graph.commits[i].state].captured, next[i]);
  Tensors outputs;
  for (int value : graph.outputs) outputs.push_back(now[value]);
  return pruned(trace.finish(outputs));
}

const Graph::Node* producer(const Tensor& tensor) {
  const Recorder* recorder = Recorder::current();
  if (!recorder || !tensor.traced()) return nullptr;
  const int node = recorder->graph.values[tensor.value()->id].node;
  return node < 0 ? nullptr : &recorder->graph.nodes[node];
}

Tensor traced_value(int value) {
  // A captured tensor is kept as it is, so that passes see its data.
  const Recorder& recorder = *Recorder::current();
  const Tensor& captured = recorder.graph.values[value].captured;
  return captured ? captured : recorder.handle(value);
}

}  // namespace neurim
