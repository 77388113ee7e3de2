// Cutting a graph into the pieces that kernels take. Internal to compile/.
#pragma once
#include <functional>
#include <vector>

#include "neurim/compile/program.h"
#include "neurim/graph/kernel.h"

namespace neurim {

/// Nodes of a graph that one kernel takes, in an order that respects the graph.
struct Chain {
  std::vector<int> nodes;
  int anchor = 0;  ///< the place in `nodes` of the one whose op names the kernels
  int anchor_node() const { return nodes[static_cast<std::size_t>(anchor)]; }
};

/// A chain as a kernel sees it.
struct ChainSite {
  std::vector<int> values;  ///< of the graph; values[i] is site value i
  std::vector<Step> steps;
  std::vector<Spec> specs;
  std::vector<int> in, out;  ///< site values
  int anchor = 0;
  Site site(const LowerOptions& options) {
    return {.steps = steps, .anchor = anchor, .values = specs, .in = in, .out = out, .chunks = options.chunks, .products = options.products,
            .winograd = options.winograd, .training = options.training};
  }
};

class Chains {
 public:
  Chains(const Graph& graph, const LowerOptions& options);

  /// Every node in one chain, in the order of their anchors: grown as far as kernels take them, judged by `wants`, or `prepare`
  /// with plain layouts.
  std::vector<Chain> form();

  /// Whether a kernel may be asked about such a chain at all.
  bool may_take(const Kernel& kernel, const Chain& chain) const;
  /// Whether a kernel of a lower rank was measured to be faster for the anchor.
  bool outrun(const Kernel& kernel, const Chain& chain) const;

  /// How a value may stand rounded, as every kernel that makes or reads it asks: known once the chains are formed, with
  /// products of 16 bits.
  Layout::Half may_round(int value) const {
    return !may_round_.empty() && may_round_[static_cast<std::size_t>(value)] ? half_of(options_.products) : Layout::exact;
  }

  using LayoutOf = std::function<Layout(int value)>;
  ChainSite describe(const Chain& chain, const LayoutOf& layout_of) const;

  /// The tuning_site of a node; empty without tuning.
  std::string site(int node) const { return sites_.empty() ? std::string() : sites_[static_cast<std::size_t>(node)]; }

  const std::vector<int>& readers(int value) const { return readers_[static_cast<std::size_t>(value)]; }
  bool wanted_outside(int value) const { return wanted_outside_[static_cast<std::size_t>(value)] != 0; }

 private:
  const Graph::Node& node(int n) const { return graph_.nodes[static_cast<std::size_t>(n)]; }
  const Shape& shape(int value) const { return graph_.values[static_cast<std::size_t>(value)].type.shape; }
  int maker(int value) const { return graph_.values[static_cast<std::size_t>(value)].node; }
  bool taken(int n) const { return chain_of_[static_cast<std::size_t>(n)] >= 0; }

  int follower(int last) const;
  int successor(int last, std::string_view op) const;
  bool pools(const Chain& chain) const;
  bool depends(int value, const std::vector<int>& chain) const;
  bool convex(const std::vector<int>& chain, const std::vector<int>& more) const;
  void own_producers(int reader, const std::vector<int>& chain, std::vector<int>& found, bool begins = false) const;
  Chain grown(int anchor, bool before, bool beside) const;
  int rank_for(const Chain& chain, int least) const;
  bool ask(const Kernel& kernel, ChainSite& asked) const;
  void choose_rounded(const std::vector<Chain>& chains);
  bool keep_rounded(const std::vector<Chain>& chains);

  const Graph& graph_;
  const LowerOptions options_;
  std::vector<std::vector<int>> readers_;
  std::vector<char> wanted_outside_;
  std::vector<Chain> chains_;  // formed so far
  std::vector<int> chain_of_;  // of each node; -1: none yet
  std::vector<char> may_round_;     // of each value; empty: none
  std::vector<std::string> sites_;  // of each node; empty without tuning, and then so is
  std::vector<int> most_rank_;      // of the kernels that may take it
};

}  // namespace neurim
