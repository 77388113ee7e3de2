#include "neurim/compile/fusion_groups.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "neurim/compile/tuning.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

constexpr int kMostAlike = 3;  // ops in a group that are like its anchor
// More than kernels take: without a bound, long chains of ops are grown as a whole from each place, to be cut each
// time.
constexpr std::size_t kMostNodes = 64;

bool has(const std::vector<int>& list, int n) { return std::find(list.begin(), list.end(), n) != list.end(); }

/// The layout of a value before anything is lowered: that of the captured tensor.
Layout captured_layout(const Graph& graph, int value) {
  const Tensor& captured = graph.values[value].captured;
  return captured ? captured.value()->layout : Layout{};
}

/// The rank of the kernel of this name; above all ranks where there is none.
int rank_of(std::string_view name, std::span<const Kernel> list) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const Kernel& kernel) { return kernel.name == name; });
  return at == list.end() ? std::numeric_limits<int>::max() : at->rank;
}

}  // namespace

FusionGroups::FusionGroups(const Graph& graph, const LowerOptions& options)
    : graph_(graph),
      options_(options),
      readers_(graph.values.size()),
      wanted_outside_(graph.values.size()),
      group_of_(graph.nodes.size(), -1) {
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (const int value : graph.nodes[n].in) readers_[value].push_back(static_cast<int>(n));
  for (const int value : graph.outputs) wanted_outside_[value] = 1;
  for (const auto& commit : graph.commits) wanted_outside_[commit.value] = 1;
  if (!options.tuning || options.interpret) return;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    tuning_keys_.push_back(neurim::tuning_key(graph, n, options));
    const std::string* const chosen = options.tuning->chosen(tuning_keys_.back());
    most_rank_.push_back(rank_of(chosen ? *chosen : "", kernels(node(n).op->name(), graph.device.kind)));
  }
}

bool FusionGroups::may_take(const Kernel& kernel, const FusionGroup& group) const {
  const auto like_anchor = [&](int n) { return node(n).op->name() == kernel.op && !node(n).op->fusion().follows; };
  if (group.anchor > 0 && !kernel.prologues) return false;
  if (is_ended(group) && !kernel.endings) return false;
  if (kernel.series != (std::count_if(group.nodes.begin(), group.nodes.end(), like_anchor) > 1)) return false;
  return group.nodes.size() > 1 ? kernel.fuses || kernel.fused_only : !kernel.fused_only;
}

bool FusionGroups::is_ended(const FusionGroup& group) const {
  return group.nodes.size() > 1 && node(group.nodes.back()).op->fusion().ends_group;
}

bool FusionGroups::superseded(const Kernel& kernel, const FusionGroup& group) const {
  return !most_rank_.empty() && kernel.rank > most_rank_[group.anchor_node()];
}

/// The node that may join a group after `last`: the first reader of its first output, if its op may follow and keeps
/// the shape; else -1.
int FusionGroups::follower(int last) const {
  const int value = node(last).out[0];
  if (readers(value).empty()) return -1;
  const int next = *std::min_element(readers(value).begin(), readers(value).end());
  return node(next).op->fusion().follows && shape(node(next).out[0]) == shape(value) ? next : -1;
}

/// The only reader of the first output of `last`, or -1.
int FusionGroups::sole_reader(int last) const {
  const int value = node(last).out[0];
  return readers(value).size() == 1 && !wanted_outside(value) ? readers(value)[0] : -1;
}

/// Whether a value depends on results of the group. A group that is formed already runs as a whole, so it depends on
/// all that any of its nodes reads.
bool FusionGroups::depends(int value, const std::vector<int>& group) const {
  const int first = *std::min_element(group.begin(), group.end());
  std::vector<int> open{maker(value)};
  std::set<int> seen;
  while (!open.empty()) {
    const int made = open.back();
    open.pop_back();
    if (made < 0 || !seen.insert(made).second) continue;
    if (has(group, made)) return true;
    const int formed = group_of_[made];
    if (formed < 0) {
      if (made > first)
        for (const int in : node(made).in) open.push_back(maker(in));
      continue;
    }
    const FusionGroup& other = groups_[formed];
    if (*std::max_element(other.nodes.begin(), other.nodes.end()) < first) continue;
    for (const int member : other.nodes) {
      seen.insert(member);
      for (const int in : node(member).in) open.push_back(maker(in));
    }
  }
  return false;
}

/// Whether the group with `more` is still convex: no value that these read from outside depends on the group.
bool FusionGroups::convex(const std::vector<int>& group, const std::vector<int>& more) const {
  for (const int n : more)
    for (const int value : node(n).in)
      if (!has(group, maker(value)) && !has(more, maker(value)) && depends(value, group)) return false;
  return true;
}

/// Adds to `found`, in topological order, the pointwise nodes that compute operands of `reader` for it alone, so that
/// they may join the group with it. Where `reader` begins the group, also single nodes that may precede it. Nodes that
/// may follow the producer of their operand stay out: they cost less in that group.
void FusionGroups::own_producers(int reader, const std::vector<int>& group, std::vector<int>& found,
                                 bool begins) const {
  for (const int value : node(reader).in) {
    const int made = maker(value);
    if (made < 0 || taken(made) || has(group, made) || has(found, made) || wanted_outside(value)) continue;
    const bool pointwise = node(made).op->fusion().pointwise;
    if (!(pointwise || (begins && node(made).op->precedes(*node(reader).op))) || node(made).in.empty()) continue;
    const auto inside = [&](int n) { return n == reader || (pointwise && has(found, n)); };
    if (!std::all_of(readers(value).begin(), readers(value).end(), inside)) continue;
    if (!pointwise) {
      found.push_back(made);
      continue;
    }
    std::vector<int> before = found;
    if (node(made).op->fusion().follows) own_producers(made, group, before);
    const bool could_follow = std::any_of(node(made).in.begin(), node(made).in.end(), [&](int in) {
      const int source = maker(in);
      return source >= 0 && !has(before, source) && shape(in) == shape(value) && follower(source) == made;
    });
    if (could_follow) continue;
    found = std::move(before);
    found.push_back(made);
  }
}

/// The longest group around an anchor that a kernel accepts. `before`, `beside`: including the nodes that compute
/// operands of the anchor, and of the nodes after it. Kernels that rank below the one for the anchor alone are not
/// considered: they cost more than the fusion saves.
FusionGroup FusionGroups::grown(int anchor, bool before, bool beside) const {
  FusionGroup group;
  if (before) own_producers(anchor, {}, group.nodes, true);
  group.anchor = static_cast<int>(group.nodes.size());
  group.nodes.push_back(anchor);
  std::vector<std::size_t> ends{group.nodes.size()};
  const Op& op = *node(anchor).op;
  const auto list = kernels(op.name(), graph_.device.kind);
  const bool series = std::any_of(list.begin(), list.end(), [](const Kernel& kernel) { return kernel.series; }),
             endings = std::any_of(list.begin(), list.end(), [](const Kernel& kernel) { return kernel.endings; });
  for (int alike = 1; !is_ended(group) && group.nodes.size() < kMostNodes;) {
    int next = follower(group.nodes.back());
    if (const int reader = next < 0 ? sole_reader(group.nodes.back()) : -1; reader >= 0) {
      const bool like_anchor = series && node(reader).op->name() == op.name() && alike < kMostAlike;
      if (like_anchor) ++alike;
      if (like_anchor || (endings && node(reader).op->fusion().ends_group)) next = reader;
    }
    if (next < 0 || taken(next)) break;
    std::vector<int> more;
    if (beside) own_producers(next, group.nodes, more);
    more.push_back(next);
    if (!convex(group.nodes, more)) break;
    group.nodes.insert(group.nodes.end(), more.begin(), more.end());
    ends.push_back(group.nodes.size());
  }
  const int least = group.nodes.size() > 1 ? rank_for({{anchor}}, 0) : 0;
  for (; !ends.empty(); ends.pop_back()) {
    group.nodes.resize(ends.back());
    if (group.nodes.size() == 1 || rank_for(group, least) >= 0) return group;
  }
  return {};
}

/// The highest rank of a kernel that accepts the group, if it is `least` or more; else -1.
int FusionGroups::rank_for(const FusionGroup& group, int least) const {
  GroupRequest described = describe(group, [&](int value) { return captured_layout(graph_, value); });
  for (const Kernel& kernel : kernels(node(group.anchor_node()).op->name(), graph_.device.kind)) {
    if (kernel.rank < least || !may_take(kernel, group) || superseded(kernel, group)) continue;
    if (GroupRequest asked = described; ask(kernel, asked)) return kernel.rank;
  }
  return -1;
}

/// Whether the kernel accepts the request; its layouts become those that the kernel proposes.
bool FusionGroups::ask(const Kernel& kernel, GroupRequest& asked) const {
  if (!kernel.propose_layouts)
    for (TensorDesc& desc : asked.descs) desc.layout = {};
  KernelRequest request = asked.request(options_);
  return kernel.propose_layouts ? kernel.propose_layouts(request) : static_cast<bool>(kernel.prepare(request));
}

/// Chooses the values between groups that are stored in 16 bits: those for which all kernels that write or read them
/// propose it. A value that one of them declines stays exact, which may change what kernels propose for its neighbours.
void FusionGroups::choose_rounded(const std::vector<FusionGroup>& groups) {
  if (storage_of(options_.compute_dtype) == Layout::exact || options_.interpret) return;
  for (std::size_t value = 0; value < graph_.values.size(); ++value) {
    const Graph::Value& own = graph_.values[value];
    may_store_as_.push_back(own.node >= 0 && own.type.dtype == DType::f32 && !wanted_outside_[value]);
  }
  while (!keep_rounded(groups)) {
  }
}

/// Asks the kernels group by group, as lowering does, and keeps the values that all propose in 16 bits. Returns whether
/// it kept all.
bool FusionGroups::keep_rounded(const std::vector<FusionGroup>& groups) {
  std::vector<Layout> layouts(graph_.values.size());
  for (std::size_t value = 0; value < layouts.size(); ++value)
    layouts[value] = captured_layout(graph_, static_cast<int>(value));
  std::vector<char> kept(layouts.size()), declined(layouts.size());
  for (const FusionGroup& group : groups) {
    const GroupRequest described = describe(group, [&](int value) { return layouts[value]; });
    GroupRequest asked;
    for (const Kernel& kernel : kernels(node(group.anchor_node()).op->name(), graph_.device.kind)) {
      asked = described;
      if (may_take(kernel, group) && !superseded(kernel, group) && ask(kernel, asked)) break;
    }
    for (const std::vector<int>* list : {&asked.in, &asked.out})
      for (const int number : *list) {
        const auto value = static_cast<std::size_t>(asked.values[number]);
        const Layout& layout = asked.descs[number].layout;
        if (!layout.storage) declined[value] = 1;
        if (list == &asked.out) kept[value] = may_store_as_[value], layouts[value] = layout;
      }
  }
  for (std::size_t value = 0; value < kept.size(); ++value) kept[value] = kept[value] && !declined[value];
  std::swap(may_store_as_, kept);
  return may_store_as_ == kept;
}

std::vector<FusionGroup> FusionGroups::form() {
  const auto add = [&](FusionGroup group) {
    for (const int n : group.nodes) group_of_[n] = static_cast<int>(groups_.size());
    groups_.push_back(std::move(group));
  };
  const int count = static_cast<int>(graph_.nodes.size());
  const auto takes_prologues = [&](int n) {
    const auto list = kernels(node(n).op->name(), graph_.device.kind);
    return std::any_of(list.begin(), list.end(), [](const Kernel& kernel) { return kernel.prologues; });
  };
  // Groups with a prologue first: its nodes come earlier in the graph and would otherwise begin groups of their own.
  for (int n = 0; n < count && !options_.interpret; ++n)
    if (!taken(n) && takes_prologues(n))
      if (FusionGroup group = grown(n, true, true); group.anchor > 0) add(std::move(group));
  for (int n = 0; n < count; ++n) {
    if (taken(n)) continue;
    FusionGroup group{{n}};
    if (!options_.interpret) group = grown(n, false, true);
    if (!options_.interpret && group.nodes.size() == 1) group = grown(n, false, false);
    add(std::move(group));
  }
  std::sort(groups_.begin(), groups_.end(),
            [](const FusionGroup& a, const FusionGroup& b) { return a.anchor_node() < b.anchor_node(); });
  choose_rounded(groups_);
  return std::move(groups_);
}

GroupRequest FusionGroups::describe(const FusionGroup& group, const LayoutOf& layout_of) const {
  GroupRequest described{.anchor = group.anchor};
  std::map<int, int> number;
  const auto request_value = [&](int value) {
    const auto [at, added] = number.emplace(value, static_cast<int>(described.values.size()));
    if (added) {
      described.values.push_back(value);
      const Graph::Value& own = graph_.values[value];
      described.descs.push_back({.type = own.type,
                                 .layout = layout_of(value),
                                 .constant = own.captured && own.captured.value()->constant,
                                 .may_store_as = may_store_as(value)});
    }
    return at->second;
  };
  std::set<int> inner;
  for (const int member : group.nodes) {
    Step step{node(member).op.get(), {}, {}};
    for (const int value : node(member).in) {
      step.in.push_back(request_value(value));
      if (!inner.count(value) && !has(described.in, step.in.back())) described.in.push_back(step.in.back());
    }
    for (const int value : node(member).out) {
      step.out.push_back(request_value(value));
      inner.insert(value);
    }
    described.steps.push_back(std::move(step));
  }
  if (group.nodes.size() == 1)
    described.in = described.steps[0].in;  // a single op has its operands as they are, also repeated ones
  for (const int member : group.nodes)
    for (const int value : node(member).out) {
      const bool needed = wanted_outside(value) || group.nodes.size() == 1 ||
                          std::any_of(readers(value).begin(), readers(value).end(),
                                      [&](int reader) { return !has(group.nodes, reader); });
      if (needed) described.out.push_back(number[value]);
    }
  return described;
}

}  // namespace neurim
