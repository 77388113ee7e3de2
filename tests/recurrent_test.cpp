// What neither the op table nor the comparison with PyTorch says of recurrent networks.
#include "neurim/nn/recurrent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/graph/trace.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/cross_entropy.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/optim/adam.h"
#include "tests/op_table.h"

namespace neurim {
namespace {

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  Random random(seed);
  const Type type{DType::f32, shape};
  return op_table::from_doubles(type, op_table::numbers(type, {}, random));
}

std::string message(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Recurrent, ParametersHavePyTorchsNamesAndDistribution) {
  nn::LSTM net(3, 25, {.num_layers = 2, .bidirectional = true, .proj_size = 4});
  std::vector<std::string> names;
  for (const Parameter& p : named_parameters(net)) {
    names.push_back(p.name);
    for (const double value : p.tensor.values<double>()) ASSERT_LE(std::abs(value), 0.2) << p.name;
  }
  EXPECT_EQ(
      names,
      (std::vector<std::string>{
          "weight_ih_l0",         "weight_hh_l0",         "bias_ih_l0",           "bias_hh_l0",
          "weight_hr_l0",         "weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse",
          "bias_hh_l0_reverse",   "weight_hr_l0_reverse", "weight_ih_l1",         "weight_hh_l1",
          "bias_ih_l1",           "bias_hh_l1",           "weight_hr_l1",         "weight_ih_l1_reverse",
          "weight_hh_l1_reverse", "bias_ih_l1_reverse",   "bias_hh_l1_reverse",   "weight_hr_l1_reverse"}));
}

TEST(Recurrent, PaddingChangesNothing) {
  const nn::GRU net(4, 5, {.bidirectional = true});
  const Tensor x = random_tensor({6, 2, 4}, 1);
  const std::int64_t lengths[] = {6, 4};
  const nn::RecurrentOutput padded = net(x, {}, Tensor::from(Shape{2}, lengths));
  const nn::RecurrentOutput alone = net(slice(x, {0, 1}, {4, 2}));
  const auto second = [](const Tensor& t, std::int64_t first, std::int64_t last) {
    return slice(t, {first, 1}, {last, 2});
  };
  EXPECT_EQ(op_table::difference({alone.y}, {second(padded.y, 0, 4)}, 1e-6), "");
  EXPECT_EQ(op_table::difference({alone.last.h}, {second(padded.last.h, 0, 2)}, 1e-6), "");
  for (const double value : second(padded.y, 4, 6).values<double>()) EXPECT_EQ(value, 0);
}

TEST(Recurrent, StatesCarryASequenceOn) {
  const nn::LSTM net(4, 5, {.num_layers = 2});
  const Tensor x = random_tensor({6, 2, 4}, 1);
  const nn::RecurrentOutput whole = net(x), first = net(slice(x, {0}, {2})),
                            rest = net(slice(x, {2}, {6}), first.last);
  EXPECT_EQ(op_table::difference({slice(whole.y, {2}, {6}), whole.last.h, whole.last.c},
                                 {rest.y, rest.last.h, rest.last.c}, 1e-6),
            "");
}

TEST(Recurrent, DropoutActsBetweenLayersInTrainingAlone) {
  const nn::RNN net(3, 8, {.num_layers = 2, .dropout = 1});
  const Tensor x = random_tensor({4, 2, 3}, 1);
  const Tensor key = Tensor::full({DType::i64, {2}}, 1);
  const auto outputs = [&](bool training) {
    return plan([&](const Tensors& in) -> Tensors { return {net(in[0]).y, net(in[0]).last.h}; }, {x.type()},
                {.training = training, .random = key})({x});
  };
  const Tensors drawn = outputs(true), kept = outputs(false);
  EXPECT_EQ(op_table::difference({slice(kept[1], {0}, {1})}, {slice(drawn[1], {0}, {1})}, 1e-6), "")
      << "the first layer's states";
  EXPECT_NE(op_table::difference({kept[0]}, {drawn[0]}, 1e-6), "")
      << "what the second layer hears is all zero";
  // Whatever x is, the second layer of a training step hears zeros.
  const Tensor other = random_tensor({4, 2, 3}, 2);
  const Tensors again = plan([&](const Tensors& in) -> Tensors { return {net(in[0]).y}; }, {x.type()},
                             {.training = true, .random = key})({other});
  EXPECT_EQ(op_table::difference({drawn[0]}, {again[0]}, 1e-6), "");
}

TEST(Recurrent, ALengthOutsideTheStepsIsADataError) {
  const nn::LSTM net(3, 4);
  for (const std::int64_t wrong : {0, 6}) {
    const std::int64_t lengths[] = {5, wrong};
    try {
      net(random_tensor({5, 2, 3}, 1), {}, Tensor::from(Shape{2}, lengths));
      ADD_FAILURE() << "length " << wrong << " of 5 was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::data) << error.what();
    }
  }
}

TEST(Recurrent, MessagesSayWhatIsWrong) {
  EXPECT_EQ(message([] { nn::LSTM(3, 4, {.proj_size = 4}); }),
            "LSTM: proj_size 4 has to be less than the hidden size 4, or 0 for no projection");
  EXPECT_EQ(message([] { nn::GRU(3, 4, {.dropout = 0.5}); }),
            "GRU: dropout acts between layers, and there is one; give num_layers=2 or more, or dropout=0");
  EXPECT_EQ(message([] { nn::RNN(3, 4, {.nonlinearity = "sine"}); }),
            "RNN: nonlinearity is \"sine\", has to be tanh or relu");
  EXPECT_EQ(message([] { nn::RNN(3, 4)(random_tensor({2, 3}, 1)); }),
            "RNN: takes x (steps,batch,features), got (2,3)");
  EXPECT_EQ(message([] { nn::GRU(3, 4)(random_tensor({5, 2, 7}, 1)); }),
            "gru: x (5,2,7) has 7 features, weight_ih (12,3) expects 3");
  EXPECT_EQ(message([] { nn::GRU(3, 4)(random_tensor({5, 2, 3}, 1), {random_tensor({2, 4}, 1)}); }),
            "GRU: the initial h is (2,4), expected (layers*directions,batch,units) (1,2,4)");
  EXPECT_EQ(message([] { nn::LSTM(3, 4)(random_tensor({5, 2, 3}, 1), {random_tensor({1, 2, 4}, 1)}); }),
            "LSTM: the initial h and c are given together or not at all");
}

// Whether the one element of a sequence that is not 0 is positive, told by the last output.
TEST(Recurrent, ATrainingPlanWalksOnceEachWayAndLearns) {
  constexpr std::int64_t kSteps = 12, kBatch = 64;
  nn::LSTM net(1, 16, {.batch_first = true});
  nn::Linear classes(16, 2);
  initialise(net, 1);
  initialise(classes, 2);
  Parameters weights = named_parameters(net);
  for (const Parameter& p : named_parameters(classes))
    weights.push_back({"classes." + p.name, p.tensor, p.role, p.init});
  Adam optimizer(weights, {.lr = 0.02});
  const Plan step = plan(
      [&](const Tensors& in) -> Tensors {
        const Tensor last = reshape(slice(net(in[0]).y, {-1}, {kSteps}, {1}), {kBatch, 16});
        const Tensor loss = cross_entropy(classes(last), in[1]);
        optimizer.step(gradients(std::span(&loss, 1), optimizer.weights()));
        return {loss};
      },
      {{DType::f32, {kBatch, kSteps, 1}}, {DType::i64, {kBatch}}}, {.training = true});
  const std::vector<PlanRow> rows = step.rows();
  for (const std::string op : {"lstm_recurrence", "lstm_recurrence_grad"})
    EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [&](const PlanRow& row) { return row.op == op; }), 1)
        << op;

  Random random(3);
  double loss = 0;
  for (int i = 0; i < 150; ++i) {
    std::vector<float> x(kBatch * kSteps);
    std::vector<std::int64_t> labels(kBatch);
    for (std::int64_t n = 0; n < kBatch; ++n) {
      const double value = random.uniform(-1, 1);
      const auto place = static_cast<std::int64_t>(random.uniform(0, kSteps));
      x[static_cast<std::size_t>(n * kSteps + place)] = static_cast<float>(value);
      labels[static_cast<std::size_t>(n)] = value > 0;
    }
    loss = step({Tensor::from(Shape{kBatch, kSteps, 1}, x), Tensor::from(Shape{kBatch}, labels)})[0].item();
  }
  EXPECT_LT(loss, 0.2);  // log(2) = 0.69 by chance
}

}  // namespace
}  // namespace neurim
