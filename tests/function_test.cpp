// Functions: symbolic sizes, control flow, the text form, files, and one set of weights for many plans.
#include "neurim/function/function.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>
#include <set>
#include <thread>

#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/core/random.h"
#include "neurim/function/image_layout.h"
#include "neurim/graph/value.h"
#include "neurim/model/function_model.h"
#include "neurim/model/inference.h"
#include "neurim/model/recurrent_models.h"
#include "neurim/model/state.h"
#include "neurim/model/zoo.h"
#include "neurim/ops/add.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/control_flow.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/sum.h"
#include "tests/ask_group.h"
#include "tests/errors.h"

namespace neurim {
namespace {

using op_table::difference;
using op_table::identical;
using op_table::uniform;

const Dim kBatch = Dim::symbol("batch");

bool contains(const std::string& whole, std::string_view part) { return whole.find(part) != std::string::npos; }

Function of_model(const Model& model, const Type& in) {
  return trace_function([&](const Tensors& x) { return Tensors{model(x[0])}; }, {{"input", in}}, {"logits"});
}

/// The text read back, with the same stored tensors.
ParsedGraph reread(const Graph& graph, const std::string& text) {
  std::map<std::string, Tensor> stored;
  for (const auto& [name, tensor] : stored_tensors(graph)) stored[name] = tensor;
  return parse_graph(text, [&](const std::string& name, const Type&) { return stored.at(name); });
}

class Files : public testing::Test {
 protected:
  Files() : folder_(fs::temp_directory_path() / text("neurim-function-", ::getpid())) {
    fs::create_directories(folder_);
  }
  ~Files() override { fs::remove_all(folder_); }
  fs::path path(std::string_view name = "a.neurim") const { return folder_ / name; }

 private:
  fs::path folder_;
};

// --- symbolic sizes

/// Families whose networks differ in kind; all models are in Slow.
const std::vector<std::string> kFamilies{"resnet18",        "mobilenet_v3_small", "densenet121", "shufflenet_v2_x0_5",
                                         "efficientnet_b0", "convnext_tiny",      "vgg11",       "lstm_classifier"};

class Families : public Files, public testing::WithParamInterface<std::string> {
 protected:
  /// The model by name, as small as its images may be.
  static std::pair<Model, Type> model() {
    Model made = create_model(GetParam(), {.num_classes = 10, .seed = 3});
    const std::int64_t side = GetParam() == "lstm_classifier" ? 28 : 64;
    return {made, {DType::f32, {kBatch, made.in_chans, side, side}}};
  }
};
INSTANTIATE_TEST_SUITE_P(All, Families, testing::ValuesIn(kFamilies), [](const auto& test) { return test.param; });

TEST_P(Families, WrittenReadAndPlannedIsTheSame) {
  const auto [model, type] = this->model();
  const Function traced = of_model(model, type);
  EXPECT_EQ(reread(traced.graph, traced.graph.text()).graph.text(), traced.graph.text());
  write_function(traced, path());
  const Function read = read_function(path());
  EXPECT_EQ(read.graph.text(read.outputs), traced.graph.text(traced.outputs));
  const Model again = model_of(read, "again");
  for (const std::int64_t batch : {1, 3}) {
    Shape shape = type.shape;
    shape[0] = batch;
    const Tensor x = uniform(shape, -1, 1, 7);
    const Tensor want = inference_plan(model, x.type())({x})[0];
    EXPECT_TRUE(identical(inference_plan(again, x.type())({x})[0], want)) << batch;
    EXPECT_TRUE(identical(plan(read.graph, {x.type()}, {.freeze = true})({x})[0], want)) << batch;
    if (batch == 1) {
      EXPECT_EQ(difference({want}, read({x}), 1e-4), "") << "op by op";
    }
  }
}

TEST(Functions, OnePlanOfASymbolIsThatOfEachNumber) {
  const Model model = create_model("resnet18", {.num_classes = 10, .seed = 1});
  const Function function = of_model(model, {DType::f32, {kBatch, 3, 64, 64}});
  Compiled compiled(function.graph, {.freeze = true});
  for (const std::int64_t batch : {1, 2, 7, 32}) {
    const Tensor x = uniform({batch, 3, 64, 64}, -1, 1, 5);
    EXPECT_TRUE(identical(compiled({x})[0], inference_plan(model, x.type())({x})[0])) << batch;
  }
}

TEST(Functions, ImagesMayHaveTheirChannelsLast) {
  const Function plain = trace_function(
      [](const Tensors& in) -> Tensors {
        return {max_pool2d(in[0], {.kernel = {2, 2}, .stride = {2, 2}}), in[1] + in[1]};
      },
      {{"x", {DType::f32, {kBatch, 3, 4, 6}}}, {"y", {DType::f32, {kBatch}}}}, {"a", "b"}, {{"task", "none"}});
  const Function turned = channels_last(plain);
  EXPECT_EQ(turned.input_ports()[0].type.shape, (Shape{kBatch, 4, 6, 3}));
  EXPECT_EQ(turned.input_ports()[1].type.shape, (Shape{kBatch}));
  EXPECT_EQ(turned.metadata.at("task"), "none");
  EXPECT_TRUE(takes_channels_last(turned.metadata));
  EXPECT_FALSE(takes_channels_last(plain.metadata));
  const Tensor x = uniform({2, 3, 4, 6}, -1, 1, 1), y = uniform({2}, -1, 1, 2);
  const Tensors expected = plain({x, y}), found = turned({channels_last(x), y});
  for (int i : {0, 1}) EXPECT_EQ(found[i].values<float>(), expected[i].values<float>());
  EXPECT_EQ(channels_first(channels_last(x)).values<float>(), x.values<float>());
  EXPECT_NE(message_of([&] { channels_last(turned); }).find("already"), std::string::npos);
  const Function of_rows = trace_function([](const Tensors& in) -> Tensors { return {in[0] + in[0]}; },
                                          {{"x", {DType::f32, {kBatch, 4}}}}, {"y"});
  EXPECT_NE(message_of([&] { channels_last(of_rows); }).find("no images"), std::string::npos);
}

TEST(Functions, RecurrentModelsHaveAFreeTimeAxis) {
  const Dim time = Dim::symbol("time");
  for (const std::string& name : recurrent_model_names()) {
    const Model language = create_language_model(name, 11, {.hidden_size = 16, .num_layers = 2, .seed = 1});
    const Function function = of_model(language, {DType::i64, {kBatch, time}});
    EXPECT_EQ(text(function.output_ports()[0].type), "f32(batch,time,11)");
    const Model forecaster = create_forecaster(name, {.mean = {1, 2}, .std = {1, 3}, .target = 1, .horizon = 3},
                                               {.hidden_size = 16, .num_layers = 1, .seed = 1});
    const Function forecast = of_model(forecaster, {DType::f32, {kBatch, time, 2}});
    EXPECT_EQ(text(forecast.output_ports()[0].type), "f32(batch,3)");
    for (const auto& [batch, steps] : std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {2, 9}, {3, 4}}) {
      std::vector<std::int64_t> characters(static_cast<std::size_t>(batch * steps));
      for (std::size_t i = 0; i < characters.size(); ++i) characters[i] = static_cast<std::int64_t>(i * 5 % 11);
      const Tensor x = Tensor::from({batch, steps}, characters), y = uniform({batch, steps, 2}, -1, 1, 3);
      EXPECT_TRUE(identical(plan(function.graph, {x.type()}, {.freeze = true})({x})[0],
                            inference_plan(language, x.type())({x})[0]));
      EXPECT_TRUE(identical(plan(forecast.graph, {y.type()}, {.freeze = true})({y})[0],
                            inference_plan(forecaster, y.type())({y})[0]));
    }
  }
}

TEST(Functions, WhatNeedsANumberSaysSo) {
  const auto needs = [](const std::function<Tensors(Tensors)>& function) {
    return message_of([&] { trace_function(function, {{"x", {DType::f32, {kBatch, 4}}}}, {"y"}); });
  };
  EXPECT_TRUE(contains(needs([](const Tensors& in) -> Tensors {
                         const std::int64_t rows = in[0].size(0);
                         return {reshape(in[0], {rows * 4})};
                       }),
                       "the size batch is not known here"));
  EXPECT_EQ(needs([](const Tensors& in) -> Tensors { return {reshape(in[0], {in[0].size(0) * 4})}; }),
            "nothing was thrown");
  EXPECT_TRUE(contains(needs([](const Tensors& in) -> Tensors { return {slice(in[0], {0}, {3})}; }), "batch"));
}

TEST(Functions, ABranchOnASizeIsAnAssumption) {
  const auto branching = [](const Tensors& in) -> Tensors {
    if (in[0].size(0) == 1) return {in[0] + in[0]};
    return {in[0] * in[0]};
  };
  const Function function = trace_function(branching, {{"x", {DType::f32, {kBatch}}}}, {"y"});
  EXPECT_EQ(function({uniform({3}, 2, 2, 1)})[0].values<double>(), std::vector<double>(3, 4));
  EXPECT_TRUE(contains(message_of([&] { function({uniform({1}, 3, 3, 1)}); }), "batch is not 1"));
  EXPECT_TRUE(contains(message_of([&] { plan(function.graph, {{DType::f32, {1}}}); }), "batch is not 1"));
  const Graph again = reread(function.graph, function.graph.text()).graph;
  EXPECT_TRUE(contains(message_of([&] { call(again, {uniform({1}, 3, 3, 1)}); }), "batch is not 1")) << "read back";
}

TEST(Functions, InputsAreComparedWithTheirTypes) {
  const Function function = trace_function([](const Tensors& in) -> Tensors { return {in[0] + in[1]}; },
                                           {{"a", {DType::f32, {kBatch, 2}}}, {"b", {DType::f32, {kBatch, 2}}}}, {"y"});
  const auto of = [&](const Type& a, const Type& b) {
    return message_of([&] { function({Tensor::full(a, 1), Tensor::full(b, 1)}); });
  };
  EXPECT_TRUE(contains(of({DType::f32, {2, 2}}, {DType::f32, {3, 2}}), "batch"));
  EXPECT_TRUE(contains(of({DType::f32, {2, 3}}, {DType::f32, {2, 3}}), "takes f32(batch,2)"));
  EXPECT_TRUE(contains(of({DType::f64, {2, 2}}, {DType::f32, {2, 2}}), "is f64(2,2), and the function takes f32"));
  EXPECT_TRUE(contains(message_of([&] { function({}); }), "takes 2 inputs, got 0"));
}

// --- control flow

Body body(const Types& in, const std::function<Tensors(Tensors)>& function) {
  std::vector<Function::Port> ports;
  std::vector<std::string> outputs;
  for (std::size_t i = 0; i < in.size(); ++i) ports.push_back({text("x", i), in[i]});
  std::size_t count = 0;
  {
    Trace trace({});
    Tensors inputs;
    for (const Type& type : in) inputs.push_back(trace.input(type));
    count = function(inputs).size();
  }
  for (std::size_t i = 0; i < count; ++i) outputs.push_back(text("y", i));
  return std::make_shared<const Graph>(trace_function(function, ports, outputs).graph);
}

const Type kFlag{DType::boolean, {}}, kCount{DType::i64, {}}, kRow{DType::f32, {3}};
Tensor flag(bool value) { return Tensor::scalar(value, DType::boolean); }
Tensor count(std::int64_t value) { return Tensor::from(Shape{}, std::vector<std::int64_t>{value}); }

TEST(ControlFlow, IfRunsOneBody) {
  const Body twice = body({kRow}, [](const Tensors& in) -> Tensors { return {in[0] + in[0]}; }),
             negative = body({kRow}, [](const Tensors& in) -> Tensors { return {in[0] * -1.0}; });
  const Tensor x = uniform({3}, -1, 1, 1);
  EXPECT_TRUE(identical(if_else(flag(true), twice, negative, {x})[0], x + x));
  EXPECT_TRUE(identical(if_else(flag(false), twice, negative, {x})[0], x * -1.0));

  const Function function = trace_function([&](const Tensors& in) { return if_else(in[0], twice, negative, {in[1]}); },
                                           {{"flag", kFlag}, {"x", kRow}}, {"y"});
  EXPECT_TRUE(identical(function({flag(true), x})[0], x + x));
  EXPECT_EQ(reread(function.graph, function.graph.text()).graph.text(), function.graph.text());
  EXPECT_TRUE(contains(message_of([&] { plan(function.graph, {kFlag, kRow}); }), "known only when it runs"));

  // A condition that is a constant is decided when the plan is made.
  const Plan decided = plan([&](const Tensors& in) { return if_else(flag(false), twice, negative, {in[0]}); }, {kRow});
  EXPECT_TRUE(identical(decided({x})[0], x * -1.0));
}

TEST(ControlFlow, BodiesOfDifferentShapes) {
  const Body whole = body({kRow}, [](const Tensors& in) -> Tensors { return {in[0]}; }),
             part = body({kRow}, [](const Tensors& in) -> Tensors { return {slice(in[0], {0}, {2})}; });
  const Function function = trace_function(
      [&](const Tensors& in) -> Tensors { return {sum(if_else(in[0], whole, part, {in[1]})[0], {0})}; },
      {{"flag", kFlag}, {"x", kRow}}, {"y"});
  const Tensor x = Tensor::from(Shape{3}, std::vector<float>{1, 2, 4});
  EXPECT_EQ(function({flag(true), x})[0].item(), 7);
  EXPECT_EQ(function({flag(false), x})[0].item(), 3);
}

TEST(ControlFlow, LoopIsTheUnrolledGraph) {
  const Tensor weight = uniform({3}, 0.5, 1.5, 4);
  // x = relu(x * weight + turn), while the sum of x is below a limit; each x is kept.
  const Body step = body({kCount, kFlag, kRow, kRow, Type{DType::f32, {}}}, [](const Tensors& in) -> Tensors {
    const Tensor x = relu(in[2] * in[3] + 1.0);
    return {less(sum(x, {}), in[4]), x, x * 2.0};
  });
  const Tensor x = uniform({3}, 0, 1, 5), limit = Tensor::scalar(30);
  const Tensors out = loop(count(100), flag(true), {x}, step, {weight, limit});
  ASSERT_EQ(out.size(), 2u);
  Tensor want = x;
  std::int64_t turns = 0;
  for (bool go_on = true; go_on && turns < 100; ++turns) {
    want = relu(want * weight + 1.0);
    go_on = sum(want, {}).item() < 30;
    EXPECT_TRUE(identical(reshape(slice(out[1], {turns}, {turns + 1}), {3}), want * 2.0)) << turns;
  }
  EXPECT_TRUE(identical(out[0], want));
  EXPECT_EQ(out[1].size(0), turns);
  EXPECT_GT(turns, 2);

  const Function function = trace_function(
      [&](const Tensors& in) { return loop(count(4), in[0], {in[1]}, step, {weight, limit}); },
      {{"flag", kFlag}, {"x", kRow}}, {"last", "all"});
  EXPECT_TRUE(contains(text(function.output_ports()[1].type), "unknown."));
  const Tensors again = call(reread(function.graph, function.graph.text()).graph, {flag(true), x});
  EXPECT_TRUE(identical(again[0], function({flag(true), x})[0]));
  EXPECT_EQ(function({flag(false), x})[1].shape(), (Shape{0, 3}));

  // A count that is known makes the turns parts of the plan.
  const Body steady = body({kCount, kFlag, kRow, kRow},
                           [](const Tensors& in) -> Tensors { return {in[1], in[2] * in[3] + 0.5}; });
  const auto unrolled = [&](const Tensors& in) -> Tensors {
    Tensor y = in[0];
    for (int i = 0; i < 5; ++i) y = y * weight + 0.5;
    return {y};
  };
  const Plan looped = plan([&](const Tensors& in) { return loop(count(5), flag(true), {in[0]}, steady, {weight}); },
                           {kRow});
  EXPECT_TRUE(identical(looped({x})[0], plan(unrolled, {kRow})({x})[0]));
}

// What is decided when a plan is made has the shapes of what runs, and its weights are those of the plan.
TEST(ControlFlow, DecidedBodiesArePartsOfAPlan) {
  const Tensor weight = Tensor::from(Shape{3}, std::vector<float>{1, 2, 4});
  const Body whole = body({kRow}, [&](const Tensors& in) -> Tensors { return {in[0] * weight}; }),
             part = body({kRow}, [](const Tensors& in) -> Tensors { return {slice(in[0], {0}, {2})}; });
  const auto chosen = [&](bool first) {
    return plan(
        [&](const Tensors& in) -> Tensors {
          const Tensor y = if_else(flag(first), whole, part, {in[0]})[0];
          return {reshape(y + 1.0, {y.size(0), 1})};
        },
        {kRow}, {.freeze = true});
  };
  const Tensor x = Tensor::full(kRow, 1);
  const Plan first = chosen(true), second = chosen(false);
  EXPECT_EQ(first({x})[0].values<double>(), (std::vector<double>{2, 3, 5}));
  EXPECT_EQ(second({x})[0].values<double>(), (std::vector<double>{2, 2}));
  const std::vector<float> others{0, 0, 0};
  weight.write(others.data());
  EXPECT_EQ(first({x})[0].values<double>(), (std::vector<double>{2, 3, 5})) << "weights of a body are frozen too";

  const Body kept = body({kCount, kFlag, kRow},
                         [](const Tensors& in) -> Tensors { return {in[1], in[2] * 2.0, in[2]}; });
  const Plan looped = plan([&](const Tensors& in) { return loop(count(3), flag(true), {in[0]}, kept); }, {kRow});
  const Tensors out = looped({x});
  EXPECT_EQ(out[0].values<double>(), (std::vector<double>{8, 8, 8}));
  EXPECT_EQ(out[1].values<double>(), (std::vector<double>{1, 1, 1, 2, 2, 2, 4, 4, 4}));

  // Read op by op, a size that follows from data is known to the ops after it.
  const Function function = trace_function(
      [&](const Tensors& in) -> Tensors {
        const Tensor y = if_else(in[0], whole, part, {in[1]})[0];
        return {reshape(y, {y.size(0), 1})};
      },
      {{"flag", kFlag}, {"x", kRow}}, {"y"});
  EXPECT_EQ(function({flag(false), x})[0].shape(), (Shape{2, 1}));
  EXPECT_EQ(function({flag(true), x})[0].shape(), (Shape{3, 1}));
}

// All states become what they are to become at once.
TEST(Functions, CommitsReadTheOldValues) {
  const Tensor now = Tensor::full(kRow, 1), before = Tensor::full(kRow, 0);
  const auto step = [&](const Tensors& in) -> Tensors {
    const Tensor y = now + in[0];
    before.assign(now);
    now.assign(in[0]);
    return {y};
  };
  const Function function = trace_function(step, {{"x", kRow}}, {"y"});
  EXPECT_EQ(reread(function.graph, function.graph.text()).graph.text(), function.graph.text());
  const auto expect = [&](double old, double recent) {
    EXPECT_EQ(before.values<double>(), std::vector<double>(3, old));
    EXPECT_EQ(now.values<double>(), std::vector<double>(3, recent));
  };
  function({Tensor::full(kRow, 2)});
  expect(1, 2);
  call(reread(function.graph, function.graph.text()).graph, {Tensor::full(kRow, 3)});
  expect(2, 3);
  plan(function.graph, {kRow})({Tensor::full(kRow, 4)});
  expect(3, 4);
  plan(step, {kRow})({Tensor::full(kRow, 5)});
  expect(4, 5);
}

TEST(ControlFlow, BodiesThatDoNotFitAreRefused) {
  const Body one = body({kRow}, [](const Tensors& in) -> Tensors { return {in[0]}; }),
             two = body({kRow}, [](const Tensors& in) -> Tensors { return {in[0], in[0]}; });
  const auto traced = [&](const std::function<Tensors(Tensors)>& function) {
    return message_of([&] { trace_function(function, {{"flag", kFlag}, {"x", kRow}}, {"y"}); });
  };
  EXPECT_TRUE(
      contains(traced([&](const Tensors& in) { return if_else(in[0], one, two, {in[1]}); }), "one body gives 1"));
  EXPECT_TRUE(
      contains(traced([&](const Tensors& in) { return if_else(in[1], one, one, {in[1]}); }), "the condition is"));
  EXPECT_TRUE(contains(traced([&](const Tensors& in) { return loop(count(1), in[0], {in[1]}, one); }), "inputs"));
  const Body condition = body({kCount, kFlag, kRow}, [](const Tensors& in) -> Tensors { return {in[1]}; });
  const Tensor x = uniform({3}, 0, 1, 1);
  EXPECT_TRUE(contains(message_of([&] { loop(count(1), flag(true), {x}, condition); }), "the body gives 1 values"));
  EXPECT_TRUE(contains(message_of([&] { loop(count(1), flag(true), {x}, one); }), "takes 1 inputs, got 3"));
}

// --- text and files

TEST(GraphText, NamesOfAnyKindReadBack) {
  const Tensor weight = uniform({3}, 0, 1, 1), other = uniform({3}, 0, 1, 2), third = uniform({3}, 0, 1, 3);
  weight.set_name("a \"b\", c) = d\\");
  other.set_name("%0");
  third.set_name("$x");
  const Function function = trace_function(
      [&](const Tensors& in) -> Tensors { return {in[0] * weight + other + third + 2.5}; }, {{"x y\n", kRow}},
      {"out put"});
  const std::string written = function.graph.text(function.outputs);
  const ParsedGraph again = reread(function.graph, written);
  EXPECT_EQ(again.graph.text(again.outputs), written);
  const Tensor x = uniform({3}, -1, 1, 9);
  EXPECT_TRUE(identical(call(again.graph, {x})[0], function({x})[0]));
}

TEST_F(Files, AFunctionInATraceKeepsItsText) {
  const Function function = trace_function(
      [](const Tensors& in) -> Tensors {
        const Tensor rest = slice(in[0], {1}, {std::numeric_limits<std::int64_t>::max()}, {0});  // to the end
        return {rest * Tensor::from({1}, std::vector<float>{2})};
      },
      {{"x", kRow}}, {"y"});
  write_function(function, path());
  const Function read = read_function(path());
  const Function again = trace_function([&](const Tensors& in) { return read(in); }, {{"x", kRow}}, {"y"});
  EXPECT_EQ(again.graph.text(again.outputs), function.graph.text(function.outputs));
}

TEST(GraphText, FaultsNameTheirLine) {
  const auto parse = [](const std::string& text) {
    parse_graph(text, [](const std::string&, const Type& type) { return Tensor::full(type, 1); });
  };
  const std::string head = "input x f32(2,3)\nparameter w f32(3)\n";
  EXPECT_NO_THROW(parse(head + "%0 f32(2,3) = mul($x, w)\noutput y = %0\n"));
  for (const auto& [line, what] : std::vector<std::pair<std::string, std::string>>{
           {"%0 f32(2,3) = mull($x, w)", "there is no op 'mull'"},
           {"%0 f32(2,4) = mul($x, w)", "mul gives f32(2,3), not f32(2,4)"},
           {"%0 f32(2,3) = mul($x, v)", "there is no value v before this line"},
           {"%0 f32(2,3) = mul($x)", "takes 2 inputs"},
           {"%0 f32(2,3) = mul($x, w", "there is no ')'"},
           {"%0 f32(2,3), %1 f32(2,3) = mul($x, w)", "has 1 results, not 2"},
           {"%0 f32(2) = sum($x) {axes=[1] keepdim=true}", "there is no attribute 'keepdim'"},
           {"%0 f32(2) = sum($x) {axes=[one]}", "axes cannot be 'one'"},
           {"%0 f32(2,3) = relu($x)\n%0 f32(2,3) = relu($x)", "there is a value %0 already"},
           {"%0 f32(2,3) = if(w)", "there is no body"},
           {"%0 f32(1) = loop() {carried=-2}\nbody\nend", "carried values"},
           {"%0 f32(1) = loop($x, w) {carried=9223372036854775806}\nbody\nend", "carried values"},
           {"input z f32((a+b)*(c+d)*(e+f)*(g+h)*(i+j)*(k+l)*(m+n)*(o+p))", "terms"},
           {"input z f32(4000000000*4000000000)", "63 bits"},
           {"constant c f32(3)\ncommit c = w", "no parameter and no state"},
           {"what", "'what' begins no line"},
           {"end", "there is no body to end"},
           {"input z f32(2,-3)", "below 0"},
           {"input z f99(2)", "is no type"},
           {"input z f32(9223372036854775807,4)", "line 3"},
           {"commit $x = w", "no parameter and no state"},
           {"unequal batch 4*", "no expression"}}) {
    const std::string said = message_of([&] { parse(head + line); });
    EXPECT_TRUE(contains(said, what) && contains(said, "graph: line ")) << line << ": " << said;
  }
}

TEST_F(Files, DamageAndOtherFilesAreRefused) {
  const Function function = trace_function([](const Tensors& in) -> Tensors { return {in[0] * 2.0}; }, {{"x", kRow}},
                                           {"y"});
  const auto refused = [&] {
    try {
      read_function(path());
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::data);
      EXPECT_TRUE(contains(error.what(), path().string())) << error.what();
      return std::string(error.what());
    }
    return std::string("the file was accepted");
  };
  const auto with = [&](const Metadata& metadata, const std::vector<std::pair<std::string, Tensor>>& tensors) {
    write_safetensors(path(), tensors, metadata);
    return refused();
  };
  const std::string graph = function.graph.text({"y"});
  const auto stored = stored_tensors(function.graph);
  EXPECT_EQ(with({{"neurim_function", "1"}, {"graph", graph}}, stored), "the file was accepted");
  EXPECT_TRUE(contains(with({{"graph", graph}}, stored), "is no function file"));
  EXPECT_TRUE(contains(with({{"neurim_function", "2"}, {"graph", graph}}, stored), "format 2, this version reads 1"));
  EXPECT_TRUE(contains(with({{"neurim_function", "1"}}, stored), "no 'graph'"));
  EXPECT_TRUE(contains(with({{"neurim_function", "1"}, {"graph", graph}}, {}), "no tensor"));
  auto more = stored;
  more.emplace_back("unread", Tensor::scalar(1));
  EXPECT_TRUE(contains(with({{"neurim_function", "1"}, {"graph", graph}}, more), "no line reads the tensor 'unread'"));
  write_function(function, path());
  std::string bytes = read_text(path());
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(path(), bytes);
  EXPECT_NE(refused(), "the file was accepted") << "another byte of data";
}

// Whatever bytes of a graph's text are others, it is a graph or an error that names a line.
TEST(GraphText, DamageIsRefusedOrRead) {
  const Model model = create_model("lenet5", {.seed = 1});
  const Body one = body({kRow}, [](const Tensors& in) -> Tensors { return {in[0] * 2.0}; });
  for (const Function& function : {of_model(model, {DType::f32, {kBatch, 1, 28, 28}}),
                                   trace_function([&](const Tensors& in) { return if_else(in[0], one, one, {in[1]}); },
                                                  {{"flag", kFlag}, {"x", kRow}}, {"y"})}) {
    std::map<std::string, Tensor> stored;
    for (const auto& [name, tensor] : stored_tensors(function.graph)) stored[name] = tensor;
    const std::string whole = function.graph.text(function.outputs);
    Random random(7, 1);
    int read = 0;
    for (int i = 0; i < 3000; ++i) {
      std::string text = whole;
      for (int change = 0; change <= i % 3; ++change) {
        const auto at = static_cast<std::size_t>(random.uniform(0, static_cast<double>(text.size())));
        const auto length = static_cast<std::size_t>(random.uniform(0, 9));
        const auto from = static_cast<std::size_t>(random.uniform(0, static_cast<double>(whole.size())));
        if (i % 2 == 0)
          text[at] = whole[from];
        else
          text.replace(at, length, whole.substr(from, static_cast<std::size_t>(random.uniform(0, 30))));
      }
      const std::string said = message_of([&] {
        parse_graph(text, [&](const std::string& name, const Type&) {
          require(stored.count(name) > 0, "no tensor ", name);
          return stored.at(name);
        });
      });
      if (said == "nothing was thrown")
        ++read;
      else
        EXPECT_TRUE(contains(said, "graph: line ")) << said;
    }
    EXPECT_GT(read, 0);
  }
}

TEST_F(Files, ParametersAndStatesStayWhatTheyAre) {
  const Model model = create_model("resnet18", {.num_classes = 3, .seed = 1});
  const Function function = of_model(model, {DType::f32, {kBatch, 3, 64, 64}});
  write_function(function, path());
  const Model again = model_of(read_function(path()), "again");
  EXPECT_EQ(parameter_count(again), parameter_count(model));
  std::map<std::string, Role> roles;
  for (const Parameter& each : named_parameters(again)) roles[each.name] = each.role;
  for (const Parameter& each : named_parameters(model)) EXPECT_EQ(roles.at(each.name), each.role) << each.name;
  EXPECT_EQ(again.num_classes, 3);
  const LoadReport report = load_model(again, path());
  EXPECT_EQ(report.taken, report.all);
}

// --- one set of weights

/// The bytes of what the plans have as constants, and how many of these are there twice: the same data under one name.
std::pair<std::size_t, std::size_t> constants_of(const std::vector<Plan>& plans) {
  std::map<const Storage*, std::size_t> all;
  std::set<std::string> contents;
  std::size_t sum = 0, twice = 0;
  for (const Plan& each : plans)
    for (const Tensor& tensor : each.constants()) {
      const Storage& storage = *tensor.value()->storage;
      if (!all.emplace(&storage, storage.bytes()).second) continue;
      sum += storage.bytes();
      const std::string content = text(tensor.name(), tensor.type(), tensor.value()->layout) +
                                  std::string(static_cast<const char*>(storage.data()), storage.bytes());
      if (!contents.insert(content).second) twice += storage.bytes();
    }
  return {sum, twice};
}

TEST(SharedWeights, FourBatchSizesTakeTheMemoryOfOne) {
  for (const char* name : {"efficientnet_b0", "resnet18"}) {
    const Model model = create_model(name, {.num_classes = 10, .seed = 1});
    std::vector<Plan> plans;
    std::size_t one = 0;
    for (const std::int64_t batch : {1, 2, 7, 32}) {
      plans.push_back(inference_plan(model, {DType::f32, {batch, 3, 64, 64}}));
      if (one == 0) one = constants_of(plans).first;
    }
    const auto [all, twice] = constants_of(plans);
    EXPECT_LE(static_cast<double>(twice), 0.01 * static_cast<double>(one)) << name;
    // Kernels of resnet18 differ with the batch here, and with them the layouts of weights.
    if (std::string_view(name) == "efficientnet_b0") {
      EXPECT_LE(static_cast<double>(all), 1.1 * static_cast<double>(one)) << one << " of one, " << all << " of four";
    }
  }
}

TEST(SharedWeights, AFrozenPlanKeepsTheDataOfItsTime) {
  const Tensor weight = Tensor::from(Shape{3}, std::vector<float>{1, 2, 3});
  const auto scaled = [&](const Tensors& in) -> Tensors { return {in[0] * weight}; };
  const Tensor x = Tensor::full(kRow, 1);
  const Plan frozen = plan(scaled, {kRow}, {.freeze = true}), following = plan(scaled, {kRow});
  const Storage* const before = weight.value()->storage.get();
  const std::vector<float> others{4, 5, 6};
  weight.write(others.data());
  EXPECT_EQ(frozen({x})[0].values<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(following({x})[0].values<float>(), others);
  EXPECT_NE(weight.value()->storage.get(), before) << "the plan has the old data";
  // The same of a step of training.
  const Plan frozen_again = plan(scaled, {kRow}, {.freeze = true});
  const Plan step = plan(
      [&](const Tensors& in) -> Tensors {
        weight.assign(weight + in[0]);
        return {in[0]};
      },
      {kRow}, {.training = true});
  for (int i = 0; i < 3; ++i) step({x});
  EXPECT_EQ(weight.values<float>(), (std::vector<float>{7, 8, 9}));
  EXPECT_EQ(frozen_again({x})[0].values<float>(), others);
  EXPECT_EQ(following({x})[0].values<float>(), (std::vector<float>{7, 8, 9}));
  EXPECT_EQ(plan(scaled, {kRow}, {.freeze = true})({x})[0].values<float>(), (std::vector<float>{7, 8, 9}));
}

// What was made of data is not what is made of the data that came to their place.
TEST(SharedWeights, ChangedWeightsAreMadeAnew) {
  const Model model = create_model("resnet18", {.num_classes = 10, .seed = 1});
  const Tensor x = uniform({1, 3, 64, 64}, -1, 1, 5);
  const Plan first = inference_plan(model, x.type());
  const Tensor before = first({x})[0];
  for (int round = 0; round < 3; ++round) {
    for (const Parameter& each : named_parameters(model))
      if (each.role == Role::weight) each.tensor.assign(each.tensor * 0.9);
    const Tensor now = inference_plan(model, x.type())({x})[0];
    EXPECT_FALSE(identical(now, before));
    EXPECT_EQ(
        difference({plan([&](const Tensors& in) { return Tensors{model(in[0])}; }, {x.type()})({x})[0]}, {now}, 1e-3),
        "");
  }
  EXPECT_TRUE(identical(first({x})[0], before));
}

int threads_of_process() {
  int count = 0;
  for (const auto& each : fs::directory_iterator("/proc/self/task")) count += each.path().filename().empty() ? 0 : 1;
  return count;
}

/// Calls one compiled function from 8 threads with mixed shapes.
void call_from_threads(int calls) {
  const Tensor weight = uniform({32, 16}, -1, 1, 1);
  Compiled compiled([&](const Tensors& in) -> Tensors { return {relu(sum(in[0] * weight, {1})) + 1.0}; },
                    {.freeze = true}, 3);
  std::vector<Tensor> inputs, want;
  for (int i = 0; i < 5; ++i) {  // more shapes than plans that are kept
    inputs.push_back(uniform({i + 1, 32, 16}, -1, 1, 10 + static_cast<std::uint64_t>(i)));
    want.push_back(relu(sum(inputs.back() * weight, {1})) + 1.0);
  }
  std::atomic<int> wrong{0}, most{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller)
    callers.emplace_back([&, caller] {
      for (int i = 0; i < calls; ++i) {
        const auto which = static_cast<std::size_t>((i / 40 + caller) % 5);
        wrong += difference({want[which]}, compiled({inputs[which]}), 1e-5).empty() ? 0 : 1;
        if (i % 100 == 0) most = std::max<int>(most, threads_of_process());
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(compiled.size(), 3u);
  EXPECT_LE(most, threads() + 8 + 2);
}

TEST(CompiledFunctions, AreSafeFromManyThreads) { call_from_threads(400); }
TEST(CompiledFunctions, AreSafeFromManyThreadsSlow) { call_from_threads(10'000); }

TEST(CompiledFunctions, KeepThePlansUsedLast) {
  int traced = 0;
  Compiled compiled(
      [&](const Tensors& in) -> Tensors {
        ++traced;
        return {in[0] + 1.0};
      },
      {}, 2);
  const auto call = [&](std::int64_t size) { compiled({Tensor::full({DType::f32, {size}}, 1)}); };
  call(1), call(2), call(1), call(3), call(1);  // 2 is the one that was not used for the longest time
  EXPECT_EQ(traced, 3);
  call(2);
  EXPECT_EQ(traced, 4);
  EXPECT_EQ(compiled.size(), 2u);
}

}  // namespace
}  // namespace neurim
