// What the op table does not ask of the CPU kernels: fusion groups, blocked layouts with a tail, large shapes, and
// results that do not depend on the cut into parts.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/core/device.h"
#include "neurim/graph/kernel.h"
#include "neurim/graph/trace.h"
#include "neurim/hardware/isa.h"
#include "neurim/ops/adam_step.h"
#include "neurim/ops/all_finite.h"
#include "neurim/ops/argmax.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/cross_entropy.h"
#include "neurim/ops/dropout.h"
#include "neurim/ops/gelu.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/random_uniform.h"
#include "neurim/ops/reduce_max.h"
#include "neurim/ops/reduce_min.h"
#include "neurim/ops/sgd_step.h"
#include "neurim/ops/sum.h"
#include "tests/ask_group.h"
#include "tests/op_table.h"

namespace neurim {
namespace {

using namespace op_table;

constexpr Layout kPlain{}, kBlocked{Layout::blocked, 16}, kLast{Layout::channels_last},
    kImages{Layout::batch_blocked, 16};

Tensor uniform(const Shape& shape, std::uint64_t seed, double low = -2, double high = 2, DType dtype = DType::f32) {
  Random random(seed);
  return from_doubles({dtype, shape}, numbers({dtype, shape}, {low, high}, random));
}

/// A group of ops on values: first the inputs, then the outputs of each node.
struct Group {
  struct Node {
    std::shared_ptr<const Op> op;
    std::vector<int> in, out;
  };
  Tensors inputs;
  std::vector<Node> nodes;
  std::vector<int> results;  ///< values that are outputs

  /// Adds a node with one output, or more; the result is the first.
  int add(std::shared_ptr<const Op> op, std::vector<int> in, int outputs = 1) {
    const int first = nodes.empty() ? static_cast<int>(inputs.size()) : nodes.back().out.back() + 1;
    nodes.push_back({std::move(op), std::move(in), {}});
    for (int i = 0; i < outputs; ++i) nodes.back().out.push_back(first + i);
    return first;
  }

  /// The results of the reference kernels on f64.
  Tensors expected() const {
    Tensors values;
    for (const Tensor& input : inputs) {
      const bool floating = is_floating(input.dtype());
      values.push_back(floating ? from_doubles({DType::f64, input.shape()}, input.values<double>()) : input);
    }
    for (const Node& node : nodes)
      for (const Tensor& made : neurim::apply(node.op, selected(values, node.in))) values.push_back(made);
    return selected(values, results);
  }

  /// The results of the CPU kernel whose full inputs come in `layout`; outputs are checked to be zero beyond
  /// the channels. Nothing when it declines, with the reason in `why`.
  Tensors computed(const Layout& layout, int chunks, std::string* why = nullptr) const {
    std::vector<TensorDesc> descs;
    for (const Tensor& input : inputs) descs.push_back({input.type(), input.rank() == 4 ? layout : kPlain});
    std::vector<Step> steps;
    std::vector<int> in = nodes[0].in;  // one op sees its operands as they are
    if (nodes.size() > 1) {
      in.resize(inputs.size());
      std::iota(in.begin(), in.end(), 0);
    }
    for (const Node& node : nodes) {
      Types types;
      for (const int i : node.in) types.push_back(descs[i].type);
      steps.push_back({node.op.get(), node.in, node.out});
      for (const Type& type : node.op->infer(types)) descs.push_back({type, {}});
    }
    KernelRequest request{.steps = steps, .values = descs, .in = in, .out = results, .chunks = chunks};
    for (const Kernel& kernel : kernels(nodes[0].op->name(), 0)) {
      if (kernel.name != "cpu" || (kernel.propose_layouts && !kernel.propose_layouts(request))) continue;
      if (const Launch launch = kernel.prepare(request)) return run(launch, request, descs);
    }
    if (why) *why = request.why;
    return {};
  }

 private:
  static Tensors selected(const Tensors& values, const std::vector<int>& which) {
    Tensors chosen;
    for (const int i : which) chosen.push_back(values[i]);
    return chosen;
  }

  Tensors run(const Launch& launch, const KernelRequest& request, const std::vector<TensorDesc>& descs) const {
    std::deque<std::vector<std::byte>> memory;
    std::vector<void*> pointers;
    for (const int value : request.in) {
      const TensorDesc& desc = descs[value];
      std::vector<std::byte> row_major(bytes(desc.type));
      inputs[value].read(row_major.data());
      memory.emplace_back(bytes(desc.type, desc.layout));
      pack(desc.type, desc.layout, row_major.data(), memory.back().data());
      pointers.push_back(memory.back().data());
    }
    for (const int value : request.out) {
      const TensorDesc& desc = descs[value];
      memory.emplace_back(bytes(desc.type, desc.layout), std::byte{0xff});
      pointers.push_back(memory.back().data());
    }
    std::vector<std::byte> scratch(request.scratch);
    pointers.push_back(scratch.data());
    std::vector<std::byte> own(launch.workspace_bytes());
    pointers.push_back(own.data());
    std::uint32_t status = 0;
    const Call call{launch,
                    0,
                    static_cast<std::uint16_t>(request.in.size()),
                    static_cast<std::uint16_t>(request.out.size()),
                    false,
                    launch.workspace_step()};
    default_stream({}).run({&call, 1}, pointers.data(), &status);
    EXPECT_EQ(status, 0u);
    Tensors out;
    for (std::size_t i = 0; i < request.out.size(); ++i) {
      const TensorDesc& desc = descs[request.out[i]];
      const std::vector<std::byte>& block = memory[request.in.size() + i];
      std::vector<std::byte> row_major(bytes(desc.type)), again(block.size());
      unpack(desc.type, desc.layout, block.data(), row_major.data());
      pack(desc.type, desc.layout, row_major.data(), again.data());
      EXPECT_TRUE(block == again) << "output " << i << " is not zero beyond the channels";
      out.push_back(Tensor::from(desc.type, row_major.data()));
    }
    return out;
  }
};

void expect_agreement(const Group& group, const Layout& layout, double tolerance, const std::string& where) {
  std::string why;
  const Tensors once = group.computed(layout, 1, &why);
  ASSERT_FALSE(once.empty()) << where << ": declined: " << why;
  EXPECT_EQ(difference(group.expected(), once, tolerance), "") << where;
  for (const int chunks : {2, 7})
    EXPECT_EQ(difference(once, group.computed(layout, chunks), 0), "") << where << ": chunks " << chunks;
}

/// conv-like epilogue: sigmoid(x * scale + shift + residual), clamped; every operand pattern that a model
/// has.
Group epilogue(const Shape& shape) {
  const std::int64_t n = shape[0], c = shape[1], h = shape[2], w = shape[3];
  Group group;
  group.inputs = {uniform(shape, 1), uniform({c, 1, 1}, 2),    uniform({1, c, 1, 1}, 3),
                  uniform(shape, 4), uniform({n, c, 1, 1}, 5), uniform({n, 1, h, w}, 6),
                  uniform({w}, 7),   uniform({}, 8),           uniform({1, c, h, w}, 9)};
  const auto step = [&](std::string_view op, std::vector<int> in) { return group.add(make_op(op), std::move(in)); };
  int y = step("mul", {0, 1});
  y = step("add", {y, 2});
  const int kept = y = step("add", {3, y});
  y = step("mul", {y, 4});
  y = step("add", {y, 5});
  y = step("sub", {y, 6});
  y = step("add", {y, 7});
  y = step("sub", {8, y});
  y = step("sigmoid", {y});
  y = group.add(std::make_shared<Clamp>(0.1, 0.9), {y});
  group.results = {kept, y};
  return group;
}

TEST(CpuPointwise, ChainsTakeEveryOperandInEveryLayout) {
  for (const Shape& shape :
       {Shape{2, 32, 5, 7}, {2, 37, 9, 11}, {3, 5, 1, 1}, {1, 16, 1, 40}, {2, 3, 33, 35}, {3, 20, 4, 1}, {32, 5, 3, 4}})
    for (const Layout& layout : {kPlain, kBlocked, kLast, kImages})
      expect_agreement(epilogue(shape), layout, 2e-6, text(shape, ' ', layout));
}

TEST(CpuPointwise, ChainsMixTruthValuesAndNumbers) {
  Group group;
  const Shape shape{2, 19, 6, 5};
  group.inputs = {uniform(shape, 1), uniform({19, 1, 1}, 2), uniform(shape, 3, 0, 2, DType::boolean),
                  uniform({1, 19, 1, 1}, 4, 0, 2, DType::boolean)};
  const int less = group.add(make_op("less"), {0, 1});
  const int both = group.add(make_op("logical_or"), {less, 2});
  const int neither = group.add(make_op("logical_not"), {both});
  const int any = group.add(make_op("logical_or"), {neither, 3});
  const int root = group.add(make_op("exp"), {0});
  const int chosen = group.add(make_op("where"), {any, root, 0});
  group.results = {any, chosen};
  for (const Layout& layout : {kPlain, kBlocked, kLast, kImages}) expect_agreement(group, layout, 1e-6, text(layout));
}

TEST(CpuPointwise, DeclinesWithAReason) {
  Group group;
  group.inputs = {uniform({4, 5}, 1, 0, 9, DType::i64), uniform({4, 5}, 2, 0, 9, DType::i64)};
  group.results = {group.add(make_op("add"), {0, 1})};
  std::string why;
  EXPECT_TRUE(group.computed(kPlain, 1, &why).empty());
  EXPECT_EQ(why, "takes f32, bool, u8 and i8, not i64");
}

/// Each function over its whole range, element by element within a few units in the last place.
TEST(CpuPointwise, FunctionsAreAccurateEverywhere) {
  struct Row {
    std::shared_ptr<const Op> op;
    double low, high;
  };
  constexpr int kCount = 100000;
  for (const Row& row : {Row{make_op("exp"), -87, 88.5},
                         {make_op("exp"), -1, 1},
                         {make_op("log"), 1e-6, 10},
                         {make_op("log"), 1, 1e30},
                         {make_op("tanh"), -12, 12},
                         {make_op("tanh"), -0.01, 0.01},
                         {make_op("sigmoid"), -80, 80},
                         {make_op("erf"), -5, 5},
                         {make_op("erf"), -1e-3, 1e-3},
                         {make_op("elu"), -20, 1},
                         {make_op("elu"), -1e-3, 0},
                         {make_op("softplus"), -60, 60},
                         {make_op("silu"), -30, 30},
                         {std::make_shared<Gelu>("tanh"), -2, 4}}) {
    Group group;
    std::vector<float> x(kCount);
    for (int i = 0; i < kCount; ++i) x[i] = static_cast<float>(row.low + (row.high - row.low) * i / (kCount - 1));
    group.inputs = {Tensor::from({kCount}, std::span<const float>(x))};
    group.results = {group.add(row.op, {0})};
    const auto want = group.expected()[0].values<double>(), got = group.computed(kPlain, 1)[0].values<double>();
    double worst = 0;
    for (std::size_t i = 0; i < want.size(); ++i)
      if (std::abs(want[i]) > 1e-37) worst = std::max(worst, std::abs(got[i] - want[i]) / std::abs(want[i]));
    EXPECT_LT(worst * 0x1p24, 8) << row.op->name() << " in [" << row.low << ", " << row.high << ']';
  }
}

TEST(CpuPointwise, EndsOfTheRange) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* op :
       {"exp", "log", "tanh", "sigmoid", "erf", "elu", "softplus", "relu", "abs", "sign", "floor", "sqrt", "clamp"}) {
    Group group;
    group.inputs = {
        Tensor::from({10}, std::vector<float>{inf, -inf, nan, 0.f, -0.f, 100.f, -100.f, 1e30f, -1e30f, 1e-30f})};
    group.results = {group.add(make_op(op), {0})};
    const auto want = group.expected()[0].values<float>(), got = group.computed(kPlain, 1)[0].values<float>();
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE((std::isnan(want[i]) && std::isnan(got[i])) || want[i] == got[i] ||
                  std::abs(want[i] - got[i]) <= 1e-6f * std::abs(want[i]) + 1e-37f)
          << op << " element " << i << " is " << got[i] << " instead of " << want[i];
  }
}

/// The op that a call records.
template <class Call>
std::shared_ptr<const Op> op_of(const Type& type, Call call) {
  Trace trace({});
  return producer(call(trace.input(type)))->op;
}

TEST(CpuReduce, AllAxesInEveryLayout) {
  using Reduce = Tensor (*)(const Tensor&, std::vector<std::int64_t>, bool);
  for (const Shape& shape :
       {Shape{3, 37, 9, 11}, {2, 16, 13, 1}, {2, 5, 30, 30}, {4, 130, 1, 1}, {1, 1, 1, 7}, {16, 6, 5, 4}})
    for (const std::vector<std::int64_t>& axes : std::vector<std::vector<std::int64_t>>{
             {}, {0}, {1}, {2}, {3}, {0, 1}, {2, 3}, {1, 3}, {0, 2}, {0, 2, 3}, {1, 2, 3}, {0, 1, 2}})
      for (const Reduce reduce : {Reduce(sum), Reduce(mean), Reduce(reduce_max), Reduce(reduce_min)})
        for (const Layout& layout : {kPlain, kBlocked, kLast, kImages}) {
          Group group;
          group.inputs = {uniform(shape, 1, 1, 2)};  // above the padding's zeros, which a minimum must not see
          const auto op = op_of(group.inputs[0].type(), [&](const Tensor& x) { return reduce(x, axes, false); });
          group.results = {group.add(op, {0})};
          expect_agreement(group, layout, 1e-6, text(op->name(), attributes(*op), ' ', shape, ' ', layout));
        }
}

TEST(CpuReduce, ManyElementsKeepTheirDigits) {
  for (const auto& [shape, axes] : std::vector<std::pair<Shape, std::vector<std::int64_t>>>{
           {{1000000}, {}}, {{20000, 48}, {0}}, {{48, 20000}, {1}}}) {
    Group group;
    group.inputs = {uniform(shape, 1, 0, 1)};
    group.results = {
        group.add(op_of(group.inputs[0].type(), [&, &over = axes](const Tensor& x) { return sum(x, over); }), {0})};
    expect_agreement(group, kPlain, 2e-7, text(shape));
  }
}

TEST(CpuReduce, NotANumberWins) {
  Group group;
  std::vector<float> x(200, 1.f);
  x[130] = std::numeric_limits<float>::quiet_NaN();
  group.inputs = {Tensor::from({2, 100}, std::span<const float>(x))};
  for (const auto reduce : {reduce_max, reduce_min}) {
    group.nodes.clear();
    group.results = {
        group.add(op_of(group.inputs[0].type(), [&](const Tensor& t) { return reduce(t, {-1}, false); }), {0})};
    const auto y = group.computed(kPlain, 1)[0].values<float>();
    EXPECT_EQ(y[0], 1.f);
    EXPECT_TRUE(std::isnan(y[1]));
  }
  group.nodes.clear();
  group.results = {group.add(std::make_shared<Argmax>(-1), {0})};
  EXPECT_EQ(group.computed(kPlain, 1)[0].values<std::int64_t>(), (std::vector<std::int64_t>{0, 30}));
}

/// Several tiles of rows and ranges of the depth, with tails, and either operand turned.
TEST(CpuMatmul, TilesAndTails) {
  for (const auto& [m, k, n] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{1, 3, 5},
                                {37, 600, 50},
                                {450, 1100, 33},
                                {260, 70, 208},
                                {900, 16, 16}})
    for (const bool a : {false, true})
      for (const bool b : {false, true}) {
        op_table::FusionGroup group;
        auto op = std::make_shared<Matmul>();
        op->transpose_a = a, op->transpose_b = b;
        const int x = group.input(op_table::uniform(a ? Shape{k, m} : Shape{m, k}, -1, 1, 1)),
                  y = group.input(op_table::uniform(b ? Shape{n, k} : Shape{k, n}, -1, 1, 2));
        const std::vector<int> out = group.then(op, {x, y});
        const Tensors expected = group.expected(out), got = group.run({}, 1, out, nullptr, "cpu matmul");
        ASSERT_FALSE(got.empty());
        EXPECT_EQ(op_table::difference(expected, got, 1e-4), "")
            << m << ' ' << k << ' ' << n << (a ? " a turned" : "") << (b ? " b turned" : "");
        for (const int chunks : {2, 8})
          EXPECT_EQ(op_table::difference(got, group.run({}, chunks, out, nullptr, "cpu matmul"), 0), "") << chunks;
      }
}

/// With AVX2 it comes before oneDNN where that is slow.
TEST(CpuMatmul, WeightGradientsOfManyRows) {
  for (const auto& [k, m, n, slow] : {std::tuple<std::int64_t, std::int64_t, std::int64_t, bool>{1100, 512, 384, true},
                                      {1024, 256, 512, true},
                                      {1023, 512, 512, false},
                                      {1100, 768, 256, false},
                                      {1100, 520, 512, false},
                                      {1100, 128, 512, false}})
    for (const bool turned : {true, false}) {
      const Tensor a = op_table::uniform(turned ? Shape{k, m} : Shape{m, k}, -1, 1, 1),
                   b = op_table::uniform({k, n}, -1, 1, 2);
      const auto net = [turned](const Tensors& in) { return Tensors{matmul(in[0], in[1], turned)}; };
      const Types types = op_table::types_of({a, b});
      const Plan planned = plan(net, types);
      const bool own = turned && slow && isa() == Isa::avx2;
      if (isa() != Isa::portable) {  // there may be no oneDNN there
        EXPECT_EQ(planned.rows()[0].kernel, own ? "cpu matmul" : "onednn") << m << ' ' << k << ' ' << n;
      }
      if (!own) continue;
      EXPECT_EQ(op_table::difference(plan(net, types, {.interpret = true})({a, b}), planned({a, b}), 1e-4), "")
          << m << ' ' << k << ' ' << n;
    }
}

TEST(CpuMatmul, StepsBehindAFullyConnectedLayer) {
  for (const auto& [rows, in, features] :
       {std::tuple<std::int64_t, std::int64_t, std::int64_t>{3, 40, 20}, {210, 530, 650}}) {
    op_table::FusionGroup group;
    const int x = group.input(op_table::uniform({2, rows, in}, -1, 1, 1)),
              weight = group.input(op_table::uniform({features, in}, -1, 1, 2)),
              bias = group.input(op_table::uniform({features}, -1, 1, 3)),
              residual = group.input(op_table::uniform({2, rows, features}, -1, 1, 4));
    const int y = group.then(std::make_shared<Linear>(), {x, weight, bias})[0];
    const std::vector<int> out = group.then(make_op("add"), {group.then(std::make_shared<Gelu>(), {y})[0], residual});
    for (const std::vector<int>& wanted : {out, std::vector<int>{y, out[0]}}) {
      const Tensors expected = group.expected(wanted);
      for (const int chunks : {1, 3})
        EXPECT_EQ(op_table::difference(expected, group.run({}, chunks, wanted, nullptr, "cpu matmul"), 1e-4), "")
            << rows << ' ' << chunks;
    }
  }
}

TEST(CpuSoftmax, LongRows) {
  for (const std::int64_t size : {1, 63, 64, 1000, 5000})
    for (const char* op : {"softmax", "log_softmax", "softmax_grad", "log_softmax_grad"}) {
      Group group;
      const bool grad = std::string_view(op).ends_with("grad");
      group.inputs = {uniform({20, size}, 1, -20, grad ? 0 : 20)};
      if (grad) group.inputs.push_back(uniform({20, size}, 2));
      group.results = {group.add(make_op(op), grad ? std::vector<int>{0, 1} : std::vector<int>{0})};
      expect_agreement(group, kPlain, 2e-6, text(op, ' ', size));
    }
}

TEST(CpuCrossEntropy, LargeBatches) {
  for (const char* reduction : {"mean", "sum", "none"})
    for (const double smoothing : {0.0, 0.1}) {
      auto op = std::make_shared<CrossEntropy>();
      auto grad = std::make_shared<CrossEntropyGrad>();
      op->options = grad->options = {smoothing, 3, reduction};
      Group group;
      const Tensor logits = uniform({70, 1000}, 1, -10, 10), labels = uniform({70}, 2, 0, 1000, DType::i64),
                   weights = uniform({1000}, 3, 0.1, 2);
      const bool whole = std::string_view(reduction) != "none";
      group.inputs = {logits, labels, weights, uniform(whole ? Shape{} : Shape{70}, 4)};
      group.results = {group.add(grad, {0, 1, 2, 3})};
      expect_agreement(group, kPlain, 2e-6, text("gradient ", reduction));
      group.inputs.pop_back();
      group.nodes.clear();
      group.results = {group.add(op, {0, 1, 2})};
      expect_agreement(group, kPlain, 1e-6, reduction);
    }
}

TEST(CpuCrossEntropy, ALabelOutsideIsReported) {
  const Tensor logits = uniform({3, 4}, 1), labels = Tensor::from({3}, std::vector<std::int64_t>{0, 4, -100});
  EXPECT_THROW(cross_entropy(logits, labels), Error);
  const Tensor fine = Tensor::from({3}, std::vector<std::int64_t>{0, 3, -100});
  EXPECT_TRUE(std::isfinite(cross_entropy(logits, fine).item()));
}

/// The reference kernels' numbers, bit for bit, over the wrap of the counter's low word and any cut.
TEST(CpuRandom, SameBitsAsTheReference) {
  const Tensor key = Tensor::from({2}, std::vector<std::int64_t>{0x123456789abcdef, 77});
  auto dropout = std::make_shared<Dropout>();
  dropout->p = 0.3;
  dropout->ordinal = 5;
  auto random = std::make_shared<RandomUniform>();
  random->shape = {70001};
  random->low = -0.7;
  random->high = 1.9;
  random->ordinal = 6;
  Group group;
  group.inputs = {key, uniform({70001}, 1)};
  group.results = {group.add(dropout, {1, 0})};
  const std::vector<float> x = group.inputs[1].values<float>(), y = group.computed(kPlain, 3)[0].values<float>();
  group.inputs = {key};
  group.nodes.clear();
  group.results = {group.add(random, {0})};
  const std::vector<float> u = group.computed(kPlain, 3)[0].values<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto number = [&](std::int64_t ordinal) {
      return random_block(0x123456789abcdef, 77, ordinal, i / 4)[i % 4] * 0x1p-24;
    };
    ASSERT_EQ(y[i], number(5) >= 0.3 ? static_cast<float>(static_cast<double>(x[i]) / (1 - 0.3)) : 0) << i;
    ASSERT_EQ(u[i], static_cast<float>(-0.7 + (1.9 - -0.7) * number(6))) << i;
  }
}

TEST(CpuOptimizer, FindsTheOneNumberThatIsNotFinite) {
  for (const float odd : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::nanf(""), std::numeric_limits<float>::max()})
    for (const Shape& shape : {Shape{30, 21, 9, 7}, {3, 17}, {1}})
      for (const std::int64_t place : std::vector<std::int64_t>{0, shape.numel() / 2, shape.numel() - 1})
        for (const Layout& layout : {kPlain, kBlocked, kLast, kImages}) {
          if (shape.rank() < 4 && layout != kPlain) continue;
          std::vector<float> values = uniform(shape, 1).values<float>();
          values[place] = odd;
          Group group;
          group.inputs = {uniform({5, 3}, 2), Tensor::from(shape, values), uniform({1000}, 3)};
          group.results = {group.add(std::make_shared<AllFinite>(), {0, 1, 2}, 1)};
          expect_agreement(group, layout, 0, text("all finite ", layout, ' ', shape, ' ', odd, " at ", place));
        }
}

TEST(CpuOptimizer, StepsInEveryLayout) {
  const Shape shape{30, 21, 9, 7};  // enough for two parts
  const Tensor lr = Tensor::scalar(0.1), step = Tensor::from({DType::i64, {}}, std::vector<std::int64_t>{7}.data());
  for (const Layout& layout : {kPlain, kBlocked, kLast, kImages}) {
    for (const AdamRule& rule :
         {AdamRule{}, AdamRule{.weight_decay = 0.05, .decoupled = true}, AdamRule{.weight_decay = 0.05},
          AdamRule{.scaled = true}, AdamRule{.weight_decay = 0.05, .scaled = true}}) {
      Group group;
      group.inputs = {uniform(shape, 1), uniform(shape, 2), uniform(shape, 3), uniform(shape, 4, 0.01, 1), lr, step};
      std::vector<int> in{0, 1, 2, 3, 4, 5};
      if (rule.scaled) group.inputs.push_back(Tensor::scalar(rule.weight_decay == 0 ? 0 : 0.25)), in.push_back(6);
      const int weight = group.add(std::make_shared<AdamStep>(rule), in, 3);
      group.results = {weight, weight + 1, weight + 2};
      expect_agreement(group, layout, 3e-7, text("adam ", layout));
    }
    for (const SgdRule& rule :
         {SgdRule{}, SgdRule{.momentum = 0.9, .weight_decay = 0.01},
          SgdRule{.momentum = 0.9, .weight_decay = 0.01, .nesterov = true}, SgdRule{.scaled = true},
          SgdRule{.momentum = 0.9, .scaled = true}, SgdRule{.weight_decay = 0.01, .scaled = true},
          SgdRule{.momentum = 0.9, .weight_decay = 0.01, .scaled = true}}) {
      Group group;
      const bool buffer = rule.momentum != 0;
      group.inputs = {uniform(shape, 1), uniform(shape, 2)};
      if (buffer) group.inputs.push_back(uniform(shape, 3));
      group.inputs.push_back(lr);
      if (rule.scaled) group.inputs.push_back(Tensor::scalar(rule.weight_decay == 0 ? 0 : 0.25));
      std::vector<int> in(group.inputs.size());
      std::iota(in.begin(), in.end(), 0);
      const int weight = group.add(std::make_shared<SgdStep>(rule), in, buffer ? 2 : 1);
      group.results = {weight};
      if (buffer) group.results.push_back(weight + 1);
      expect_agreement(group, layout, 3e-7, text("sgd ", layout));
    }
  }
}

}  // namespace
}  // namespace neurim
