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
#include "neurim/ops/recurrent.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/optim/adam.h"
#include "tests/errors.h"
#include "tests/op_table.h"
#include "tests/storage.h"

namespace neurim {
namespace {

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  Random random(seed);
  const Type type{DType::f32, shape};
  return op_table::from_doubles(type, op_table::numbers(type, {}, random));
}

TEST(Recurrent, ParametersHavePyTorchsNamesAndDistribution) {
  nn::LSTM net(3, 25, {.num_layers = 2, .bidirectional = true, .proj_size = 4});
  std::vector<std::string> names;
  for (const Parameter& p : named_parameters(net)) {
    names.push_back(p.name);
    for (const double value : p.tensor.values<double>()) ASSERT_LE(std::abs(value), 0.2) << p.name;
  }
  EXPECT_EQ(names,
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
  const nn::RecurrentOutput whole = net(x), first = net(slice(x, {0}, {2})), rest = net(slice(x, {2}, {6}), first.last);
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
  EXPECT_NE(op_table::difference({kept[0]}, {drawn[0]}, 1e-6), "") << "what the second layer hears is all zero";
  // Whatever x is, the second layer of a training step hears zeros.
  const Tensor other = random_tensor({4, 2, 3}, 2);
  const Tensors again = plan([&](const Tensors& in) -> Tensors { return {net(in[0]).y}; }, {x.type()},
                             {.training = true, .random = key})({other});
  EXPECT_EQ(op_table::difference({drawn[0]}, {again[0]}, 1e-6), "");
}

TEST(Recurrent, ALengthOutsideTheStepsIsADataErrorOfManySequencesToo) {
  const nn::LSTM net(3, 4);
  std::vector<std::int64_t> lengths(40, 2);
  lengths[17] = 3;
  const Plan planned = plan([&](const Tensors& in) -> Tensors { return {net(in[0], {}, in[1]).y}; },
                            {{DType::f32, {2, 40, 3}}, {DType::i64, {40}}});
  const auto rows = planned.rows();
  EXPECT_TRUE(
      std::any_of(rows.begin(), rows.end(), [](const PlanRow& row) { return row.op == "linear+lstm_recurrence"; }));
  EXPECT_EQ(message_of([&] { planned({random_tensor({2, 40, 3}, 1), Tensor::from(Shape{40}, lengths)}); }),
            "lstm_recurrence: the length at (17) is 3, which is not in [1,3); nothing was changed by this step");
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
  EXPECT_EQ(message_of([] { nn::LSTM(3, 4, {.proj_size = 4}); }),
            "LSTM: proj_size 4 has to be less than the hidden size 4, or 0 for no projection");
  EXPECT_EQ(message_of([] { nn::GRU(3, 4, {.dropout = 0.5}); }),
            "GRU: dropout acts between layers, and there is one; give num_layers=2 or more, or dropout=0");
  EXPECT_EQ(message_of([] { nn::RNN(3, 4, {.nonlinearity = "sine"}); }),
            "RNN: nonlinearity is \"sine\", has to be tanh or relu");
  EXPECT_EQ(message_of([] { nn::RNN(3, 4)(random_tensor({2, 3}, 1)); }),
            "RNN: takes x (steps,batch,features), got (2,3)");
  EXPECT_EQ(message_of([] { nn::GRU(3, 4)(random_tensor({5, 2, 7}, 1)); }),
            "gru: x (5,2,7) has 7 features, weight_ih (12,3) expects 3");
  EXPECT_EQ(message_of([] { nn::GRU(3, 4)(random_tensor({5, 2, 3}, 1), {random_tensor({2, 4}, 1)}); }),
            "GRU: the initial h is (2,4), expected (layers*directions,batch,units) (1,2,4)");
  EXPECT_EQ(message_of([] { nn::LSTM(3, 4)(random_tensor({5, 2, 3}, 1), {random_tensor({1, 2, 4}, 1)}); }),
            "LSTM: the initial h and c are given together or not at all");
}

/// How one direction of a layer is asked for.
struct Walk {
  std::int64_t inputs, hidden, outputs;
  bool bias = true, reverse = false, lengths = false, peephole = false, state = false, reset_before = false;
};

/// Outputs and all gradients of a layer over 40 sequences, and how many tasks of the plan multiply inputs in the
/// recurrence, and what layout the gradient of the gates has.
struct Walked {
  Tensors results;
  std::int64_t together = 0;
  std::string layout;
};
Walked walked(Cell cell, const Walk& walk, const PlanOptions& options) {
  constexpr std::int64_t kSteps = 4, kBatch = 40;
  const std::int64_t gates = gate_count(cell) * walk.hidden;
  RecurrentInputs in{{}, random_tensor({gates, walk.inputs}, 1), random_tensor({gates, walk.outputs}, 2), {}, {}};
  if (walk.bias) in.bias_ih = random_tensor({gates}, 3), in.bias_hh = random_tensor({gates}, 4);
  if (walk.outputs < walk.hidden) in.weight_hr = random_tensor({walk.outputs, walk.hidden}, 5);
  if (walk.peephole) in.peephole = random_tensor({3 * walk.hidden}, 6);
  if (walk.state) in.h0 = random_tensor({kBatch, walk.outputs}, 7);
  if (walk.state && cell == Cell::lstm) in.c0 = random_tensor({kBatch, walk.hidden}, 8);
  if (walk.lengths) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t n = 0; n < kBatch; ++n) lengths.push_back(n % kSteps + 1);
    in.lengths = Tensor::from(Shape{kBatch}, lengths);
  }
  Tensors wrt{{}, in.weight_ih, in.weight_hh};
  for (const Tensor& tensor : {in.bias_ih, in.bias_hh, in.weight_hr, in.peephole, in.h0, in.c0})
    if (tensor) wrt.push_back(tensor);
  const Tensor x = random_tensor({kSteps, kBatch, walk.inputs}, 9);
  const Plan planned = plan(
      [&](const Tensors& given) -> Tensors {
        in.x = wrt[0] = given[0];
        Tensors out = cell == Cell::lstm  ? lstm(in, walk.reverse)
                      : cell == Cell::gru ? gru(in, walk.reverse, !walk.reset_before)
                                          : rnn(in, walk.reverse);
        Tensors seeds;
        for (std::size_t i = 0; i < out.size(); ++i) seeds.push_back(random_tensor(out[i].shape(), 10 + i));
        for (const Tensor& gradient : gradients(out, wrt, seeds)) out.push_back(gradient);
        return out;
      },
      {x.type()}, options);
  Walked all{planned({x})};
  for (const PlanRow& row : planned.rows()) {
    all.together += row.op.starts_with("linear+") && row.op.ends_with("_recurrence");
    if (row.op.ends_with("_recurrence_grad")) all.layout = row.layout;
  }
  return all;
}

TEST(Recurrent, OfManySequencesInInferenceWhatNobodyReadsIsScratch) {
  for (const std::int64_t hidden : {20, 256}) {
    nn::LSTM net(5, hidden, {.num_layers = 2});
    initialise(net, 1);
    const Tensor x = random_tensor({1, 40, 5}, 2);
    const auto run = [&](const PlanOptions& options) {
      const Plan planned = plan([&](const Tensors& in) -> Tensors { return {net(in[0]).last.c}; }, {x.type()}, options);
      const auto rows = planned.rows();
      EXPECT_EQ(std::count_if(rows.begin(), rows.end(),
                              [](const PlanRow& row) { return row.op == "linear+lstm_recurrence"; }),
                options.interpret ? 0 : 2);
      return planned({x});
    };
    EXPECT_EQ(op_table::difference(run({.interpret = true}), run({}), 1e-5), "") << hidden;
  }
}

TEST(Recurrent, OfManySequencesInputsAreMultipliedStepByStep) {
  const Walk walks[] = {{20, 37, 37},
                        {20, 37, 37, false, true, true},
                        {16, 32, 32, true, true, false, false, true},
                        {3, 37, 21, true, false, true, true, true},
                        {5, 256, 256},
                        {5, 256, 256, true, true, true},
                        {5, 256, 256, true, false, true, false, false, true}};
  for (const Cell cell : {Cell::lstm, Cell::rnn, Cell::gru})
    for (const Walk& walk : walks) {
      if (cell != Cell::lstm && (walk.peephole || walk.outputs < walk.hidden)) continue;
      const Tensors expected = walked(cell, walk, {.training = true, .interpret = true}).results;
      const Walked got = walked(cell, walk, {.training = true});
      EXPECT_EQ(op_table::difference(expected, got.results, 2e-4), "")
          << static_cast<int>(cell) << ' ' << walk.hidden << ' ' << walk.lengths;
      EXPECT_EQ(got.together, cell != Cell::gru);
      EXPECT_EQ(got.layout, walk.hidden == 256 ? text("features", gate_count(cell) * 256 + 16) : "plain");
    }
}

/// Of both factors of the products, inputs, states and weights, the nearest numbers of 16 bits are multiplied, step by
/// step.
TEST(Recurrent, ProductsRoundWhereThePlanAllowsIt) {
  const Walk walks[] = {{20, 37, 37},
                        {17, 33, 33, true, true, true},
                        {3, 37, 21, true, false, true, true, true},
                        {5, 256, 256, true, true, false, false, true, true}};
  for (const DType products : {DType::bf16, DType::f16})
    for (const Cell cell : {Cell::lstm, Cell::rnn, Cell::gru})
      for (const Walk& walk : walks) {
        if (cell != Cell::lstm && (walk.peephole || walk.outputs < walk.hidden)) continue;
        const std::string where = text(static_cast<int>(cell), ' ', walk.hidden, ' ', name(products));
        const Tensors exact = walked(cell, walk, {.training = true}).results;
        const Walked got = walked(cell, walk, {.training = true, .compute_dtype = products});
        EXPECT_EQ(got.together, cell != Cell::gru) << where;
        double most = 0;
        for (std::size_t i = 0; i < exact.size(); ++i) most = std::max(most, error_of(exact[i], got.results[i]));
        EXPECT_LT(most, products == DType::bf16 || sums_of_f16() ? 0.25 : 0.03)
            << where;  // of weights this large, gradients over some steps
        EXPECT_GT(most, products == DType::bf16 ? 5e-4 : 5e-5) << "nothing was rounded: " << where;
      }
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
  for (const std::string op : {"linear+lstm_recurrence", "lstm_recurrence_grad"})
    EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [&](const PlanRow& row) { return row.op == op; }), 1) << op;

  Random random(3);
  double loss = 0;
  for (int i = 0; i < 150; ++i) {
    std::vector<float> x(kBatch * kSteps);
    std::vector<std::int64_t> labels(kBatch);
    for (std::int64_t n = 0; n < kBatch; ++n) {
      const double value = random.uniform(-1, 1);
      const auto place = static_cast<std::int64_t>(random.uniform(0, kSteps));
      x[n * kSteps + place] = static_cast<float>(value);
      labels[n] = value > 0;
    }
    loss = step({Tensor::from(Shape{kBatch, kSteps, 1}, x), Tensor::from(Shape{kBatch}, labels)})[0].item();
  }
  EXPECT_LT(loss, 0.2);  // log(2) = 0.69 by chance
}

}  // namespace
}  // namespace neurim
