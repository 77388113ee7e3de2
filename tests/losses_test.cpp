// Losses that are made of other ops: gradients, kinks, extremes, narrow dtypes, messages.
// parity/losses_test.py compares them with PyTorch.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/cross_entropy.h"
#include "neurim/ops/ctc_loss.h"
#include "neurim/ops/detach.h"
#include "neurim/ops/log_softmax.h"
#include "neurim/ops/losses/bce_loss.h"
#include "neurim/ops/losses/focal_loss.h"
#include "neurim/ops/losses/kl_div.h"
#include "neurim/ops/losses/l1_loss.h"
#include "neurim/ops/losses/likelihood_losses.h"
#include "neurim/ops/losses/margin_losses.h"
#include "neurim/ops/losses/nll_loss.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/one_hot.h"
#include "neurim/ops/softmax.h"
#include "neurim/ops/sub.h"
#include "tests/errors.h"
#include "tests/op_table.h"

namespace neurim {
namespace {

using namespace op_table;

using Loss = std::function<Tensor(const Tensors&)>;

/// A loss of some inputs, and numbers for them.
struct Case {
  std::string name;
  Loss loss;
  Types in;
  std::vector<Fill> fill = {};
  bool takes_large = true;  ///< whether the first input may be of any size

  Tensors inputs(DType dtype) const { return op_table::inputs({nullptr, in, fill}, in_dtype(in, dtype), 3); }
};

Tensor signs(const Tensor& zero_or_one) { return zero_or_one * 2 - 1; }

const Type kMatrix{DType::f32, {4, 5}}, kVector{DType::f32, {5}}, kLabels{DType::i64, {4}}, kFlags{DType::i64, {4, 5}};
const Fill kFive{0, 5}, kTwo{0, 2}, kPositive{0.2, 2}, kUnit{0.1, 0.9};

const std::vector<Case> kCases{
    {"l1_loss", [](const Tensors& x) { return l1_loss(x[0], x[1]); }, {kMatrix, kMatrix}},
    {"smooth_l1_loss", [](const Tensors& x) { return smooth_l1_loss(x[0], x[1], 0.5); }, {kMatrix, kMatrix}},
    {"huber_loss", [](const Tensors& x) { return huber_loss(x[0], x[1], 0.5); }, {kMatrix, kMatrix}},
    {"cross_entropy",
     [](const Tensors& x) { return cross_entropy(x[0], softmax(x[1]), {.label_smoothing = 0.1}, x[2]); },
     {kMatrix, kMatrix, kVector},
     {{}, {}, kPositive}},
    {"nll_loss",
     [](const Tensors& x) { return nll_loss(x[0], x[1], {.ignore_index = 2}, x[2]); },
     {kMatrix, kLabels, kVector},
     {{}, kFive, kPositive}},
    {"kl_div", [](const Tensors& x) { return kl_div(x[0], x[1]); }, {kMatrix, kMatrix}, {{}, kPositive}},
    {"kl_div of logarithms",
     [](const Tensors& x) { return kl_div(x[0], x[1], {.log_target = true, .reduction = "batchmean"}); },
     {kMatrix, kMatrix}},
    {"sigmoid_focal_loss",
     [](const Tensors& x) { return sigmoid_focal_loss(x[0], x[1], {.gamma = 1.5, .reduction = "mean"}); },
     {kMatrix, kMatrix},
     {{}, kUnit}},
    {"sigmoid_focal_loss with a steep start",
     [](const Tensors& x) { return sigmoid_focal_loss(x[0], x[1], {.gamma = 0.5, .reduction = "mean"}); },
     {kMatrix, kMatrix},
     {{}, {1, 1}}},
    {"softmax_focal_loss",
     [](const Tensors& x) { return softmax_focal_loss(x[0], x[1], {.gamma = 0.5}, x[2]); },
     {kMatrix, kLabels, kVector},
     {{}, kFive, kPositive}},
    {"hinge_embedding_loss",
     [](const Tensors& x) { return hinge_embedding_loss(x[0], signs(x[1])); },
     {kMatrix, kFlags},
     {{}, kTwo}},
    {"margin_ranking_loss",
     [](const Tensors& x) { return margin_ranking_loss(x[0], x[1], signs(x[2]), 0.3); },
     {kMatrix, kMatrix, kFlags},
     {{}, {}, kTwo}},
    {"multi_margin_loss",
     [](const Tensors& x) { return multi_margin_loss(x[0], x[1], {.p = 2}, x[2]); },
     {kMatrix, kLabels, kVector},
     {{}, kFive, kPositive}},
    {"cosine_embedding_loss",
     [](const Tensors& x) { return cosine_embedding_loss(x[0], x[1], signs(x[2]), -0.5); },
     {kMatrix, kMatrix, kLabels},
     {{}, {}, kTwo}},
    {"triplet_margin_loss",
     [](const Tensors& x) { return triplet_margin_loss(x[0], x[1], x[2], {.margin = 3, .swap = true}); },
     {kMatrix, kMatrix, kMatrix}},
    {"bce_loss",
     [](const Tensors& x) { return bce_loss(x[0], x[1], x[2]); },
     {kMatrix, kMatrix, kVector},
     {kUnit, kUnit, kPositive},
     false},
    {"gaussian_nll_loss",
     [](const Tensors& x) { return gaussian_nll_loss(x[0], x[1], x[2], {.full = true}); },
     {kMatrix, kMatrix, {DType::f32, {4}}},
     {{}, {}, kPositive}},
    {"gaussian_nll_loss with a variance a column",
     [](const Tensors& x) { return gaussian_nll_loss(x[0], x[1], x[2]); },
     {kMatrix, kMatrix, {DType::f32, {1, 5}}},
     {{}, {}, kPositive}},
    {"poisson_nll_loss",
     [](const Tensors& x) { return poisson_nll_loss(x[0], x[1], {.full = true}); },
     {kMatrix, kMatrix},
     {{}, {1.1, 4}},
     false},
    {"poisson_nll_loss of rates",
     [](const Tensors& x) { return poisson_nll_loss(x[0], x[1], {.log_input = false}); },
     {kMatrix, kMatrix},
     {kPositive, {0, 4}},
     false},
    {"ctc_loss",
     [](const Tensors& x) { return ctc_loss(log_softmax(x[0]), x[1], x[2], x[3]); },
     {{DType::f32, {7, 4, 5}}, {DType::i64, {4, 3}}, kLabels, kLabels},
     {{}, {1, 5}, {6, 8}, {0, 4}}},
};

/// The gradients of a loss to its floating inputs, in their order.
Tensors gradients_at(const Loss& loss, const Tensors& in) {
  Trace trace({.training = true});
  Tensors traced, wrt;
  for (const Tensor& x : in) {
    traced.push_back(trace.input(x.type()));
    if (is_floating(x.dtype())) wrt.push_back(traced.back());
  }
  const Tensor value = loss(traced);
  Tensors found = gradients(std::span(&value, 1), wrt);
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!found[i]) found[i] = Tensor::full(wrt[i].type(), 0);
  return interpret(trace.finish(found), in);
}

Tensor zeros(const Shape& shape, DType dtype = DType::f32) { return Tensor::full({dtype, shape}, 0); }
Tensor vector(const std::vector<double>& values) {
  return from_doubles({DType::f32, {static_cast<std::int64_t>(values.size())}}, values);
}
Tensor integers(const Shape& shape, const std::vector<std::int64_t>& values) { return Tensor::from(shape, values); }

TEST(Losses, GradientsAgreeWithFiniteDifferences) {
  constexpr double kStep = 1e-6;
  for (const Case& c : kCases) {
    const Tensors in = c.inputs(DType::f64), found = gradients_at(c.loss, in);
    std::size_t floating = 0;
    for (std::size_t k = 0; k < in.size(); ++k) {
      if (!is_floating(in[k].dtype())) continue;
      const std::vector<double> gradient = found[floating++].values<double>(), values = in[k].values<double>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto at = [&](double step) {
          std::vector<double> moved = values;
          moved[i] += step;
          Tensors x = in;
          x[k] = from_doubles(in[k].type(), moved);
          return c.loss(x).item();
        };
        const double slope = (at(kStep) - at(-kStep)) / (2 * kStep);
        EXPECT_TRUE(std::abs(gradient[i] - slope) <= 1e-7 * std::max(1.0, std::abs(slope)))
            << c.name << ": the gradient of input " << k << " element " << i << " is " << gradient[i]
            << ", finite differences give " << slope;
      }
    }
  }
}

TEST(Losses, AreFiniteForLargeInputs) {
  for (const Case& c : kCases) {
    if (!c.takes_large) continue;
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      Tensors in = c.inputs(dtype);
      std::vector<double> large(static_cast<std::size_t>(in[0].numel()));
      for (std::size_t i = 0; i < large.size(); ++i) large[i] = i % 3 == 0 ? 1e4 : -1e4;
      in[0] = from_doubles(in[0].type(), large);
      // f16 ends at 65504, which a squared distance may well exceed.
      const bool squares = starts_with(c.name, "multi_margin_loss") || starts_with(c.name, "gaussian_nll_loss");
      if (dtype == DType::f16 && squares) continue;
      EXPECT_TRUE(std::isfinite(c.loss(in).item())) << c.name << ' ' << name(dtype);
      for (const Tensor& gradient : gradients_at(c.loss, in))
        for (const double value : gradient.values<double>())
          EXPECT_TRUE(std::isfinite(value)) << c.name << ' ' << name(dtype);
    }
  }
}

TEST(Losses, RoundNarrowDtypesOnce) {
  for (const Case& c : kCases)
    for (const DType dtype : {DType::f16, DType::bf16}) {
      const Tensors in = c.inputs(dtype), exact = converted(in, in_dtype(types_of(in), DType::f64));
      const Tensor loss = c.loss(in);
      EXPECT_EQ(loss.dtype(), dtype) << c.name;
      EXPECT_EQ(difference({c.loss(exact)}, {loss}, 0.51 * epsilon(dtype)), "") << c.name;
      EXPECT_EQ(difference(gradients_at(c.loss, exact), gradients_at(c.loss, in), 2 * epsilon(dtype)), "") << c.name;
    }
}

TEST(Losses, GradientsAtTheKinksArePyTorchs) {
  const auto expect = [](const Loss& loss, const std::vector<double>& x, const std::vector<double>& gradient) {
    EXPECT_EQ(gradients_at(loss, {vector(x)})[0].values<double>(), gradient);
  };
  expect([](const Tensors& x) { return l1_loss(x[0], zeros({1}), "sum"); }, {0}, {0});
  expect([](const Tensors& x) { return smooth_l1_loss(x[0], zeros({1}), 0, "sum"); }, {0}, {0});
  expect([](const Tensors& x) { return smooth_l1_loss(x[0], zeros({3}), 2, "sum"); }, {-2, 0, 2}, {-1, 0, 1});
  expect([](const Tensors& x) { return huber_loss(x[0], zeros({3}), 2, "sum"); }, {-2, 0, 2}, {-2, 0, 2});
  expect([](const Tensors& x) { return hinge_embedding_loss(x[0], vector({-1, -1}), 1, "sum"); }, {1, 1.5}, {0, 0});
  expect([](const Tensors& x) { return margin_ranking_loss(x[0], zeros({1}), vector({1}), 0, "sum"); }, {0}, {0});
  expect([](const Tensors& x) { return bce_loss(x[0], vector({1, 0}), {}, "sum"); }, {0, 0}, {-1e12F, 0});
  // Below eps a variance counts as eps, and is drawn up.
  expect([](const Tensors& x) { return gaussian_nll_loss(zeros({1}), zeros({1}), x[0], {.eps = 0.5}); }, {0.25}, {1});
  expect([](const Tensors& x) { return poisson_nll_loss(zeros({2}), x[0], {.full = true, .reduction = "sum"}); },
         {0, 1}, {0, 0});
  // All distances are 0: a root would have an infinite slope there.
  const Tensor x = zeros({1, 2});
  const auto triplet = [](const Tensors& t) { return triplet_margin_loss(t[0], t[0], t[0], {.eps = 0}); };
  EXPECT_EQ(gradients_at(triplet, {x})[0].values<double>(), (std::vector<double>{0, 0}));
  EXPECT_EQ(triplet({x}).item(), 1);
}

TEST(Losses, MixedTargetsAreTheMixedLoss) {
  const Tensor logits = kCases[3].inputs(DType::f64)[0];
  const Tensor a = integers({4}, {0, 1, 2, 3}), b = integers({4}, {4, 1, 0, 2});
  const auto soft = [](const Tensor& label) { return one_hot(label, 5, DType::f64); };
  const double mixed = cross_entropy(logits, soft(a) * 0.3 + soft(b) * 0.7, {.label_smoothing = 0.1}).item();
  const auto hard = [&](const Tensor& label) { return cross_entropy(logits, label, {.label_smoothing = 0.1}).item(); };
  EXPECT_NEAR(mixed, 0.3 * hard(a) + 0.7 * hard(b), 1e-12);
}

TEST(Losses, FocalLossesWithoutFocusAreCrossEntropies) {
  const Tensors in = kCases[4].inputs(DType::f64);
  EXPECT_NEAR(softmax_focal_loss(in[0], in[1], {.gamma = 0, .ignore_index = 2}, in[2]).item(),
              cross_entropy(in[0], in[1], {.ignore_index = 2}, in[2]).item(), 1e-12);
  EXPECT_NEAR(
      sigmoid_focal_loss(vector({30, -30}), vector({0, 1}), {.alpha = -1, .gamma = 0, .reduction = "sum"}).item(), 60,
      1e-5);
}

TEST(Losses, IgnoredPlacesCountNothingWhateverTheyHold) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = from_doubles({DType::f32, {2, 2}}, {-inf, std::nan(""), -1, -2});
  EXPECT_EQ(nll_loss(x, integers({2}, {-100, 1})).item(), 2);
  EXPECT_TRUE(std::isnan(nll_loss(x, integers({2}, {-100, -100})).item())) << "a mean over nothing";
}

TEST(Losses, ClassesOutsideTheirRangeAreRefused) {
  const auto fault = [](auto body) {
    try {
      body();
    } catch (const Error& error) {
      return error.fault();
    }
    return Fault::gate;
  };
  for (const std::int64_t label : {-1, 3}) {
    const Tensor target = integers({2}, {0, label}), x = zeros({2, 3});
    EXPECT_EQ(fault([&] { nll_loss(x, target); }), Fault::data) << label;
    EXPECT_EQ(fault([&] { softmax_focal_loss(x, target); }), Fault::data) << label;
    EXPECT_EQ(fault([&] { multi_margin_loss(x, target); }), Fault::data) << label;
  }
  const auto ctc = [&](std::vector<std::int64_t> labels, std::int64_t steps, std::int64_t length) {
    const Shape shape{1, static_cast<std::int64_t>(labels.size())};
    return fault(
        [&] { ctc_loss(zeros({4, 1, 3}), integers(shape, labels), integers({1}, {steps}), integers({1}, {length})); });
  };
  EXPECT_EQ(ctc({1, 2}, 4, 2), Fault::gate) << "is in order";
  EXPECT_EQ(ctc({1, 3}, 4, 2), Fault::data) << "no such class";
  EXPECT_EQ(ctc({1, 0}, 4, 2), Fault::data) << "the blank is no label";
  EXPECT_EQ(ctc({1, 0}, 4, 1), Fault::gate) << "padding may be anything";
  EXPECT_EQ(ctc({1, 2}, 5, 2), Fault::data) << "more steps than there are";
  EXPECT_EQ(ctc({1, 2}, 4, 3), Fault::data) << "more labels than there are";
  EXPECT_EQ(ctc({1, 2}, -1, 2), Fault::data);
  EXPECT_EQ(ctc({1, 2}, 4, -1), Fault::data);
}

TEST(Losses, CtcCountsEveryAlignment) {
  // Two steps of two equally probable classes spell "1" as 11, 1- and -1: three ways of four.
  const Tensor even = Tensor::full({DType::f64, {2, 1, 2}}, std::log(0.5));
  const Tensor two = integers({1}, {2}), one = integers({1}, {1});
  EXPECT_NEAR(ctc_loss(even, integers({1, 1}, {1}), two, one).item(), -std::log(0.75), 1e-12);
  EXPECT_EQ(ctc_loss(even, integers({1, 1}, {1}), integers({1}, {0}), integers({1}, {0})).item(), 0);
  // "11" needs a blank between, a third step.
  const Tensor twice = integers({1, 2}, {1, 1});
  EXPECT_EQ(ctc_loss(even, twice, two, two).item(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(ctc_loss(even, twice, two, two, {.zero_infinity = true}).item(), 0);
}

TEST(Losses, DetachCutsTheGradient) {
  const auto squares = [](const Tensors& x) { return l1_loss(x[0] * detach(x[0]), zeros({2}), "sum"); };
  EXPECT_EQ(gradients_at(squares, {vector({2, 3})})[0].values<double>(), (std::vector<double>{2, 3}));
}

TEST(Losses, MessagesNameBothShapes) {
  const Tensor x = zeros({2, 3}), y = zeros({3}), labels = zeros({3}, DType::i64);
  EXPECT_EQ(message_of([&] { l1_loss(x, y); }),
            "l1_loss: x is f32(2,3), y is f32(3); they have to be equal, this loss does not broadcast");
  EXPECT_EQ(message_of([&] { l1_loss(labels, labels); }),
            "l1_loss: x is i64(3), but has to be floating: cast it first");
  EXPECT_EQ(message_of([&] { l1_loss(x, x, "average"); }),
            "l1_loss: reduction is \"average\", has to be mean, sum or none");
  EXPECT_EQ(message_of([&] { smooth_l1_loss(x, x, -1); }), "smooth_l1_loss: beta is -1, but must not be negative");
  EXPECT_EQ(message_of([&] { huber_loss(x, x, 0); }), "huber_loss: delta is 0, but has to be positive");
  EXPECT_EQ(message_of([&] { cross_entropy(x, y); }),
            "cross_entropy: target is f32(3), logits f32(2,3) expect probabilities (2,3) or class numbers i64");
  EXPECT_EQ(message_of([&] { cross_entropy(x, x, {.ignore_index = 1}); }),
            "cross_entropy: ignore_index is 1, but probabilities as target are not class numbers; leave it out");
  EXPECT_EQ(message_of([&] { cross_entropy(x, x, {}, zeros({2})); }),
            "cross_entropy: class_weights are f32(2), logits (2,3) expect floating (3)");
  EXPECT_EQ(message_of([&] { nll_loss(x, labels); }),
            "nll_loss: target is i64(3), x f32(2,3) expects class numbers i64(2)");
  EXPECT_EQ(message_of([&] { nll_loss(x, zeros({2}, DType::i64), {}, zeros({2})); }),
            "nll_loss: class_weights are f32(2), x f32(2,3) expects floating (3)");
  EXPECT_EQ(message_of([&] { kl_div(x, y); }),
            "kl_div: log_probs is f32(2,3), the target is f32(3); they have to be equal, this loss does not "
            "broadcast");
  EXPECT_EQ(message_of([&] { kl_div(zeros({}), zeros({}), {.reduction = "batchmean"}); }),
            "kl_div: batchmean takes log_probs (N,…), got ()");
  EXPECT_EQ(message_of([&] { sigmoid_focal_loss(x, x, {.alpha = 2}); }),
            "sigmoid_focal_loss: alpha is 2, has to lie in [0, 1], or be -1 for no weights");
  EXPECT_EQ(message_of([&] { softmax_focal_loss(x, labels, {.gamma = -1}); }),
            "softmax_focal_loss: gamma is -1, but must not be negative");
  EXPECT_EQ(message_of([&] { hinge_embedding_loss(x, labels); }),
            "hinge_embedding_loss: the target is i64(3), x f32(2,3) expects numbers (2,3)");
  EXPECT_EQ(message_of([&] { cosine_embedding_loss(x, x, labels); }),
            "cosine_embedding_loss: the target is i64(3), x f32(2,3) expects numbers (2)");
  EXPECT_EQ(message_of([&] { multi_margin_loss(x, labels, {.p = 3}); }), "multi_margin_loss: p is 3, has to be 1 or 2");
  EXPECT_EQ(message_of([&] { triplet_margin_loss(x, x, y); }),
            "triplet_margin_loss: the anchor is f32(2,3), the negative is f32(3); they have to be equal, this "
            "loss does not broadcast");
  EXPECT_EQ(message_of([&] { bce_loss(x, x, zeros({2})); }), "bce_loss: weight: shapes (2) and (2,3) do not broadcast");
  EXPECT_EQ(message_of([&] { gaussian_nll_loss(x, x, zeros({3})); }),
            "gaussian_nll_loss: var is f32(3), x f32(2,3) expects its type, with size 1 in place of at most one "
            "axis, or without the last axis");
  const auto ctc = [&](const Shape& targets, std::int64_t lengths, std::int64_t blank) {
    const Tensor n = zeros({lengths}, DType::i64);
    return message_of([&] { ctc_loss(zeros({4, 2, 3}), zeros(targets, DType::i64), n, n, {.blank = blank}); });
  };
  EXPECT_EQ(ctc({3, 5}, 2, 0),
            "ctc_loss: targets are i64(3,5), log_probs (4,2,3) expect labels i64(2,S), or all of them as "
            "i64(sum of the lengths)");
  EXPECT_EQ(ctc({2, 5}, 3, 0), "ctc_loss: input_lengths are i64(3), log_probs (4,2,3) expect i64(2)");
  EXPECT_EQ(ctc({2, 5}, 2, 3), "ctc_loss: blank is class 3, but log_probs (4,2,3) have 3 classes");
}

}  // namespace
}  // namespace neurim
