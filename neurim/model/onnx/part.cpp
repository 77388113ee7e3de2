#include "neurim/model/onnx/part.h"

#include <algorithm>
#include <set>

#include "neurim/base/error.h"
#include "onnx/onnx-data.pb.h"

namespace neurim {

namespace {

using Names = std::set<std::string>;

onnx::ValueInfoProto described_value(const onnx::GraphProto& graph, const std::string& name) {
  const auto found = std::find_if(graph.value_info().begin(), graph.value_info().end(),
                                  [&](const auto& value) { return value.name() == name; });
  if (found == graph.value_info().end())
    fail(Fault::data, "does not describe the value '", name, "', where its preprocessing ends");
  return *found;
}

/// Adds what a node reads, its graphs too.
void add_read(const onnx::NodeProto& node, Names& names) {
  names.insert(node.input().begin(), node.input().end());
  const auto of_graph = [&](const onnx::GraphProto& graph) {
    for (const onnx::NodeProto& inner : graph.node()) add_read(inner, names);
    for (const auto& output : graph.output()) names.insert(output.name());
  };
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) of_graph(attribute.g());
    for (const auto& graph : attribute.graphs()) of_graph(graph);
  }
}

template <class Elements, class Keep>
void keep_if(Elements& elements, const Keep& keep) {
  const auto end = std::stable_partition(elements.pointer_begin(), elements.pointer_end(),
                                         [&](const auto* element) { return keep(*element); });
  const auto kept = static_cast<int>(end - elements.pointer_begin());
  elements.DeleteSubrange(kept, elements.size() - kept);
}

/// Keeps what makes the outputs of the graph, back to the values in `given`; tells which values are read.
Names keep_needed(onnx::GraphProto& graph, const Names& given) {
  Names needed;
  for (const auto& output : graph.output()) needed.insert(output.name());
  std::set<const onnx::NodeProto*> kept;
  for (int at = graph.node_size() - 1; at >= 0; --at) {
    const onnx::NodeProto& node = graph.node(at);
    const bool wanted = std::any_of(node.output().begin(), node.output().end(), [&](const std::string& out) {
      return !out.empty() && needed.count(out) > 0 && given.count(out) == 0;
    });
    if (wanted) kept.insert(&node), add_read(node, needed);
  }
  keep_if(*graph.mutable_node(), [&](const onnx::NodeProto& node) { return kept.count(&node) > 0; });
  keep_if(*graph.mutable_initializer(), [&](const auto& tensor) { return needed.count(tensor.name()) > 0; });
  keep_if(*graph.mutable_sparse_initializer(),
          [&](const auto& tensor) { return needed.count(tensor.values().name()) > 0; });
  return needed;
}

}  // namespace

void keep_until(onnx::GraphProto& graph, const std::string& value) {
  const onnx::ValueInfoProto output = described_value(graph, value);
  graph.clear_output();
  *graph.add_output() = output;
  keep_needed(graph, {});
}

void keep_from(onnx::GraphProto& graph, const std::string& value) {
  const onnx::ValueInfoProto input = described_value(graph, value);
  const Names needed = keep_needed(graph, {value});
  for (const auto& old : graph.input())
    if (old.name() != value && needed.count(old.name()) > 0)
      fail(Fault::data, "reads its input '", old.name(), "' after the value '", value,
           "', where its preprocessing should end");
  graph.clear_input();
  *graph.add_input() = input;
}

}  // namespace neurim
