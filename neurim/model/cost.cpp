#include "neurim/model/cost.h"

#include <algorithm>
#include <unordered_set>

#include "neurim/base/error.h"
#include "neurim/graph/trace.h"
#include "neurim/ops/matmul.h"

namespace neurim {

namespace {

/// A result of a convolution or a product takes as many as a row of the weight holds; of a transposed
/// convolution each input does.
std::int64_t multiply_adds(const Graph& graph, const Graph::Node& node) {
  const auto shape = [&](int value) { return graph.values[static_cast<std::size_t>(value)].type.shape; };
  const std::string_view op = node.op->name();
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), op) != names.end();
  };
  const bool transposed = is({"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"});
  if (transposed || is({"conv1d", "conv2d", "conv3d", "linear"})) {
    const Shape weight = shape(node.in[1]);
    return shape(transposed ? node.in[0] : node.out[0]).numel() * (weight.numel() / weight[0]);
  }
  if (const auto* product = dynamic_cast<const Matmul*>(node.op.get())) {
    const Shape a = shape(node.in[0]);
    return shape(node.out[0]).numel() * a[a.rank() - (product->transpose_a ? 2 : 1)];
  }
  if (is({"scaled_dot_product_attention"}))  // of queries with keys, and of their weights with values
    return (shape(node.in[0]).numel() + shape(node.out[0]).numel()) * shape(node.in[1])[2];
  return 0;
}

}  // namespace

std::vector<LayerCost> layer_costs(const Model& model, const Shape& image) {
  require(image.rank() == 3, "layer_costs: an image is (C,H,W), got ", image);
  std::unordered_set<const Value*> learnt;
  for (const Parameter& p : named_parameters(Model(model)))
    if (p.role == Role::weight) learnt.insert(p.tensor.value());

  Trace trace({});
  const Tensor x = trace.input({DType::f32, {1, image[0], image[1], image[2]}});
  const Graph graph = trace.finish({model(x)});
  std::vector<LayerCost> layers;
  for (const Graph::Node& node : graph.nodes) {
    LayerCost layer{node.where, std::string(node.op->name()),
                    graph.values[static_cast<std::size_t>(node.out[0])].type.shape};
    for (const int in : node.in) {
      const Tensor& read = graph.values[static_cast<std::size_t>(in)].captured;
      if (read && learnt.erase(read.value())) layer.parameters += read.numel();
    }
    layer.multiply_adds = multiply_adds(graph, node);
    layers.push_back(std::move(layer));
  }
  return layers;
}

ModelCost total(const std::vector<LayerCost>& layers) {
  ModelCost cost;
  for (const LayerCost& layer : layers) {
    cost.multiply_adds += layer.multiply_adds;
    if (layer.multiply_adds > 0) cost.activations += layer.out.numel();
  }
  return cost;
}

}  // namespace neurim
