// Optimizers against their formulas, step by step, and schedules against values worked out by hand.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/graph/trace.h"
#include "neurim/model/state.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/add.h"
#include "neurim/ops/detach.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/sum.h"
#include "neurim/optim/adam.h"
#include "neurim/optim/schedule.h"
#include "neurim/optim/sgd.h"

namespace neurim {
namespace {

/// A matrix, a vector and a state of one element each.
struct Net {
  Tensor w = Tensor::full({DType::f32, {1, 1}}, 2), b = Tensor::full({DType::f32, {1}}, -1),
         mean = Tensor::full({DType::f32, {1}}, 9);
  void parts(Parts& p) { p("w", w)("b", b)("mean", mean, Role::state); }

  Tensors gradients(double of_w, double of_b) const {
    return {Tensor::full(w.type(), of_w), Tensor::full(b.type(), of_b)};
  }
};

std::vector<std::string> names(ModuleRef module) {
  std::vector<std::string> all;
  for (const Parameter& p : named_parameters(module)) all.push_back(p.name);
  return all;
}

constexpr double kGradients[] = {0.5, -2, 1, 0.25};

TEST(SGD, FollowsTheFormula) {
  struct Case {
    double momentum, dampening, decay;
    bool nesterov;
  };
  for (const Case& c : {Case{0, 0, 0, false}, Case{0, 0, 0.1, false}, Case{0.9, 0, 0, false}, Case{0.9, 0, 0.1, true},
                        Case{0.9, 0.3, 0, false}, Case{0.9, 0.3, 0.1, false}}) {
    Net net;
    SGD sgd(
        named_parameters(net),
        {.lr = 0.1, .momentum = c.momentum, .dampening = c.dampening, .weight_decay = c.decay, .nesterov = c.nesterov});
    double w = 2, buffer = 0, lr = 0.1;
    bool first = true;
    for (const double gradient : kGradients) {
      if (!first) sgd.set_lr(lr = 0.01);
      sgd.step(net.gradients(gradient, 0));
      const double g = gradient + c.decay * w;
      buffer = first ? g : c.momentum * buffer + (1 - c.dampening) * g;
      w -= lr * (c.nesterov ? g + c.momentum * buffer : c.momentum != 0 ? buffer : g);
      first = false;
      EXPECT_NEAR(net.w.item(), w, 1e-5) << c.momentum << ' ' << c.dampening << ' ' << c.decay << ' ' << c.nesterov;
    }
    EXPECT_EQ(sgd.steps(), 4);
    EXPECT_EQ(net.mean.item(), 9);
  }
}

TEST(Adam, FollowsTheFormula) {
  for (const bool decoupled : {false, true}) {
    Net net;
    std::unique_ptr<Optimizer> optimizer;
    if (decoupled)
      optimizer = std::make_unique<AdamW>(named_parameters(net),
                                          AdamW::Config{.lr = 0.1, .beta1 = 0.8, .weight_decay = 0.2});
    else
      optimizer = std::make_unique<Adam>(named_parameters(net),
                                         Adam::Config{.lr = 0.1, .beta1 = 0.8, .weight_decay = 0.2});
    double w = 2, m = 0, v = 0;
    int step = 0;
    for (const double gradient : kGradients) {
      optimizer->step(net.gradients(gradient, 0));
      ++step;
      const double g = gradient + (decoupled ? 0 : 0.2 * w);
      if (decoupled) w *= 1 - 0.1 * 0.2;
      m = 0.8 * m + 0.2 * g;
      v = 0.999 * v + 0.001 * g * g;
      w -= 0.1 * (m / (1 - std::pow(0.8, step))) / (std::sqrt(v / (1 - std::pow(0.999, step))) + 1e-8);
      EXPECT_NEAR(net.w.item(), w, 1e-5) << decoupled << " step " << step;
    }
  }
}

TEST(Adam, DecayDefaultsArePyTorchs) {
  EXPECT_EQ(Adam::Config{}.weight_decay, 0);
  EXPECT_EQ(AdamW::Config{}.weight_decay, 0.01);
  Net net;
  AdamW adam(named_parameters(net), {.lr = 0.5});
  adam.step(net.gradients(0, 0));
  EXPECT_NEAR(net.w.item(), 2 * (1 - 0.5 * 0.01), 1e-6);
}

TEST(Optimizer, VectorsDecayUnlessToldNotTo) {
  for (const bool decay_1d : {true, false}) {
    Net net;
    SGD sgd(named_parameters(net), {.lr = 0.5, .weight_decay = 0.1, .decay_1d = decay_1d});
    sgd.step(net.gradients(0, 0));
    EXPECT_NEAR(net.w.item(), 2 * 0.95, 1e-6);
    EXPECT_NEAR(net.b.item(), decay_1d ? -0.95 : -1, 1e-6);
  }
}

TEST(Optimizer, StateHasStableNamesAndResumes) {
  const fs::path path = fs::temp_directory_path() / text("neurim-optim-", ::getpid(), ".safetensors");
  Net net;
  AdamW adam(named_parameters(net), {.lr = 0.1});
  EXPECT_EQ(names(adam),
            (std::vector<std::string>{"lr", "step", "w.exp_avg", "w.exp_avg_sq", "b.exp_avg", "b.exp_avg_sq"}));
  adam.step(net.gradients(1, 2));
  adam.set_lr(0.05);
  save_model(adam, path);

  Net resumed = clone(net);
  AdamW other(named_parameters(resumed), {.lr = 7});
  load_model(other, path);
  fs::remove(path);
  EXPECT_EQ(other.steps(), 1);
  EXPECT_NEAR(other.lr(), 0.05, 1e-8);
  for (AdamW* optimizer : {&adam, &other}) optimizer->step(net.gradients(-3, 1));
  EXPECT_EQ(resumed.w.item(), net.w.item());
  EXPECT_EQ(resumed.b.item(), net.b.item());

  SGD plain(named_parameters(net), {}), momentum(named_parameters(net), {.momentum = 0.9});
  EXPECT_EQ(names(plain), (std::vector<std::string>{"lr", "step"}));
  EXPECT_EQ(names(momentum), (std::vector<std::string>{"lr", "step", "w.momentum", "b.momentum"}));
}

TEST(Optimizer, TiedWeightsStepOnceAndUnreachedOnesStay) {
  struct Tied {
    Tensor a = Tensor::full({DType::f32, {1}}, 1), b = a, c = Tensor::full({DType::f32, {1}}, 5);
    void parts(Parts& p) { p("a", a)("b", b)("c", c); }
  } net;
  SGD sgd(named_parameters(net), {.lr = 1});
  ASSERT_EQ(sgd.weights().size(), 2u);
  sgd.step({Tensor::full({DType::f32, {1}}, 0.5), {}});
  EXPECT_EQ(net.b.item(), 0.5);
  EXPECT_EQ(net.c.item(), 5);
}

TEST(Optimizer, RecordsAStepThatReadsTheLearningRate) {
  nn::Linear net(3, 2);
  SGD sgd(named_parameters(net), {.lr = 0.1, .momentum = 0.9});
  Trace trace({.training = true});
  const Tensor loss = sum(net(trace.input({DType::f32, {4, 3}})));
  const Tensor of[] = {loss};
  sgd.step(gradients(of, sgd.weights()));
  const Graph graph = trace.finish({loss});
  EXPECT_EQ(graph.commits.size(), 2u + 2 + 1);  // weights, momenta, the step counter
  EXPECT_NE(graph.text().find("sgd_step"), std::string::npos);
  const auto read = std::find_if(graph.values.begin(), graph.values.end(), [&](const Graph::Value& value) {
    return value.captured && value.captured.type() == Type{DType::f32, {}} && value.captured.item() == sgd.lr();
  });
  EXPECT_NE(read, graph.values.end()) << "the learning rate is baked in";
}

/// A loss that is linear in the weights: its gradients are what is put in, times the scale.
struct Scaled {
  Net net;
  std::unique_ptr<Optimizer> optimizer;
  Plan step;

  explicit Scaled(const std::function<std::unique_ptr<Optimizer>(const Parameters&)>& make, bool scales = true) {
    optimizer = make(named_parameters(net));
    if (scales) optimizer->scale_losses();
    step = plan(
        [&](const Tensors& in) -> Tensors {
          const Tensor loss = sum(net.w * in[0]) + sum(net.b * in[1]);
          optimizer->minimize(loss);
          return {loss};
        },
        {net.w.type(), net.b.type()}, {.training = true});
  }
  void operator()(double of_w, double of_b) { step(net.gradients(of_w, of_b)); }
  std::vector<double> numbers() {
    std::vector<double> all{net.w.item(), net.b.item()};
    for (const Parameter& p : named_parameters(*optimizer))
      if (p.name != "loss_scale" && p.name != "finite_steps") all.push_back(p.tensor.item());
    return all;
  }
};

TEST(Optimizer, ScaledLossesStepAsOthersDoAndInfiniteGradientsNotAtAll) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::function<std::unique_ptr<Optimizer>(const Parameters&)> kinds[] = {
      [](const Parameters& p) { return std::make_unique<SGD>(p, SGD::Config{.lr = 0.1}); },
      [](const Parameters& p) {
        return std::make_unique<SGD>(p, SGD::Config{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
      },
      [](const Parameters& p) {
        return std::make_unique<SGD>(p, SGD::Config{.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.1});
      },
      [](const Parameters& p) { return std::make_unique<Adam>(p, Adam::Config{.lr = 0.1, .weight_decay = 0.1}); },
      [](const Parameters& p) { return std::make_unique<AdamW>(p, AdamW::Config{.lr = 0.1, .weight_decay = 0.1}); }};
  for (const auto& make : kinds) {
    Scaled scaled(make), usual(make, false);
    EXPECT_EQ(scaled.optimizer->loss_scale(), 65536);
    EXPECT_EQ(usual.optimizer->loss_scale(), 1);
    double scale = 65536;
    // A gradient may be finite, and the scale times it not.
    for (const double overflows : {1e37, 0.0, 0.0, static_cast<double>(infinity), std::nan(""), 0.0}) {
      const std::vector<double> before = scaled.numbers();
      for (const bool first : {true, false}) {
        if (overflows == 0) break;
        first ? scaled(overflows, 1) : scaled(1, overflows);
        scale /= 2;
        EXPECT_EQ(scaled.numbers(), before);
        EXPECT_EQ(scaled.optimizer->loss_scale(), scale);
      }
      scaled(0.5, -2), usual(0.5, -2);
      EXPECT_EQ(scaled.numbers(), usual.numbers());  // powers of two change no digit
      EXPECT_EQ(scaled.optimizer->steps(), usual.optimizer->steps());
    }
  }
}

TEST(Optimizer, TheScaleGrowsAfterManyFiniteSteps) {
  Scaled scaled([](const Parameters& p) { return std::make_unique<SGD>(p, SGD::Config{.lr = 0}); });
  for (int i = 0; i < 1999; ++i) scaled(1, 1);
  EXPECT_EQ(scaled.optimizer->loss_scale(), 65536);
  scaled(1, 1);
  EXPECT_EQ(scaled.optimizer->loss_scale(), 131072);
  for (int i = 0; i < 1999; ++i) scaled(1, 1);
  EXPECT_EQ(scaled.optimizer->loss_scale(), 131072);
  scaled(1e38, 1);  // and counts from there again
  for (int i = 0; i < 1999; ++i) scaled(1, 1);
  EXPECT_EQ(scaled.optimizer->loss_scale(), 65536);
  // It is saved with the rest.
  Net other;
  SGD again(named_parameters(other), {.lr = 0});
  again.scale_losses();
  const fs::path path = fs::temp_directory_path() / text("neurim-optim-scale-", ::getpid(), ".safetensors");
  save_model(*scaled.optimizer, path);
  load_model(again, path);
  fs::remove(path);
  EXPECT_EQ(again.loss_scale(), 65536);
  EXPECT_EQ(names(again), (std::vector<std::string>{"lr", "step", "loss_scale", "finite_steps"}));
}

TEST(Optimizer, MistakesAreUsageErrors) {
  Net net;
  const Parameters parameters = named_parameters(net);
  auto expect = [](std::string_view part, const std::function<void()>& body) {
    try {
      body();
      ADD_FAILURE() << "nothing was thrown for " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::usage);
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
    }
  };
  expect("nesterov", [&] { SGD(parameters, {.nesterov = true}); });
  expect("momentum", [&] { SGD(parameters, {.momentum = 1}); });
  expect("weight_decay", [&] { SGD(parameters, {.weight_decay = -1}); });
  expect("no weight", [&] { SGD({}, {}); });
  expect("betas", [&] { Adam(parameters, {.beta2 = 1}); });
  expect("eps", [&] { AdamW(parameters, {.eps = -1}); });
  SGD sgd(parameters, {});
  expect("learning rate", [&] { sgd.set_lr(-1); });
  expect("learning rate", [&] { sgd.set_lr(NAN); });
  expect("1 gradients for 2", [&] { sgd.step({net.w}); });
  expect("no gradient for any weight", [&] {
    plan(
        [&](Tensors in) -> Tensors {
          const Tensor loss = sum(detach(in[0] * net.w), {});
          sgd.minimize(loss, 1);
          return {loss};
        },
        {{DType::f32, {1, 1}}}, {.training = true});
  });
}

TEST(Schedule, Curves) {
  EXPECT_DOUBLE_EQ(step_lr(0.1, 29, 30, 0.1), 0.1);
  EXPECT_DOUBLE_EQ(step_lr(0.1, 30, 30, 0.1), 0.01);
  EXPECT_DOUBLE_EQ(step_lr(0.8, 7, 2, 0.5), 0.1);
  EXPECT_DOUBLE_EQ(multistep_lr(0.1, 79.9, {80, 120}), 0.1);
  EXPECT_NEAR(multistep_lr(0.1, 80, {80, 120}), 0.01, 1e-15);
  EXPECT_NEAR(multistep_lr(0.1, 500, {80, 120}), 0.001, 1e-15);
  EXPECT_DOUBLE_EQ(cosine_lr(0.2, 0, 10), 0.2);
  EXPECT_NEAR(cosine_lr(0.2, 5, 10), 0.1, 1e-15);
  EXPECT_NEAR(cosine_lr(1, 2.5, 10), 0.8535533905932737, 1e-12);
  EXPECT_NEAR(cosine_lr(0.2, 5, 10, 0.1), 0.15, 1e-15);
  EXPECT_DOUBLE_EQ(cosine_lr(0.2, 12, 10, 0.1), 0.1);
  EXPECT_DOUBLE_EQ(polynomial_lr(0.4, 5, 10), 0.2);
  EXPECT_DOUBLE_EQ(polynomial_lr(0.4, 5, 10, 2), 0.1);
  EXPECT_DOUBLE_EQ(polynomial_lr(0.5, 5, 10, 2, 0.1), 0.2);
  EXPECT_DOUBLE_EQ(warmup_lr(0.4, 1, 4), 0.1);
  EXPECT_DOUBLE_EQ(warmup_lr(0.5, 2, 4, 0.1), 0.3);
}

TEST(Schedule, WarmUpThenCurve) {
  const Schedule cosine{.kind = "cosine", .lr = 1, .total = 12, .warmup = 2, .warmup_start = 0.5, .min_lr = 0.2};
  cosine.check();
  EXPECT_DOUBLE_EQ(cosine.at(0), 0.5);
  EXPECT_DOUBLE_EQ(cosine.at(1), 0.75);
  EXPECT_DOUBLE_EQ(cosine.at(2), 1);
  EXPECT_NEAR(cosine.at(7), 0.6, 1e-15);
  EXPECT_DOUBLE_EQ(cosine.at(12), 0.2);
  const Schedule multistep{.kind = "multistep", .lr = 1, .warmup = 5, .gamma = 0.5, .milestones = {10, 20}};
  EXPECT_DOUBLE_EQ(multistep.at(9), 1);
  EXPECT_DOUBLE_EQ(multistep.at(10), 0.5);
  EXPECT_DOUBLE_EQ((Schedule{.kind = "step", .lr = 1, .every = 4, .gamma = 0.5}.at(9)), 0.25);
  EXPECT_DOUBLE_EQ((Schedule{.kind = "polynomial", .lr = 1, .total = 6, .warmup = 2}.at(4)), 0.5);
  EXPECT_DOUBLE_EQ((Schedule{.lr = 0.3}.at(1e6)), 0.3);
}

TEST(Schedule, EveryStepOfAWarmUpTrainsAndTheLastOneAtTheFullRate) {
  const Schedule schedule{.kind = "cosine", .lr = 1, .total = 10, .warmup = 2, .warmup_start = 0.2};
  for (const int steps : {1, 5})  // of an epoch
    for (int k = 0; k < 2 * steps; ++k)
      EXPECT_NEAR(schedule.at(static_cast<double>(k) / steps, 1. / steps), 0.2 + 0.8 * (k + 1) / (2. * steps), 1e-12);
  EXPECT_DOUBLE_EQ(schedule.at(2, 1), 1);
  EXPECT_DOUBLE_EQ((Schedule{.kind = "cosine", .lr = 1, .total = 1, .warmup = 0.1}.at(0, 1)), 1);
}

TEST(Schedule, MistakesAreUsageErrors) {
  auto message = [](const Schedule& schedule) -> std::string {
    try {
      schedule.check();
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_NE(message({.kind = "cosin"}).find("did you mean 'cosine'"), std::string::npos);
  EXPECT_NE(message({.kind = "cosine", .total = 5, .warmup = 5}).find("total"), std::string::npos);
  EXPECT_NE(message({.kind = "step", .every = 0}).find("every"), std::string::npos);
  EXPECT_NE(message({.kind = "multistep", .milestones = {9, 3}}).find("ascend"), std::string::npos);
  EXPECT_NE(message({.warmup = -1}).find("warm-up"), std::string::npos);
  for (const std::string& kind : schedule_names()) EXPECT_EQ(message({.kind = kind, .total = 10}), "");
}

}  // namespace
}  // namespace neurim
