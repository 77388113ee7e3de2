#include "neurim/model/cost.h"

#include <unordered_set>

#include "neurim/base/error.h"
#include "neurim/graph/trace.h"
#include "neurim/model/state.h"

namespace neurim {

std::vector<LayerCost> layer_costs(const Model& model, const Shape& image) {
  require(image.rank() == 3, "layer_costs: an image is (C,H,W), got ", image);
  std::unordered_set<const Value*> learnt;
  for (const Parameter& p : named_parameters(model))
    if (p.role == Role::weight) learnt.insert(p.tensor.value());

  Trace trace({.device = device_of(model)});
  const Tensor x = trace.input({DType::f32, {1, image[0], image[1], image[2]}});
  const Graph graph = trace.finish({model(x)});
  std::vector<LayerCost> layers;
  for (const Graph::Node& node : graph.nodes) {
    LayerCost layer{node.where, std::string(node.op->name()), graph.values[node.out[0]].type.shape};
    for (const int in : node.in) {
      const Tensor& read = graph.values[in].captured;
      if (read && learnt.erase(read.value())) layer.parameters += read.numel();
    }
    layer.multiply_adds = graph.multiply_adds(node);
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
