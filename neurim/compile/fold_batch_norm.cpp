#include <algorithm>
#include <cmath>
#include <map>

#include "neurim/compile/passes.h"
#include "neurim/graph/value.h"
#include "neurim/ops/batch_norm.h"
#include "neurim/ops/conv.h"

namespace neurim {

namespace {

bool constant(const Tensor& tensor) { return !tensor.traced() && tensor.value()->constant; }

Tensor folded(const Tensor& like, const std::vector<double>& values) {
  const std::vector<float> narrow(values.begin(), values.end());
  const Tensor tensor = Tensor::from(like.shape(), narrow, like.device());
  tensor.set_name(std::string(like.name()));
  tensor.value()->constant = true;
  return tensor;
}

}  // namespace

Graph fold_batch_norm(const Graph& graph) {
  std::vector<int> readers(graph.values.size(), 0);
  for (const auto& node : graph.nodes)
    for (int value : node.in) ++readers[static_cast<std::size_t>(value)];
  for (int value : graph.outputs) ++readers[static_cast<std::size_t>(value)];
  return rewrite(graph, [&](const Graph::Node& node, const Tensors& in) -> Tensors {
    const auto* norm = dynamic_cast<const BatchNorm*>(node.op.get());
    if (!norm || readers[static_cast<std::size_t>(node.in[0])] != 1) return {};
    const Graph::Node* before = producer(in[0]);
    if (!before || before->op->name() != "conv2d" || in[0].dtype() != DType::f32) return {};
    Tensors parts;
    for (int value : before->in) parts.push_back(traced_value(value));
    if (!std::all_of(parts.begin() + 1, parts.end(), constant) || !std::all_of(in.begin() + 1, in.end(), constant)) return {};
    const auto& conv = static_cast<const Conv2d&>(*before->op);

    const auto gamma = in[1].values<double>(), beta = in[2].values<double>(), mean = in[3].values<double>(),
               var = in[4].values<double>();
    auto weight = parts[1].values<double>();
    std::vector<double> bias(gamma.size(), 0);
    if (parts.size() == 3) bias = parts[2].values<double>();
    const std::size_t each = weight.size() / gamma.size();
    for (std::size_t o = 0; o < gamma.size(); ++o) {
      const double scale = gamma[o] / std::sqrt(var[o] + norm->eps);
      for (std::size_t i = 0; i < each; ++i) weight[o * each + i] *= scale;
      bias[o] = beta[o] + (bias[o] - mean[o]) * scale;
    }
    return {conv2d(parts[0], folded(parts[1], weight), folded(in[2], bias), conv.options)};
  });
}

}  // namespace neurim
