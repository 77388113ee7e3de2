#include "neurim/compile/stages.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

constexpr double kBytesASecond = 2e9;  // between stages: what a cut costs beside the work
constexpr int kReplays = 3;

/// For each value the last node that reads it, the number of nodes for outputs; -1: nobody.
std::vector<int> last_readers(const Graph& graph) {
  std::vector<int> last(graph.values.size(), -1);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (const int value : graph.nodes[n].in) last[value] = static_cast<int>(n);
  for (const int value : graph.outputs) last[value] = static_cast<int>(graph.nodes.size());
  return last;
}

/// The values that nodes before `end` make and nodes from it on read.
std::vector<int> crossing(const Graph& graph, const std::vector<int>& last, std::size_t end) {
  std::vector<int> values;
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].node >= 0 && static_cast<std::size_t>(graph.values[v].node) < end &&
        last[v] >= static_cast<int>(end))
      values.push_back(static_cast<int>(v));
  return values;
}

std::size_t bytes_of(const Graph& graph, const std::vector<int>& values) {
  return std::accumulate(values.begin(), values.end(), std::size_t{0},
                         [&](std::size_t sum, int value) { return sum + bytes(graph.values[value].type); });
}

/// Whether nodes can be parted before `end`: no learnt tensor is read on both sides.
std::vector<bool> partings(const Graph& graph) {
  std::vector<int> first(graph.values.size(), -1), last = last_readers(graph);
  for (std::size_t n = graph.nodes.size(); n-- > 0;)
    for (const int value : graph.nodes[n].in) first[value] = static_cast<int>(n);
  std::vector<bool> may(graph.nodes.size() + 1, true);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (!graph.values[v].captured || !is_learnt(graph.values[v].captured)) continue;
    for (int n = first[v] + 1; n <= last[v] && n < static_cast<int>(graph.nodes.size()); ++n)
      may[static_cast<std::size_t>(n)] = false;
  }
  return may;
}

}  // namespace

std::vector<double> measured_costs(const Graph& graph, const PlanOptions& options) {
  Graph forward = graph;
  forward.commits.clear();
  Types types;
  for (const int input : forward.inputs) types.push_back(forward.values[input].type);
  const Plan measured = plan(forward, types, options);
  for (const Tensor& input : measured.inputs())
    input.write(std::vector<std::byte>(bytes(input.type())).data());  // zeros: of labels the first class
  std::map<std::string, double> seconds;
  for (const PlanRow& row : measured.profile(kReplays)) seconds[row.where] += row.seconds;
  std::map<std::string, double> work;
  const auto work_of = [&](const Graph::Node& node) { return static_cast<double>(graph.multiply_adds(node)) + 1; };
  for (const Graph::Node& node : graph.nodes) work[node.where] += work_of(node);
  std::vector<double> costs;
  for (const Graph::Node& node : graph.nodes) costs.push_back(seconds[node.where] * work_of(node) / work[node.where]);
  return costs;
}

std::vector<std::size_t> stage_ends(const Graph& graph, const std::vector<double>& costs, int stages) {
  const std::size_t nodes = graph.nodes.size();
  const std::vector<bool> may = partings(graph);
  const std::vector<int> last = last_readers(graph);
  std::vector<double> until(nodes + 1), handed(nodes + 1);
  for (std::size_t n = 0; n < nodes; ++n) until[n + 1] = until[n] + costs[n];
  for (std::size_t n = 1; n < nodes; ++n)
    handed[n] = static_cast<double>(bytes_of(graph, crossing(graph, last, n))) / kBytesASecond;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  // best[k][n]: the smallest largest cost of k + 1 stages that end before node n.
  std::vector<std::vector<double>> best(static_cast<std::size_t>(stages), std::vector<double>(nodes + 1, kNever));
  std::vector<std::vector<std::size_t>> before(best.size(), std::vector<std::size_t>(nodes + 1));
  for (std::size_t n = 1; n <= nodes; ++n)
    if (may[n]) best[0][n] = until[n] + handed[n];
  for (std::size_t k = 1; k < best.size(); ++k)
    for (std::size_t n = k + 1; n <= nodes; ++n)
      for (std::size_t from = k; may[n] && from < n; ++from) {
        const double most = std::max(best[k - 1][from], until[n] - until[from] + handed[n]);
        if (most < best[k][n]) best[k][n] = most, before[k][n] = from;
      }
  require(best.back()[nodes] < kNever, "pipeline is ", stages,
          ", and the model cannot be cut into so many stages that share no weight; give fewer");
  std::vector<std::size_t> ends{nodes};
  for (std::size_t k = best.size(); --k > 0;) ends.insert(ends.begin(), before[k][ends.front()]);
  return ends;
}

std::vector<Stage> cut(const Graph& graph, const std::vector<std::size_t>& ends, const std::vector<double>& costs) {
  NEURIM_ASSERT(!ends.empty() && ends.back() == graph.nodes.size() && costs.size() == graph.nodes.size());
  const std::vector<int> last = last_readers(graph);
  std::vector<Stage> stages;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    Stage& stage = stages.emplace_back();
    Graph& own = stage.graph;
    own.device = graph.device, own.training = graph.training, own.unequal = graph.unequal;
    std::vector<int> place(graph.values.size(), -1);
    const auto add = [&](int value) {
      if (place[value] < 0) {
        place[value] = static_cast<int>(own.values.size());
        own.values.push_back(graph.values[value]);
        own.values.back().node = -1;
      }
      return place[value];
    };
    const std::vector<int> in = crossing(graph, last, begin),
                           out = end == graph.nodes.size() ? graph.outputs : crossing(graph, last, end);
    for (const int value : in) own.inputs.push_back(add(value));
    stage.from_before = in.size();
    for (const int value : graph.inputs) own.inputs.push_back(add(value));
    std::set<int> known;
    for (std::size_t n = begin; n < end; ++n) {
      Graph::Node node = graph.nodes[n];
      for (int& value : node.in) {
        const Tensor& captured = graph.values[value].captured;
        if (captured && is_learnt(captured) && known.insert(value).second) stage.weights.push_back(captured);
        value = add(value);
      }
      for (int& value : node.out) {
        value = add(value);
        own.values[value].node = static_cast<int>(own.nodes.size());
      }
      own.nodes.push_back(std::move(node));
      stage.cost += costs[n];
    }
    for (const int value : out) own.outputs.push_back(add(value));
    for (const Graph::Commit& commit : graph.commits) {
      const int node = graph.values[commit.value].node;
      if (node < static_cast<int>(begin) || node >= static_cast<int>(end)) continue;
      own.commits.push_back({add(commit.state), add(commit.value)});
      stage.states.push_back(graph.values[commit.state].captured);
    }
    if (end < graph.nodes.size()) stage.bytes_out = bytes_of(graph, out);
    begin = end;
  }
  return stages;
}

}  // namespace neurim
