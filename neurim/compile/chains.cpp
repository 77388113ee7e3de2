#include "neurim/compile/chains.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "neurim/compile/tuning.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

constexpr int kMostAlike = 3;  // ops like the anchor in a chain

bool has(const std::vector<int>& list, int n) { return std::find(list.begin(), list.end(), n) != list.end(); }

constexpr std::string_view kPooling = "max_pool2d";

/// The layout in which a value stands before anything is lowered.
Layout captured_layout(const Graph& graph, int value) {
  const Tensor& captured = graph.values[static_cast<std::size_t>(value)].captured;
  return captured ? captured.value()->layout : Layout{};
}

/// The rank of the kernel of this name, or of any.
int rank_of(std::string_view name, std::span<const Kernel> list) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const Kernel& kernel) { return kernel.name == name; });
  return at == list.end() ? std::numeric_limits<int>::max() : at->rank;
}

}  // namespace

Chains::Chains(const Graph& graph, const LowerOptions& options)
    : graph_(graph),
      options_(options),
      readers_(graph.values.size()),
      wanted_outside_(graph.values.size()),
      chain_of_(graph.nodes.size(), -1) {
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (const int value : graph.nodes[n].in) readers_[static_cast<std::size_t>(value)].push_back(static_cast<int>(n));
  for (const int value : graph.outputs) wanted_outside_[static_cast<std::size_t>(value)] = 1;
  for (const auto& commit : graph.commits) wanted_outside_[static_cast<std::size_t>(commit.value)] = 1;
  if (!options.tuning || options.interpret) return;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    sites_.push_back(tuning_site(graph, n, options));
    const std::string* const chosen = options.tuning->chosen(sites_.back());
    most_rank_.push_back(rank_of(chosen ? *chosen : "", kernels(node(n).op->name(), graph.device.kind)));
  }
}

bool Chains::may_take(const Kernel& kernel, const Chain& chain) const {
  const auto like_anchor = [&](int n) { return node(n).op->name() == kernel.op && !node(n).op->follows(); };
  if (chain.anchor > 0 && !kernel.prologues) return false;
  if (pools(chain) && !kernel.pools) return false;
  if (kernel.series != (std::count_if(chain.nodes.begin(), chain.nodes.end(), like_anchor) > 1)) return false;
  return chain.nodes.size() > 1 ? kernel.fuses || kernel.chains : !kernel.chains;
}

bool Chains::pools(const Chain& chain) const {
  return chain.nodes.size() > 1 && node(chain.nodes.back()).op->name() == kPooling;
}

bool Chains::outrun(const Kernel& kernel, const Chain& chain) const {
  return !most_rank_.empty() && kernel.rank > most_rank_[static_cast<std::size_t>(chain.anchor_node())];
}

/// The node that may join a chain behind `last`: the first reader of its first output, when it may follow and keeps the shape.
int Chains::follower(int last) const {
  const int value = node(last).out[0];
  if (readers(value).empty()) return -1;
  const int next = *std::min_element(readers(value).begin(), readers(value).end());
  return node(next).op->follows() && shape(node(next).out[0]) == shape(value) ? next : -1;
}

/// The node that alone reads what `last` makes, when it is of this kind.
int Chains::successor(int last, std::string_view op) const {
  const int value = node(last).out[0];
  if (readers(value).size() != 1 || wanted_outside(value)) return -1;
  const int next = readers(value)[0];
  return node(next).op->name() == op ? next : -1;
}

/// Whether a value is computed from what the chain makes. A chain computes nothing before it has read all that it reads, so one
/// that is formed already depends on what any of its nodes depends on.
bool Chains::depends(int value, const std::vector<int>& chain) const {
  const int first = *std::min_element(chain.begin(), chain.end());
  std::vector<int> open{maker(value)};
  std::set<int> seen;
  while (!open.empty()) {
    const int made = open.back();
    open.pop_back();
    if (made < 0 || !seen.insert(made).second) continue;
    if (has(chain, made)) return true;
    const int formed = chain_of_[static_cast<std::size_t>(made)];
    if (formed < 0) {
      if (made > first)
        for (const int in : node(made).in) open.push_back(maker(in));
      continue;
    }
    const Chain& other = chains_[static_cast<std::size_t>(formed)];
    if (*std::max_element(other.nodes.begin(), other.nodes.end()) < first) continue;
    for (const int member : other.nodes) {
      seen.insert(member);
      for (const int in : node(member).in) open.push_back(maker(in));
    }
  }
  return false;
}

/// Whether the chain with `more` is still convex: what they read from outside must not come from the chain.
bool Chains::convex(const std::vector<int>& chain, const std::vector<int>& more) const {
  for (const int n : more)
    for (const int value : node(n).in)
      if (!has(chain, maker(value)) && !has(more, maker(value)) && depends(value, chain)) return false;
  return true;
}

/// The pointwise nodes that make operands of `reader` alone, which is to join the chain, in order; where it begins the chain also
/// others that may precede it, themselves alone; of a node that follows none nothing before it. Not those that may follow the node that
/// makes theirs: they cost less there.
void Chains::own_producers(int reader, const std::vector<int>& chain, std::vector<int>& found, bool begins) const {
  for (const int value : node(reader).in) {
    const int made = maker(value);
    if (made < 0 || taken(made) || has(chain, made) || has(found, made) || wanted_outside(value)) continue;
    const bool pointwise = node(made).op->pointwise();
    if (!(pointwise || (begins && node(made).op->precedes(*node(reader).op))) || node(made).in.empty()) continue;
    const auto inside = [&](int n) { return n == reader || (pointwise && has(found, n)); };
    if (!std::all_of(readers(value).begin(), readers(value).end(), inside)) continue;
    if (!pointwise) {
      found.push_back(made);
      continue;
    }
    std::vector<int> before = found;
    if (node(made).op->follows()) own_producers(made, chain, before);
    const bool could_follow = std::any_of(node(made).in.begin(), node(made).in.end(), [&](int in) {
      const int source = maker(in);
      return source >= 0 && !has(before, source) && shape(in) == shape(value) && follower(source) == made;
    });
    if (could_follow) continue;
    found = std::move(before);
    found.push_back(made);
  }
}

/// The longest chain around an anchor that a kernel takes; `before` and `beside`: with the nodes that make operands for the anchor
/// and for what follows it alone. What a chain saves is less than what a kernel of lower rank than that of its anchor
/// alone costs.
Chain Chains::grown(int anchor, bool before, bool beside) const {
  Chain chain;
  if (before) own_producers(anchor, {}, chain.nodes, true);
  chain.anchor = static_cast<int>(chain.nodes.size());
  chain.nodes.push_back(anchor);
  std::vector<std::size_t> ends{chain.nodes.size()};
  const Op& op = *node(anchor).op;
  const auto list = kernels(op.name(), graph_.device.kind);
  const bool series = std::any_of(list.begin(), list.end(), [](const Kernel& kernel) { return kernel.series; }),
             pooled = std::any_of(list.begin(), list.end(), [](const Kernel& kernel) { return kernel.pools; });
  for (int alike = 1; !pools(chain);) {
    int next = follower(chain.nodes.back());
    if (next < 0 && series && alike++ < kMostAlike) next = successor(chain.nodes.back(), op.name());
    if (next < 0 && pooled) next = successor(chain.nodes.back(), kPooling);
    if (next < 0 || taken(next)) break;
    std::vector<int> more;
    if (beside) own_producers(next, chain.nodes, more);
    more.push_back(next);
    if (!convex(chain.nodes, more)) break;
    chain.nodes.insert(chain.nodes.end(), more.begin(), more.end());
    ends.push_back(chain.nodes.size());
  }
  const int least = chain.nodes.size() > 1 ? rank_for({{anchor}}, 0) : 0;
  for (; !ends.empty(); ends.pop_back()) {
    chain.nodes.resize(ends.back());
    if (chain.nodes.size() == 1 || rank_for(chain, least) >= 0) return chain;
  }
  return {};
}

/// The rank of the best kernel for the chain, of those from rank `least` on, or -1.
int Chains::rank_for(const Chain& chain, int least) const {
  ChainSite described = describe(chain, [&](int value) { return captured_layout(graph_, value); });
  for (const Kernel& kernel : kernels(node(chain.anchor_node()).op->name(), graph_.device.kind)) {
    if (kernel.rank < least || !may_take(kernel, chain) || outrun(kernel, chain)) continue;
    if (ChainSite asked = described; ask(kernel, asked)) return kernel.rank;
  }
  return -1;
}

/// Whether the kernel takes the site, whose layouts become those that it asks for.
bool Chains::ask(const Kernel& kernel, ChainSite& asked) const {
  if (!kernel.wants)
    for (Spec& spec : asked.specs) spec.layout = {};
  Site site = asked.site(options_);
  return kernel.wants ? kernel.wants(site) : static_cast<bool>(kernel.prepare(site));
}

/// What stands between the chains of a plan whose products may round does so rounded where all that make or read it ask for it: a value
/// that one of them declines stays exact, and so perhaps others beside it.
void Chains::choose_rounded(const std::vector<Chain>& chains) {
  if (half_of(options_.products) == Layout::exact || options_.interpret) return;
  for (std::size_t value = 0; value < graph_.values.size(); ++value) {
    const Graph::Value& own = graph_.values[value];
    may_round_.push_back(own.node >= 0 && own.type.dtype == DType::f32 && !wanted_outside_[value]);
  }
  while (!keep_rounded(chains)) {}
}

/// Asks the kernels chain by chain, as lowering will, and keeps the values that all ask for so; says whether that was all of them.
bool Chains::keep_rounded(const std::vector<Chain>& chains) {
  std::vector<Layout> layouts(graph_.values.size());
  for (std::size_t value = 0; value < layouts.size(); ++value) layouts[value] = captured_layout(graph_, static_cast<int>(value));
  std::vector<char> kept(layouts.size()), declined(layouts.size());
  for (const Chain& chain : chains) {
    const ChainSite described = describe(chain, [&](int value) { return layouts[static_cast<std::size_t>(value)]; });
    ChainSite asked;
    for (const Kernel& kernel : kernels(node(chain.anchor_node()).op->name(), graph_.device.kind)) {
      asked = described;
      if (may_take(kernel, chain) && !outrun(kernel, chain) && ask(kernel, asked)) break;
    }
    for (const std::vector<int>* list : {&asked.in, &asked.out})
      for (const int number : *list) {
        const auto value = static_cast<std::size_t>(asked.values[static_cast<std::size_t>(number)]);
        const Layout& layout = asked.specs[static_cast<std::size_t>(number)].layout;
        if (!layout.rounded) declined[value] = 1;
        if (list == &asked.out) kept[value] = may_round_[value], layouts[value] = layout;
      }
  }
  for (std::size_t value = 0; value < kept.size(); ++value) kept[value] = kept[value] && !declined[value];
  std::swap(may_round_, kept);
  return may_round_ == kept;
}

std::vector<Chain> Chains::form() {
  const auto add = [&](Chain chain) {
    for (const int n : chain.nodes) chain_of_[static_cast<std::size_t>(n)] = static_cast<int>(chains_.size());
    chains_.push_back(std::move(chain));
  };
  const int count = static_cast<int>(graph_.nodes.size());
  const auto takes_prologues = [&](int n) {
    const auto list = kernels(node(n).op->name(), graph_.device.kind);
    return std::any_of(list.begin(), list.end(), [](const Kernel& kernel) { return kernel.prologues; });
  };
  // First what reads through nodes before it: those come earlier in the graph and would be chains of their own.
  for (int n = 0; n < count && !options_.interpret; ++n)
    if (!taken(n) && takes_prologues(n))
      if (Chain chain = grown(n, true, true); chain.anchor > 0) add(std::move(chain));
  for (int n = 0; n < count; ++n) {
    if (taken(n)) continue;
    Chain chain{{n}};
    if (!options_.interpret) chain = grown(n, false, true);
    if (!options_.interpret && chain.nodes.size() == 1) chain = grown(n, false, false);
    add(std::move(chain));
  }
  std::sort(chains_.begin(), chains_.end(), [](const Chain& a, const Chain& b) { return a.anchor_node() < b.anchor_node(); });
  choose_rounded(chains_);
  return std::move(chains_);
}

ChainSite Chains::describe(const Chain& chain, const LayoutOf& layout_of) const {
  ChainSite described{.anchor = chain.anchor};
  std::map<int, int> number;
  const auto site_value = [&](int value) {
    const auto [at, added] = number.emplace(value, static_cast<int>(described.values.size()));
    if (added) {
      described.values.push_back(value);
      const Graph::Value& own = graph_.values[static_cast<std::size_t>(value)];
      described.specs.push_back({.type = own.type,
                                 .layout = layout_of(value),
                                 .constant = own.captured && own.captured.value()->constant,
                                 .may_round = may_round(value)});
    }
    return at->second;
  };
  std::set<int> inner;
  for (const int member : chain.nodes) {
    Step step{node(member).op.get(), {}, {}};
    for (const int value : node(member).in) {
      step.in.push_back(site_value(value));
      if (!inner.count(value) && !has(described.in, step.in.back())) described.in.push_back(step.in.back());
    }
    for (const int value : node(member).out) {
      step.out.push_back(site_value(value));
      inner.insert(value);
    }
    described.steps.push_back(std::move(step));
  }
  if (chain.nodes.size() == 1) described.in = described.steps[0].in;  // one op sees its operands as they are, repeated ones too
  for (const int member : chain.nodes)
    for (const int value : node(member).out) {
      const bool needed =
          wanted_outside(value) || chain.nodes.size() == 1 ||
          std::any_of(readers(value).begin(), readers(value).end(), [&](int reader) { return !has(chain.nodes, reader); });
      if (needed) described.out.push_back(number[value]);
    }
  return described;
}

}  // namespace neurim
