// A graph that is cut into stages computes what the whole computes, and stages share no weight.
#include "neurim/compile/stages.h"

#include <gtest/gtest.h>

#include <set>

#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/model/inference.h"
#include "neurim/model/zoo.h"
#include "neurim/ops/add.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/relu.h"
#include "tests/errors.h"

namespace neurim {
namespace {

Graph traced(const std::function<Tensor(const Tensor&)>& function, const Type& type) {
  Trace trace({.training = true});
  return trace.finish({function(trace.input(type))});
}

Tensor numbers(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(std::int64_t{shape.numel()}));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 23) / 11 - 1;
  return Tensor::from(shape, values);
}

TEST(Stages, TogetherComputeTheWhole) {
  const Model model = create_model("resnet20", {.num_classes = 10, .seed = 3});
  const Type type{DType::f32, {4, 3, 32, 32}};
  const Graph whole = traced(model, type);
  const Tensor x = numbers(type.shape);
  Graph forward = whole;
  forward.commits.clear();
  const Tensor expected = plan(forward, {type}, {.training = true})({x})[0];
  std::vector<double> costs;
  for (const Graph::Node& node : whole.nodes) costs.push_back(1e-9 * static_cast<double>(whole.multiply_adds(node)));
  for (const int count : {1, 2, 3, 5}) {
    const std::vector<std::size_t> ends = stage_ends(whole, costs, count);
    ASSERT_EQ(std::ssize(ends), count);
    std::set<const Value*> weights;
    std::size_t states = 0;
    double most = 0, all = 0;
    Tensors between;
    for (Stage& stage : cut(whole, ends, costs)) {
      for (const Tensor& weight : stage.weights) EXPECT_TRUE(weights.insert(weight.value()).second);
      states += stage.states.size();
      most = std::max(most, stage.cost), all += stage.cost;
      stage.graph.commits.clear();
      Types types;
      for (const int value : stage.graph.inputs) types.push_back(stage.graph.values[value].type);
      EXPECT_EQ(stage.from_before, between.size());
      between.push_back(x);
      between = plan(stage.graph, types, {.training = true})(between);
    }
    const std::vector<float> found = between.at(0).values<float>(), wanted = expected.values<float>();
    ASSERT_EQ(between.size(), 1u);
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-4);
    EXPECT_EQ(weights.size(), 59u);  // of 19 convolutions with norms, and the head
    EXPECT_EQ(states, whole.commits.size());
    EXPECT_LT(most, 1.35 * all / count);
  }
}

TEST(Stages, WeightsThatAreSharedAreNotParted) {
  const Tensor weight = numbers({8, 8});
  const Graph graph = traced([&](const Tensor& x) { return matmul(relu(matmul(x, weight)), weight); },
                             {DType::f32, {2, 8}});
  const std::vector<double> costs(graph.nodes.size(), 1.0);
  EXPECT_EQ(stage_ends(graph, costs, 2).size(), 2u);  // no parameter of a module: any cut will do
  EXPECT_NE(message_of([&] { stage_ends(graph, costs, 9); }).find("give fewer"), std::string::npos);
}

TEST(Stages, CostsAreMeasured) {
  const Model model = create_model("lenet5", {.num_classes = 10, .seed = 3});
  const Graph graph = traced(model, {DType::f32, {4, 1, 28, 28}});
  const std::vector<double> costs = measured_costs(graph, {.training = true});
  ASSERT_EQ(costs.size(), graph.nodes.size());
  double all = 0;
  for (const double cost : costs) {
    EXPECT_GE(cost, 0);
    all += cost;
  }
  EXPECT_GT(all, 0);
}

}  // namespace
}  // namespace neurim
