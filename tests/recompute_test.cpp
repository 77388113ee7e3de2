// Values that a training plan computes again instead of keeping them: less memory, the same numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "neurim/base/text.h"
#include "neurim/compile/plan.h"
#include "neurim/ops/add.h"
#include "neurim/ops/batch_norm.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/gelu.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reduce_max.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/sum.h"
#include "tests/ask_group.h"

namespace neurim {
namespace {

using op_table::uniform;

constexpr int kLayers = 3;
const Type kImages{DType::f32, {4, 16, 64, 64}};  // 1 MiB
const double kMiB = 1 << 20;

/// The gradients of kLayers layers made of `layer`, of the weights and the input, and the loss.
template <class Layer>
auto training(const Tensors& weights, const Layer& layer) {
  return [&weights, layer](const Tensors& in) -> Tensors {
    Tensor y = in[0];
    for (const Tensor& weight : weights) y = layer(y, weight);
    const Tensors of{sum(y * y)};
    Tensors wrt = weights;
    wrt.push_back(in[0]);
    Tensors out = gradients(of, wrt);
    out.push_back(of[0]);
    return out;
  };
}

Tensors weights() {
  Tensors all;
  for (int i = 0; i < kLayers; ++i) all.push_back(uniform({16, 16, 1, 1}, -0.5, 0.5, static_cast<std::uint64_t>(i)));
  return all;
}

/// Plans, checks the numbers against the interpreter, and gives the plan.
template <class Function>
Plan checked(const Function& function) {
  const Tensor x = uniform(kImages.shape, -1, 1, 99);
  const Plan planned = plan(function, {kImages}, {.training = true});
  const Tensors expected = plan(function, {kImages}, {.training = true, .interpret = true})({x}), got = planned({x});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto a = expected[i].values<double>(), b = got[i].values<double>();
    double most = 0, scale = 1e-30;
    for (std::size_t k = 0; k < a.size(); ++k)
      most = std::max(most, std::abs(a[k] - b[k])), scale = std::max(scale, std::abs(a[k]));
    EXPECT_LT(most / scale, 1e-4) << "output " << i;
  }
  return planned;
}

std::size_t count(const Plan& plan, std::string_view op) {
  const auto rows = plan.rows();
  return static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), [&](const PlanRow& row) { return row.op == op; }));
}

/// What is between two convolutions is never written: each reader computes it in passing.
TEST(Recompute, NormsAndActivations) {
  const Tensors w = weights();
  const Tensor one = Tensor::full({DType::f32, {16}}, 1), zero = Tensor::full({DType::f32, {16}}, 0);
  const Plan planned = checked(training(w, [=](const Tensor& x, const Tensor& weight) {
    return relu(batch_norm(conv2d(x, weight), one, zero, {}, {}));
  }));
  EXPECT_EQ(count(planned, "mul+add+relu+conv2d+batch_norm_train"),
            kLayers - 2u);  // the last one's relu is read by a sum
  EXPECT_EQ(count(planned, "mul+add+relu+conv2d_weight_grad"), kLayers - 1u);
  EXPECT_EQ(count(planned, "conv2d_input_grad+mul+add+relu+relu_grad+batch_norm_grad"), kLayers - 1u);
  EXPECT_LT(static_cast<double>(planned.arena_bytes()) / kMiB,
            kLayers + 4.5);  // scratch apart, and with both kept 2 a layer
}

/// A chain of sums is computed again from its beginning.
TEST(Recompute, ResidualBranches) {
  const Tensors w = weights();
  const Tensor one = Tensor::full({DType::f32, {16}}, 1), zero = Tensor::full({DType::f32, {16}}, 0);
  const Plan planned = checked(training(w, [=](const Tensor& x, const Tensor& weight) {
    return relu(add(batch_norm(conv2d(x, weight), one, zero, {}, {}), x));
  }));
  EXPECT_GE(count(planned, "mul+add+add+relu"), kLayers - 2u);
}

/// What is neither kept nor near to what is kept stays: a convolution costs more than a pass.
TEST(Recompute, NothingBehindAConvolutionAlone) {
  const Tensors w = weights();
  const auto function = training(w, [](const Tensor& x, const Tensor& weight) { return relu(conv2d(x, weight)); });
  int relus = 0;
  for (const PlanRow& row : plan(function, {kImages}, {.training = true}).rows())
    for (const std::string& op : split(row.op, '+')) relus += op == "relu";
  EXPECT_EQ(relus, kLayers);
}

TEST(Recompute, WhatReadsItsInputOnTheWayBack) {
  const Tensors w = weights();
  const Plan planned = checked(
      training(w, [](const Tensor& x, const Tensor& weight) { return gelu(conv2d(x, weight)); }));
  EXPECT_EQ(count(planned, "gelu+conv2d_weight_grad"), kLayers - 1u);
}

/// A maximum is found among the numbers that it was taken of, be they kept or computed again with other last bits.
TEST(Recompute, Maxima) {
  const Tensors w = weights();
  const Tensor one = Tensor::full({DType::f32, {16}}, 1), zero = Tensor::full({DType::f32, {16}}, 0);
  const auto layer = [=](const Tensor& x, const Tensor& weight) {
    return relu(batch_norm(conv2d(x, weight), one, zero, {}, {}));
  };
  checked(training(w, [=](const Tensor& x, const Tensor& weight) {
    return max_pool2d(layer(x, weight), {.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1, 1, 1}});
  }));
  checked(training(w, [=](const Tensor& x, const Tensor& weight) {
    const Tensor y = layer(x, weight);
    return y * reduce_max(y, {2, 3}, true);
  }));
}

TEST(Recompute, SmallValuesAreKept) {
  const Tensors w = weights();
  const Tensor one = Tensor::full({DType::f32, {16}}, 1), zero = Tensor::full({DType::f32, {16}}, 0);
  const auto function = training(
      w, [=](const Tensor& x, const Tensor& weight) { return relu(batch_norm(conv2d(x, weight), one, zero, {}, {})); });
  const Plan planned = plan(function, {{DType::f32, {2, 16, 8, 8}}}, {.training = true});
  EXPECT_GE(count(planned, "conv2d+batch_norm_train+relu"), kLayers - 1u);
}

}  // namespace
}  // namespace neurim
