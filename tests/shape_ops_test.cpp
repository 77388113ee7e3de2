// Shape ops and optimizer steps against numbers worked out by hand: what a table of samples cannot know.
#include <gtest/gtest.h>

#include <cmath>

#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/graph/trace.h"
#include "neurim/ops/adam_step.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/iota.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/one_hot.h"
#include "neurim/ops/pad.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/sgd_step.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"

namespace neurim {
namespace {

using Doubles = std::vector<double>;
using Integers = std::vector<std::int64_t>;

/// 0, 1, 2, … in a shape.
Tensor counting(const Shape& shape) { return reshape(iota(shape.numel(), DType::f32), shape); }

Tensor indices(const Integers& values) {
  return Tensor::from({static_cast<std::int64_t>(values.size())}, std::span(values));
}

/// The message of the usage error that `call` throws.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    return error.what();
  }
  return "no error";
}

TEST(Reshape, InfersTheFreeSize) {
  EXPECT_EQ(reshape(counting({2, 3, 4}), {4, -1}).shape(), (Shape{4, 6}));
  EXPECT_EQ(reshape(counting({0, 3}), {3, -1}).shape(), (Shape{3, 0}));
  EXPECT_EQ(flatten(counting({2, 3, 4})).shape(), (Shape{2, 12}));
  EXPECT_EQ(flatten(counting({2, 3, 4}), 0).shape(), (Shape{24}));
  EXPECT_EQ(flatten(counting({2, 3, 4}), -1).shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(refusal([] { reshape(counting({2, 3}), {4, -1}); }),
            "reshape: (2,3) has 6 elements, which do not fit (4,-1)");
  EXPECT_EQ(refusal([] { reshape(counting({2, 3}), {-1, -1}); }), "reshape: (-1,-1) has more than one -1");
}

TEST(Transpose, PermutesTheAxes) {
  EXPECT_EQ(transpose(counting({2, 3}), {1, 0}).values<double>(), (Doubles{0, 3, 1, 4, 2, 5}));
  const Tensor cycled = transpose(counting({2, 3, 2}), {2, 0, 1});
  EXPECT_EQ(cycled.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(cycled.values<double>(), (Doubles{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}));
  EXPECT_NE(refusal([] { transpose(counting({2, 3}), {1, 1}); }).find("does not name each axis"), std::string::npos);
}

TEST(Concat, JoinsAlongTheAxis) {
  const Tensor joined = concat({counting({2, 1}), counting({2, 2})}, -1);
  EXPECT_EQ(joined.values<double>(), (Doubles{0, 0, 1, 1, 2, 3}));
  EXPECT_EQ(refusal([] { concat({counting({2, 1}), counting({3, 2})}, 1); }),
            "concat: (2,1) and (3,2) differ along another axis than 1");
}

TEST(Slice, FollowsOnnx) {
  const Tensor x = counting({10});
  const auto part = [&](std::int64_t start, std::int64_t end, std::int64_t step) {
    return slice(x, {start}, {end}, {0}, {step}).values<double>();
  };
  EXPECT_EQ(part(2, 5, 1), (Doubles{2, 3, 4}));
  EXPECT_EQ(part(-3, 100, 2), (Doubles{7, 9}));
  EXPECT_EQ(part(8, 2, -3), (Doubles{8, 5}));
  EXPECT_EQ(part(100, -100, -4), (Doubles{9, 5, 1}));
  EXPECT_EQ(part(5, 5, 1), Doubles{});
  EXPECT_EQ(part(6, 2, 1), Doubles{});
  EXPECT_EQ(part(2, 6, -1), Doubles{});
  EXPECT_EQ(slice(counting({3, 4}), {1, -1}, {3, -100}, {0, 1}, {1, -2}).values<double>(), (Doubles{7, 5, 11, 9}));
  EXPECT_EQ(refusal([&] { part(0, 3, 0); }), "slice: the step along axis 0 is 0");
}

TEST(Slice, OfATransposedTensorComesFirstInPlans) {
  const Tensor x = counting({4, 3, 5, 2});
  const auto part = [](const Tensor& whole) { return slice(transpose(whole, {2, 0, 3, 1}), {-1, 1}, {5, 3}, {0, -1}); };
  const Plan planned = plan(
      [&](const Tensors& in) {
        const Tensor y = part(in[0]), weighted = mul(y, reshape(iota(y.numel(), DType::f32), y.shape()));
        return Tensors{y, gradients(std::span(&weighted, 1), std::span(in))[0]};
      },
      {x.type()}, {.training = true});
  int turned = 0;
  for (const Graph::Node& node : planned.graph().nodes) {
    if (node.op->name() != "transpose") continue;
    EXPECT_EQ(planned.graph().values[node.in[0]].type.shape.numel(), part(x).numel());
    ++turned;
  }
  EXPECT_GE(turned, 2);
  const Tensors out = planned({x});
  EXPECT_EQ(out[0].values<double>(), part(x).values<double>());
  Doubles expected(static_cast<std::size_t>(x.numel()));
  const Doubles places = part(x).values<double>();  // counting: what an element is says where it stood
  for (std::size_t i = 0; i < places.size(); ++i) expected[places[i]] = static_cast<double>(i);
  EXPECT_EQ(out[1].values<double>(), expected);
}

TEST(Pad, SurroundsAndCrops) {
  EXPECT_EQ(pad(counting({2, 2}), {0, 1, 1, 0}, 9).values<double>(), (Doubles{9, 0, 1, 9, 2, 3, 9, 9, 9}));
  EXPECT_EQ(pad(counting({5}), {-2, 1}, 7).values<double>(), (Doubles{2, 3, 4, 7}));
  EXPECT_NE(refusal([] { pad(counting({2}), {-2, -1}); }).find("crop more"), std::string::npos);
}

TEST(Gather, PicksByIndexAndRefusesWrongOnes) {
  const Tensor picked = gather(counting({2, 3}), indices({-1, 0}), 1);
  EXPECT_EQ(picked.values<double>(), (Doubles{2, 0, 5, 3}));
  const auto op = std::make_shared<GatherGrad>(Shape{3, 2}, 0);
  EXPECT_EQ(apply1(op, {counting({3, 2}), indices({1, 1, -1})}).values<double>(), (Doubles{0, 0, 2, 4, 4, 5}));
  EXPECT_THROW(gather(counting({2, 3}), indices({3}), 1), Error);
  EXPECT_THROW(gather(counting({2, 3}), indices({-4}), 1), Error);
}

TEST(OneHot, MarksTheClass) {
  EXPECT_EQ(one_hot(indices({2, 0}), 3).values<double>(), (Doubles{0, 0, 1, 1, 0, 0}));
  EXPECT_THROW(one_hot(indices({3}), 3), Error);
}

TEST(BroadcastTo, Repeats) {
  EXPECT_EQ(broadcast_to(counting({2, 1}), {2, 2, 2}).values<double>(), (Doubles{0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(refusal([] { broadcast_to(counting({2, 3}), {2, 1}); }), "broadcast_to: (2,3) does not broadcast to (2,1)");
}

TEST(ShapeOps, KeepIntegersBeyondDoubles) {
  const Integers large{(std::int64_t{1} << 53) + 1, -(std::int64_t{1} << 62) - 1};
  const Tensor x = indices(large);
  EXPECT_EQ(concat({slice(x, {0}, {1}), gather(x, indices({1}), 0)}, 0).values<std::int64_t>(), large);
  EXPECT_EQ(transpose(pad(reshape(x, {2, 1}), {0, 0, 0, 0}), {1, 0}).values<std::int64_t>(), large);
}

Tensor f64(double value) { return Tensor::scalar(value, DType::f64); }

TEST(SgdStep, FollowsPyTorchOverTwoSteps) {
  // weight 1, gradients 0.5 and -0.25, lr 0.1, momentum 0.9, decay 0.1:
  // g1 = 0.6, b1 = 0.6; plain w1 = 0.94; g2 = -0.156, b2 = 0.384, w2 = 0.9016.
  // Nesterov: w1 = 1 - 0.1 (0.6 + 0.54) = 0.886; g2 = -0.1614, b2 = 0.3786, w2 = 0.886 - 0.1 (-0.1614 +
  // 0.34074).
  for (const bool nesterov : {false, true}) {
    const SgdRule rule{.momentum = 0.9, .weight_decay = 0.1, .nesterov = nesterov};
    SgdStepped now = sgd_step(f64(1), f64(0.5), f64(0), f64(0.1), rule);
    EXPECT_NEAR(now.buffer.item(), 0.6, 1e-15);
    EXPECT_NEAR(now.weight.item(), nesterov ? 0.886 : 0.94, 1e-15);
    now = sgd_step(now.weight, f64(-0.25), now.buffer, f64(0.1), rule);
    EXPECT_NEAR(now.weight.item(), nesterov ? 0.868066 : 0.9016, 1e-15);
  }
  EXPECT_NEAR(sgd_step(f64(1), f64(0.5), {}, f64(0.1)).weight.item(), 0.95, 1e-15);
  EXPECT_NE(refusal([] { sgd_step(f64(1), f64(1), {}, f64(1), {.nesterov = true}); }).find("nesterov"),
            std::string::npos);
}

TEST(AdamStep, FollowsPyTorchOverTwoSteps) {
  for (const bool decoupled : {false, true}) {
    const AdamRule rule{.beta1 = 0.5, .beta2 = 0.75, .eps = 0, .weight_decay = 0.5, .decoupled = decoupled};
    const auto step = [](std::int64_t n) { return Tensor::scalar(static_cast<double>(n), DType::i64); };
    // The corrected moments of the first step are g and g squared, so that it moves by lr.
    AdamStepped now = adam_step(f64(1), f64(1), f64(0), f64(0), f64(0.1), step(1), rule);
    const double w1 = decoupled ? 0.95 - 0.1 : 1 - 0.1, g1 = decoupled ? 1 : 1.5;
    EXPECT_NEAR(now.weight.item(), w1, 1e-15);
    EXPECT_NEAR(now.m.item(), g1 / 2, 1e-15);
    EXPECT_NEAR(now.v.item(), g1 * g1 / 4, 1e-15);
    now = adam_step(now.weight, f64(2), now.m, now.v, f64(0.1), step(2), rule);
    const double g2 = decoupled ? 2 : 2 + w1 / 2;
    const double m = (g1 / 4 + g2 / 2) / 0.75, v = (g1 * g1 * 3 / 16 + g2 * g2 / 4) / (7.0 / 16);
    EXPECT_NEAR(now.weight.item(), (decoupled ? w1 * 0.95 : w1) - 0.1 * m / std::sqrt(v), 1e-15);
  }
}

}  // namespace
}  // namespace neurim
