// Rematerialization (Chen et al., "Training deep nets with sublinear memory cost", 2016) of values that cost one pass
// over memory, such as results of norms and activations, whose inputs the gradients keep anyway. Where kernels compute
// such a value in their prologue, each reader computes its own, and the value is never written.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "neurim/compile/fusion_groups.h"
#include "neurim/compile/passes.h"

namespace neurim {

namespace {

constexpr std::size_t kWorthIt = 1 << 20;  // bytes of a value
constexpr std::size_t kSmall = 16;         // an input of at most a 16th of a value's bytes may be kept for it

/// The ops of nodes, which a graph and one that is rewritten from it share.
using Readers = std::set<const Op*>;

class Recomputing {
 public:
  /// `own`: readers that compute their light operands (see light()) themselves.
  Recomputing(const Graph& graph, const Readers& own)
      : graph_(graph),
        own_(own),
        uses_(graph.values.size()),
        last_(graph.values.size(), -1),
        exact_(graph.values.size()),
        from_(graph.values.size(), kNever),
        now_(graph.values.size()) {
    const int end = static_cast<int>(graph.nodes.size());
    for (int n = 0; n < end; ++n)
      for (const int v : node(n).in)
        if (!computes(n, v)) uses_[at(v)].push_back(n), last_[at(v)] = n, exact_[at(v)] |= node(n).op->fusion().exact;
    for (const int v : graph.outputs) last_[at(v)] = end;
    for (const auto& commit : graph.commits) last_[at(commit.value)] = end;
    choose(fullest());
  }

  /// The readers of light values that may compute them themselves: those whose kernels take prologues, and pointwise
  /// ones in the backward pass, which join the groups of others.
  Readers candidates(const std::function<bool(const Op&)>& has_kernels) const {
    Readers found;
    const int turn = fullest();
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      const Op& op = *node(n).op;
      const bool gate = op.fusion().pointwise && !op.fusion().exact && n > turn;
      if (!gate && !has_kernels(op)) continue;
      for (const int v : node(n).in)
        if (size(v) >= kWorthIt && light(v) && !light(node(n).out[0])) found.insert(&op);
    }
    return found;
  }

  Graph run() {
    int n = 0;
    return rewrite(graph_, [&](const Graph::Node& each, const Tensors& in) {
      Tensors given = in;
      for (std::size_t i = 0; i < in.size(); ++i) {
        now_[at(each.in[i])] = in[i];
        if (computes(n, each.in[i]))
          given[i] = light_again(each.in[i]);
        else if (n >= from_[at(each.in[i])])
          given[i] = again(each.in[i], n);
      }
      const Tensors out = neurim::apply(each.op, given);
      for (std::size_t i = 0; i < out.size(); ++i) now_[at(each.out[i])] = out[i];
      ++n;
      return out;
    });
  }

 private:
  static constexpr int kNever = std::numeric_limits<int>::max();
  static std::size_t at(int value) { return value; }
  const Graph::Node& node(int n) const { return graph_.nodes[n]; }
  int maker(int value) const { return graph_.values[at(value)].node; }
  std::size_t size(int value) const { return bytes(graph_.values[at(value)].type); }
  bool rematerializable(int n) const { return node(n).op->fusion().rematerializable && !node(n).op->fusion().exact; }
  bool small(int input, int value) const { return size(input) <= size(value) / kSmall; }

  /// Whether the value is a norm's result, or computed from one by pointwise ops that read nothing else of size.
  bool light(int value) const {
    const int made = maker(value);
    if (made < 0 || node(made).out[0] != value || !rematerializable(made)) return false;
    if (!node(made).op->fusion().pointwise) return true;
    int large = 0;
    for (const int input : node(made).in)
      if (!small(input, value) && (++large > 1 || !light(input))) return false;
    return large == 1;
  }
  bool computes(int n, int value) const {
    return own_.count(node(n).op.get()) > 0 && size(value) >= kWorthIt && light(value);
  }

  Tensor light_again(int value) {
    const Graph::Node& made = node(maker(value));
    Tensors in, out;
    for (const int input : made.in)
      in.push_back(made.op->fusion().pointwise && !small(input, value) ? light_again(input) : now_[at(input)]);
    for (const int each : made.out) out.push_back(now_[at(each)]);
    return made.op->rematerialize(in, out);
  }

  /// The node at which most bytes are kept for later nodes.
  int fullest() const {
    std::vector<std::int64_t> change(graph_.nodes.size() + 1);
    for (int v = 0; v < static_cast<int>(graph_.values.size()); ++v) {
      if (maker(v) < 0 || last_[at(v)] < maker(v)) continue;
      change[at(maker(v))] += static_cast<std::int64_t>(size(v));
      change[at(last_[at(v)])] -= static_cast<std::int64_t>(size(v));
    }
    std::partial_sum(change.begin(), change.end(), change.begin());
    return static_cast<int>(std::max_element(change.begin(), change.end()) - change.begin());
  }

  /// Whether the value is kept at node n, or can be computed by rematerializable ops from values that are.
  bool computable(int value, int n) {
    const int made = maker(value);
    if (made < 0 || !rematerializable(made) || node(made).out[0] != value) return false;
    const auto [known, added] = computable_.try_emplace({value, n}, false);
    if (added)
      known->second = std::all_of(node(made).in.begin(), node(made).in.end(), [&](int input) {
        return maker(input) < 0 || small(input, value) || last_[at(input)] >= n || computable(input, n);
      });
    return known->second;
  }

  /// Finds the values that are kept at node `turn` and can be computed again where they are read next. The last ones
  /// are examined first, since their operands are needed as early as they are.
  void choose(int turn) {
    const int end = static_cast<int>(graph_.nodes.size());
    for (int n = turn - 1; n >= 0; --n)
      for (const int value : node(n).out) {
        const auto& uses = uses_[at(value)];
        const auto next = std::upper_bound(uses.begin(), uses.end(), turn);
        const int first = std::min(from_[at(value)], next == uses.end() ? kNever : *next);
        from_[at(value)] = kNever;
        if (first == kNever || last_[at(value)] == end || exact_[at(value)] || size(value) < kWorthIt ||
            !computable(value, first))
          continue;
        from_[at(value)] = first;
        need_inputs(value, first);
      }
  }

  void need_inputs(int value, int n) {
    if (!needed_.insert({value, n}).second) return;
    for (const int input : node(maker(value)).in) {
      if (maker(input) < 0 || small(input, value)) continue;
      if (last_[at(input)] >= n)
        from_[at(input)] = std::min(from_[at(input)], n);  // taken back when its turn comes and it is kept
      else
        need_inputs(input, n);
    }
  }

  /// The value in the new graph, computed again at node n.
  Tensor again(int value, int n) {
    const auto known = copies_.find(value);
    if (known != copies_.end()) return known->second;
    const Graph::Node& made = node(maker(value));
    Tensors in, out;
    for (const int input : made.in) {
      const bool there = maker(input) < 0 || small(input, value) || (last_[at(input)] >= n && n < from_[at(input)]);
      in.push_back(there ? now_[at(input)] : again(input, n));
    }
    for (const int each : made.out) out.push_back(now_[at(each)]);
    return copies_[value] = made.op->rematerialize(in, out);
  }

  const Graph& graph_;
  const Readers& own_;
  std::vector<std::vector<int>> uses_;              // of each value, the nodes that read it
  std::vector<int> last_;                           // the last one; beyond all: an output
  std::vector<char> exact_;                         // whether one of them is FusionTraits::exact
  std::vector<int> from_;                           // from this node on the value is a copy
  std::map<std::pair<int, int>, bool> computable_;  // of a value at a node
  std::set<std::pair<int, int>> needed_;            // whose inputs have been asked for
  Tensors now_;                                     // values in the new graph
  std::map<int, Tensor> copies_;
};

}  // namespace

Graph recompute(const Graph& graph, const LowerOptions& options) {
  const auto has_kernels = [&](const Op& op) {
    const auto list = kernels(op.name(), graph.device.kind);
    return std::any_of(list.begin(), list.end(), [](const Kernel& kernel) { return kernel.prologues; });
  };
  // First all that may; then only those whose kernel did take the nodes that compute their operand.
  const Readers wished = Recomputing(graph, {}).candidates(has_kernels);
  Readers taken;
  const Graph trial = Recomputing(graph, wished).run();
  for (const FusionGroup& group : FusionGroups(trial, options).form())
    for (const int n : group.nodes) {
      const Graph::Node& reader = trial.nodes[n];
      const auto inside = [&](int value) {
        return std::find(group.nodes.begin(), group.nodes.end(), trial.values[value].node) != group.nodes.end();
      };
      if (wished.count(reader.op.get()) &&
          std::count_if(reader.in.begin(), reader.in.end(), inside) > (n != group.anchor_node()))
        taken.insert(reader.op.get());
    }
  return Recomputing(graph, taken).run();
}

}  // namespace neurim
