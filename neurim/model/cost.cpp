#include "neurim/model/cost.h"

#include <unordered_set>

#include "neurim/base/error.h"
#include "neurim/graph/trace.h"
#include "neurim/ops/conv2d.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/matmul.h"

namespace neurim {

namespace {

/// One result of a convolution or a product takes as many as a row of the weight holds.
std::int64_t multiply_adds(const Graph& graph, const Graph::Node& node) {
  const auto shape = [&](int value) { return graph.values[static_cast<std::size_t>(value)].type.shape; };
  const Op* op = node.op.get();
  if (dynamic_cast<const Conv2d*>(op) || dynamic_cast<const Linear*>(op)) {
    const Shape weight = shape(node.in[1]);
    return shape(node.out[0]).numel() * (weight.numel() / weight[0]);
  }
  if (dynamic_cast<const Conv2dInputGrad*>(op)) {  // the transposed convolution: by its inputs instead
    const Shape weight = shape(node.in[1]);
    return shape(node.in[0]).numel() * (weight.numel() / weight[0]);
  }
  if (const auto* product = dynamic_cast<const Matmul*>(op)) {
    const Shape a = shape(node.in[0]);
    return shape(node.out[0]).numel() * a[a.rank() - (product->transpose_a ? 2 : 1)];
  }
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
