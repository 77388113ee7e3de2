// Cutting a graph into stages that follow each other, for pipelines.
#pragma once
#include <vector>

#include "neurim/graph/trace.h"

namespace neurim {

/// A part of a graph, from one node up to another.
struct Stage {
  /// Its inputs: the values that come from the stage before, then the inputs of the whole graph. Its outputs: the
  /// values that go to the stage after, or the outputs of the whole.
  Graph graph;
  std::size_t from_before = 0;  ///< how many inputs come from the stage before
  std::vector<Tensor> weights;  ///< the stored tensors that it reads and that are learnt
  std::vector<Tensor> states;   ///< those that it assigns
  double cost = 0;              ///< of its nodes
  std::size_t bytes_out = 0;    ///< of what goes to the stage after
};

/// The cost of each node in a forward pass, seconds: measured over some replays of the graph's plan with any inputs,
/// and given to the nodes of a kernel by their multiply-adds.
std::vector<double> measured_costs(const Graph& graph, const struct PlanOptions& options);

/// Where stages end: the numbers of the nodes after the last of each, so that the largest cost of a stage, with that of
/// what it hands on, is as small as can be. No learnt tensor is read by two stages. Throws Error(usage) where the graph
/// cannot be cut into so many.
std::vector<std::size_t> stage_ends(const Graph& graph, const std::vector<double>& costs, int stages);

/// The stages that end there. Values that a later stage than the next one reads go through those between.
std::vector<Stage> cut(const Graph& graph, const std::vector<std::size_t>& ends, const std::vector<double>& costs);

}  // namespace neurim
