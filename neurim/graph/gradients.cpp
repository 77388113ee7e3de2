// Differentiation as a rewrite of the graph: the backward nodes are recorded after the forward ones.
#include <algorithm>
#include <memory>

#include "neurim/base/error.h"
#include "neurim/graph/recorder.h"
#include "neurim/graph/value.h"

namespace neurim {

Tensors Recorder::backward(std::size_t first, std::span<const int> of, std::span<const int> wrt,
                           std::span<const Tensor> seeds) {
  const std::size_t last = graph.nodes.size(), forward_values = graph.values.size();
  std::vector<char> needed(forward_values, 0);
  for (int value : wrt) needed[value] = 1;
  auto wants_gradient = [&](int value) {
    const auto v = static_cast<std::size_t>(value);
    return needed[v] && is_floating(graph.values[v].type.dtype);
  };
  for (std::size_t n = first; n < last; ++n) {
    const Graph::Node& node = graph.nodes[n];
    if (std::any_of(node.in.begin(), node.in.end(), wants_gradient))
      for (int value : node.out) needed[value] = 1;
  }

  std::vector<Tensor> gradient(forward_values);
  auto accumulate = [&](int value, const Tensor& partial) {
    Tensor& sum = gradient[value];
    sum = sum ? apply1(make_op("add"), {sum, partial}) : partial;
  };
  for (std::size_t i = 0; i < of.size(); ++i) accumulate(of[i], seeds[i]);

  for (std::size_t n = last; n-- > first;) {
    const Graph::Node node = graph.nodes[n];  // a copy: recording may move the list
    const bool reached = std::any_of(node.out.begin(), node.out.end(),
                                     [&](int value) { return static_cast<bool>(gradient[value]); });
    if (!reached || std::none_of(node.in.begin(), node.in.end(), wants_gradient)) continue;
    Tensors in, out, dout;
    const auto wanted = std::make_unique<bool[]>(node.in.size());
    for (std::size_t i = 0; i < node.in.size(); ++i) {
      in.push_back(handle(node.in[i]));
      wanted[i] = wants_gradient(node.in[i]);
    }
    for (int value : node.out) {
      out.push_back(handle(value));
      dout.push_back(gradient[value]);
    }
    const Tensors partials = node.op->grad({in, out, dout, {wanted.get(), node.in.size()}});
    NEURIM_ASSERT(partials.size() == node.in.size());
    for (std::size_t i = 0; i < partials.size(); ++i) {
      if (!wanted[i] || !partials[i]) continue;
      NEURIM_ASSERT(partials[i].type() == in[i].type());
      accumulate(node.in[i], partials[i]);
    }
  }

  Tensors results;
  for (int value : wrt) results.push_back(gradient[value]);
  return results;
}

Tensors gradients(std::span<const Tensor> of, std::span<const Tensor> wrt, std::span<const Tensor> seeds) {
  Recorder* recorder = Recorder::current();
  require(recorder != nullptr, "gradients: only inside a trace (compile or plan); eager code keeps no history");
  require(seeds.empty() || seeds.size() == of.size(), "gradients: ", seeds.size(), " seeds for ", of.size(), " values");
  std::vector<int> of_values, wrt_values;
  Tensors all_seeds(seeds.begin(), seeds.end());
  for (const Tensor& tensor : of) {
    of_values.push_back(recorder->read(tensor));
    if (seeds.empty()) all_seeds.push_back(Tensor::full(tensor.type(), 1, tensor.device()));
  }
  for (const Tensor& tensor : wrt) wrt_values.push_back(recorder->read(tensor));
  return recorder->backward(0, of_values, wrt_values, all_seeds);
}

Tensors Op::decompose(std::span<const Tensor>) const { return {}; }

Tensor Op::rematerialize(std::span<const Tensor> in, std::span<const Tensor>) const {
  return apply1(shared_from_this(), Tensors(in.begin(), in.end()));
}

Tensors Op::grad(const Gradient& g) const {
  Recorder* recorder = Recorder::current();
  const std::size_t first = recorder->graph.nodes.size();
  const Tensors out = decompose(g.in);
  require(!out.empty(), name(), ": has no gradient");
  std::vector<int> of, wrt;
  Tensors seeds;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!g.dout[i]) continue;
    of.push_back(recorder->read(out[i]));
    seeds.push_back(g.dout[i]);
  }
  for (const Tensor& tensor : g.in) wrt.push_back(recorder->read(tensor));
  return recorder->backward(first, of, wrt, seeds);
}

}  // namespace neurim
