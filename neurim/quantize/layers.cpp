#include "neurim/quantize/layers.h"

#include <algorithm>
#include <map>

#include "neurim/base/error.h"
#include "neurim/compile/passes.h"

namespace neurim {

namespace {

bool is_product(const Graph::Node& node) { return node.op->name() == "conv2d" || node.op->name() == "linear"; }

/// The name of the weight without ".weight", else the module's path and the op's name.
std::string name_of(const Graph& graph, const Graph::Node& node) {
  std::string weight(graph.values[node.in[1]].captured.name());
  if (weight.empty()) weight = graph.values[node.in[1]].name;
  if (const std::size_t dot = weight.rfind('.'); dot != std::string::npos && dot > 0) return weight.substr(0, dot);
  return !weight.empty() ? weight : node.where.empty() ? std::string(node.op->name()) : node.where;
}

std::vector<QuantLayer> layers_of(const Graph& graph) {
  std::vector<QuantLayer> layers;
  std::map<std::string, int> names;
  std::map<int, std::size_t> made_by;  // convolutions, by their results
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Graph::Node& node = graph.nodes[n];
    if (is_product(node)) {
      const Graph::Value &x = graph.values[node.in[0]], &weight = graph.values[node.in[1]];
      if (x.captured || !weight.captured || !constant(weight.captured) || weight.type.dtype != DType::f32) continue;
      QuantLayer layer{.name = name_of(graph, node), .node = n, .x = node.in[0], .weight = node.in[1]};
      if (const int count = ++names[layer.name]; count > 1) layer.name += text('#', count);
      if (node.op->name() == "conv2d") made_by[node.out[0]] = layers.size();
      layers.push_back(std::move(layer));
    } else if (node.op->name() == "add" && graph.values[node.in[0]].type.shape == graph.values[node.in[1]].type.shape) {
      // Of two convolutions the later one adds up.
      const auto first = made_by.find(node.in[0]), second = made_by.find(node.in[1]);
      if (first == made_by.end() && second == made_by.end()) continue;
      const bool later_second = first == made_by.end() || (second != made_by.end() && second->second > first->second);
      QuantLayer& layer = layers[later_second ? second->second : first->second];
      layer.beside = node.in[later_second ? 0 : 1], layer.add = n;
    }
  }
  return layers;
}

}  // namespace

FloatModel float_model(Function function) {
  Graph graph = fold(recognise(fold(freeze(function.graph))));
  function.graph = fold(fold_batch_norm(graph));
  FloatModel model{std::move(function), {}};
  model.layers = layers_of(model.function.graph);
  require(!model.layers.empty(), "quantize: the model has no convolution and no fully connected layer of f32");
  Types types;
  for (const Function::Port& port : model.function.input_ports()) {
    Type type = port.type;
    for (int axis = 0; axis < type.shape.rank(); ++axis)
      if (type.shape[axis].symbolic()) type.shape[axis] = 1;
    types.push_back(type);
  }
  const Graph of_one = bound(model.function.graph, types);
  const std::vector<QuantLayer> sized = layers_of(of_one);
  NEURIM_ASSERT(sized.size() == model.layers.size());
  for (std::size_t i = 0; i < sized.size(); ++i)
    model.layers[i].multiply_adds = of_one.multiply_adds(of_one.nodes[sized[i].node]);
  return model;
}

}  // namespace neurim
