#include "neurim/compile/passes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/compile/constants.h"
#include "neurim/graph/kernel.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

/// The values that dequantize makes of constants of bytes, and that readers multiply by such of other bytes: kernels
/// read the bytes.
std::set<int> byte_factors(const Graph& graph) {
  const auto dequantized = [&](int value) {
    const int node = graph.values[value].node;
    return node >= 0 && graph.nodes[node].op->name() == "dequantize";
  };
  const auto of_constant = [&](int value) {
    const auto& node = graph.nodes[graph.values[value].node];
    return static_cast<bool>(graph.values[node.in[0]].captured);
  };
  std::set<int> found;
  for (const Graph::Node& node : graph.nodes)
    if (node.in.size() > 1 && dequantized(node.in[0]) && dequantized(node.in[1]) && !of_constant(node.in[0]) &&
        graph.multiply_adds(node) > 0)
      found.insert(node.in[1]);
  return found;
}

/// Finds one tensor for all constants of one element that are equal, so that arithmetic with a number that was written
/// down twice is seen to be the same.
class Numbers {
 public:
  const Tensor& one_of(const Tensor& tensor) {
    if (!constant(tensor) || tensor.numel() != 1) return tensor;
    std::string data(bytes(tensor.type()), '\0');
    tensor.read(data.data());
    return known_.emplace(text(tensor.type(), data), tensor).first->second;
  }

 private:
  std::map<std::string, Tensor> known_;
};

/// Names a value of the current trace or a stored tensor, for comparing.
std::pair<const void*, int> identity(const Tensor& tensor) {
  return tensor.traced() ? std::pair<const void*, int>{nullptr, tensor.value()->id}
                         : std::pair<const void*, int>{tensor.value(), -1};
}

/// Whether one of the kernels would take a node by itself.
bool takes(std::span<const Kernel> list, const Graph& graph, const Graph::Node& node, const LowerOptions& options) {
  Step step{node.op.get(), {}, {}};
  std::vector<TensorDesc> descs;
  const auto add = [&](std::vector<int>& numbers, int value) {
    numbers.push_back(static_cast<int>(descs.size()));
    descs.push_back({graph.values[value].type, {}});
  };
  for (const int value : node.in) add(step.in, value);
  for (const int value : node.out) add(step.out, value);
  return std::any_of(list.begin(), list.end(), [&](const Kernel& kernel) {
    std::vector<TensorDesc> asked = descs;
    KernelRequest request{.steps = {&step, 1},
                          .values = asked,
                          .in = step.in,
                          .out = step.out,
                          .compute_dtype = options.compute_dtype,
                          .training = options.training};
    return !kernel.fused_only &&
           (kernel.propose_layouts ? kernel.propose_layouts(request) : static_cast<bool>(kernel.prepare(request)));
  });
}

}  // namespace

bool constant(const Tensor& tensor) { return !tensor.traced() && tensor.value()->constant; }

Graph freeze(const Graph& graph) {
  std::set<int> committed;
  for (const auto& commit : graph.commits) committed.insert(commit.state);
  Graph out = graph;
  for (std::size_t v = 0; v < out.values.size(); ++v) {
    Graph::Value& value = out.values[v];
    if (!value.captured || committed.count(static_cast<int>(v))) continue;
    value.captured = constant(value.captured) ? shared_by_content(value.captured) : snapshot(value.captured);
  }
  return out;
}

/// Whether the node repeats one number so often that to write it again is better than to keep it.
static bool fills(const Graph& graph, const Graph::Node& node) {
  constexpr std::int64_t kMany = 1 << 14;
  if (node.op->name() != "broadcast_to") return false;
  return graph.values[node.in[0]].type.shape.numel() == 1 && graph.values[node.out[0]].type.shape.numel() > kMany;
}

Graph fold(const Graph& graph) {
  std::map<std::tuple<std::string, std::string, std::vector<std::pair<const void*, int>>>, Tensors> seen;
  Numbers numbers;
  const std::set<int> kept = byte_factors(graph);
  const auto sized = [&](int value) {
    const Shape& shape = graph.values[value].type.shape;
    return std::none_of(shape.begin(), shape.end(), [](const Dim& size) { return size.symbolic(); });
  };
  return rewrite(graph, [&](const Graph::Node& node, const Tensors& in) -> Tensors {
    if (!node.op->pure()) return neurim::apply(node.op, in);
    if (!in.empty() && std::all_of(in.begin(), in.end(), constant) && !kept.count(node.out[0]) &&
        std::all_of(node.out.begin(), node.out.end(), sized) && !fills(graph, node)) {
      const Untraced untraced;
      return shared_constants(text(node.op->name(), attributes(*node.op)), in,
                              [&] { return neurim::apply(node.op, in); });
    }
    std::vector<std::pair<const void*, int>> inputs;
    for (const Tensor& tensor : in) inputs.push_back(identity(numbers.one_of(tensor)));
    Tensors& out = seen[{std::string(node.op->name()), attributes(*node.op), std::move(inputs)}];
    if (out.empty()) out = neurim::apply(node.op, in);
    return out;
  });
}

Graph dequantize_apart(const Graph& graph) {
  struct Made {
    std::shared_ptr<const Op> op;
    Tensors in;
    bool read = false;
  };
  const auto dequantizes = [](const Graph::Node& node) { return node.op->name() == "dequantize"; };
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), dequantizes)) return graph;
  std::map<int, Made> made;  // by the number of the value in the new trace
  std::set<int> read_outside(graph.outputs.begin(), graph.outputs.end());
  for (const Graph::Commit& commit : graph.commits) read_outside.insert(commit.value);
  return rewrite(graph, [&](const Graph::Node& node, const Tensors& in) -> Tensors {
    Tensors own = in;
    for (Tensor& tensor : own) {
      const auto at = tensor.traced() ? made.find(tensor.value()->id) : made.end();
      if (at != made.end() && std::exchange(at->second.read, true)) tensor = apply1(at->second.op, at->second.in);
    }
    const Tensors out = neurim::apply(node.op, own);
    if (dequantizes(node)) made[out[0].value()->id] = {node.op, own, read_outside.count(node.out[0]) > 0};
    return out;
  });
}

Graph decompose(const Graph& graph, const LowerOptions& options) {
  Graph out = graph;
  std::set<std::string> primitives;  // that have kernels but no decomposition
  // An op with a reference kernel is kept everywhere; others where a kernel takes them.
  const auto taken = [&](const Graph::Node& node) {
    const auto list = kernels(node.op->name(), graph.device.kind);
    if (!list.empty() && (list.back().rank == 0 || primitives.count(std::string(node.op->name())))) return true;
    return !options.interpret && (!options.training || node.op->own_gradient()) && takes(list, out, node, options);
  };
  // A decomposition may name ops that decompose in turn; each round replaces one level.
  while (std::any_of(out.nodes.begin(), out.nodes.end(), [&](const auto& node) { return !taken(node); }))
    out = rewrite(out, [&](const Graph::Node& node, const Tensors& in) -> Tensors {
      if (taken(node)) return {};
      Tensors parts = node.op->decompose(in);
      if (parts.empty() && !options.interpret && !kernels(node.op->name(), graph.device.kind).empty()) {
        primitives.emplace(node.op->name());
        return {};
      }
      require(!parts.empty(), node.where, node.where.empty() ? "" : ": ", node.op->name(), ": no kernel on ",
              graph.device, " takes it");
      return parts;
    });
  return out;
}

}  // namespace neurim
