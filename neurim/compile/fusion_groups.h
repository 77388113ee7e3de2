// Cuts a graph into fusion groups. Internal to compile/.
#pragma once
#include <functional>
#include <vector>

#include "neurim/compile/program.h"
#include "neurim/graph/kernel.h"

namespace neurim {

/// Nodes that one kernel executes, in topological order.
struct FusionGroup {
  std::vector<int> nodes;
  int anchor = 0;  ///< the index in `nodes` of the node whose op selects the kernels
  int anchor_node() const { return nodes[anchor]; }
};

/// A fusion group as a kernel is asked for it.
struct GroupRequest {
  std::vector<int> values;  ///< of the graph; values[i] is request value i
  std::vector<Step> steps;
  std::vector<TensorDesc> descs;
  std::vector<int> in, out;  ///< request values
  int anchor = 0;
  KernelRequest request(const LowerOptions& options) {
    return {.steps = steps,
            .anchor = anchor,
            .values = descs,
            .in = in,
            .out = out,
            .chunks = options.chunks,
            .compute_dtype = options.compute_dtype,
            .winograd = options.winograd,
            .training = options.training};
  }
};

class FusionGroups {
 public:
  FusionGroups(const Graph& graph, const LowerOptions& options);

  /// Puts every node into one fusion group and returns the groups in the order of their anchors. A group grows as long
  /// as a kernel accepts it: in propose_layouts or, without one, in prepare with plain layouts.
  std::vector<FusionGroup> form();

  /// Whether the kernel may be asked for groups of this form.
  bool may_take(const Kernel& kernel, const FusionGroup& group) const;
  /// Whether a kernel of a lower rank was measured to be faster for the anchor.
  bool superseded(const Kernel& kernel, const FusionGroup& group) const;

  /// The storage dtype of a value that every kernel which writes or reads it proposes in 16 bits; else exact. Known
  /// once the groups are formed.
  Layout::StorageDtype may_store_as(int value) const {
    return !may_store_as_.empty() && may_store_as_[value] ? storage_of(options_.compute_dtype) : Layout::exact;
  }

  using LayoutOf = std::function<Layout(int value)>;
  GroupRequest describe(const FusionGroup& group, const LayoutOf& layout_of) const;

  /// The tuning key of a node; empty without tuning.
  std::string tuning_key(int node) const { return tuning_keys_.empty() ? std::string() : tuning_keys_[node]; }

  const std::vector<int>& readers(int value) const { return readers_[value]; }
  bool wanted_outside(int value) const { return wanted_outside_[value] != 0; }

 private:
  const Graph::Node& node(int n) const { return graph_.nodes[n]; }
  const Shape& shape(int value) const { return graph_.values[value].type.shape; }
  int maker(int value) const { return graph_.values[value].node; }
  bool taken(int n) const { return group_of_[n] >= 0; }

  int follower(int last) const;
  int sole_reader(int last) const;
  bool is_ended(const FusionGroup& group) const;
  bool depends(int value, const std::vector<int>& group) const;
  bool convex(const std::vector<int>& group, const std::vector<int>& more) const;
  void own_producers(int reader, const std::vector<int>& group, std::vector<int>& found, bool begins = false) const;
  FusionGroup grown(int anchor, bool before, bool beside) const;
  int rank_for(const FusionGroup& group, int least) const;
  bool ask(const Kernel& kernel, GroupRequest& asked) const;
  void choose_rounded(const std::vector<FusionGroup>& groups);
  bool keep_rounded(const std::vector<FusionGroup>& groups);

  const Graph& graph_;
  const LowerOptions options_;
  std::vector<std::vector<int>> readers_;
  std::vector<char> wanted_outside_;
  std::vector<FusionGroup> groups_;       // formed so far
  std::vector<int> group_of_;             // of each node; -1: none yet
  std::vector<char> may_store_as_;        // of each value; empty: none
  std::vector<std::string> tuning_keys_;  // of each node; empty without tuning, and then so is
  std::vector<int> most_rank_;            // of the kernels that may take it
};

}  // namespace neurim
