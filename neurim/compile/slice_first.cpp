// Moves slices before transposes, so that less is moved. A recurrent layer with batch_first transposes all of its
// steps, of which a classifier reads the last.
#include <memory>
#include <vector>

#include "neurim/compile/passes.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"

namespace neurim {

namespace {

/// The same slice where axis i is axis place[i].
SliceOptions moved(const SliceOptions& options, int rank, const std::vector<std::int64_t>& place) {
  SliceOptions out = options;
  out.axes.clear();
  for (std::size_t i = 0; i < options.starts.size(); ++i) {
    const std::int64_t axis = options.axes.empty() ? static_cast<std::int64_t>(i) : options.axes[i];
    out.axes.push_back(place[axis < 0 ? axis + rank : axis]);
  }
  return out;
}

std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& perm) {
  std::vector<std::int64_t> out(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) out[perm[i]] = static_cast<std::int64_t>(i);
  return out;
}

}  // namespace

Graph slice_first(const Graph& graph) {
  const std::vector<int> readers = count_readers(graph);
  return rewrite(graph, [&](const Graph::Node& node, const Tensors& in) -> Tensors {
    const auto* const slices = dynamic_cast<const Slice*>(node.op.get());
    const auto* const turns = dynamic_cast<const Transpose*>(node.op.get());
    if ((!slices && !turns) || readers[node.in[0]] > 1 || !in[0].traced()) return {};
    const Graph::Node* const before = producer(in[0]);
    if (!before) return {};
    const int rank = in[0].shape().rank();
    if (const auto* turned = dynamic_cast<const Transpose*>(before->op.get()); slices && turned) {
      const Tensor x = traced_value(before->in[0]);
      const std::vector<std::int64_t> perm = turned->perm;
      return {transpose(apply1(std::make_shared<Slice>(moved(slices->options, rank, perm)), {x}), perm)};
    }
    if (const auto* sliced = dynamic_cast<const SliceGrad*>(before->op.get()); turns && sliced) {
      const Tensor dy = traced_value(before->in[0]);
      Shape whole = sliced->shape;
      for (int axis = 0; axis < rank; ++axis) whole[axis] = sliced->shape[static_cast<int>(turns->perm[axis])];
      const SliceOptions part = moved(sliced->options, rank, inverse(turns->perm));
      return {apply1(std::make_shared<SliceGrad>(whole, part), {transpose(dy, turns->perm)})};
    }
    return {};
  });
}

}  // namespace neurim
