#include <algorithm>
#include <cmath>
#include <map>

#include "neurim/compile/constants.h"
#include "neurim/compile/passes.h"
#include "neurim/graph/value.h"
#include "neurim/ops/add.h"
#include "neurim/ops/batch_norm.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/mul.h"

namespace neurim {

namespace {

/// A constant in the place of another.
Tensor folded(const Tensor& like, const Shape& shape, const std::vector<float>& values) {
  const Tensor tensor = Tensor::from(shape, values, like.device());
  tensor.set_name(std::string(like.name()));
  return tensor;
}

/// What a batch norm multiplies each channel with, and what it adds.
struct Affine {
  std::vector<double> scale, shift;

  Affine(const Tensors& norm, double eps) {
    const auto gamma = norm[1].values<double>(), beta = norm[2].values<double>(), mean = norm[3].values<double>(),
               var = norm[4].values<double>();
    scale.resize(gamma.size()), shift.resize(gamma.size());
    for (std::size_t c = 0; c < gamma.size(); ++c) {
      scale[c] = gamma[c] / std::sqrt(var[c] + eps);
      shift[c] = beta[c] - mean[c] * scale[c];
    }
  }
};

}  // namespace

Graph fold_batch_norm(const Graph& graph) {
  const std::vector<int> readers = count_readers(graph);
  return rewrite(graph, [&](const Graph::Node& node, const Tensors& in) -> Tensors {
    const auto* norm = dynamic_cast<const BatchNorm*>(node.op.get());
    if (!norm || in[0].dtype() != DType::f32 || !std::all_of(in.begin() + 1, in.end(), constant)) return {};
    const Tensors statistics(in.begin() + 1, in.end());
    const std::string what = text("batch_norm ", norm->eps);
    const Graph::Node* before = producer(in[0]);
    Tensors parts;
    if (before && before->op->name() == "conv2d" && readers[node.in[0]] == 1)
      for (int value : before->in) parts.push_back(traced_value(value));
    if (parts.empty() || !std::all_of(parts.begin() + 1, parts.end(), constant)) {
      Shape channels{in[1].size(0)};
      for (int axis = 2; axis < in[0].rank(); ++axis) channels.push_back(1);
      const Tensors both = shared_constants(text(what, channels), statistics, [&] {
        const Affine affine(in, norm->eps);
        const std::vector<float> scale(affine.scale.begin(), affine.scale.end()),
            shift(affine.shift.begin(), affine.shift.end());
        return Tensors{folded(in[1], channels, scale), folded(in[2], channels, shift)};
      });
      return {in[0] * both[0] + both[1]};
    }
    Tensors all = statistics;
    all.insert(all.end(), parts.begin() + 1, parts.end());
    const Tensors both = shared_constants(what, all, [&] {
      Affine affine(in, norm->eps);
      std::vector<float> weight = parts[1].values<float>();
      const std::size_t each = weight.size() / affine.scale.size();
      for (std::size_t o = 0; o < affine.scale.size(); ++o)
        for (std::size_t i = o * each; i < (o + 1) * each; ++i)
          weight[i] = static_cast<float>(weight[i] * affine.scale[o]);
      if (parts.size() == 3) {
        const auto bias = parts[2].values<double>();
        for (std::size_t o = 0; o < bias.size(); ++o) affine.shift[o] += bias[o] * affine.scale[o];
      }
      const std::vector<float> shift(affine.shift.begin(), affine.shift.end());
      return Tensors{folded(parts[1], parts[1].shape(), weight), folded(in[2], in[2].shape(), shift)};
    });
    const auto& conv = static_cast<const Conv2d&>(*before->op);
    return {conv2d(parts[0], both[0], both[1], conv.options)};
  });
}

}  // namespace neurim
