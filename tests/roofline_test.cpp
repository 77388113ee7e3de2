// Multiply-adds of ops and plans, and the roof that bounds their times.
#include "neurim/compile/roofline.h"

#include <gtest/gtest.h>

#include <optional>

#include "neurim/base/error.h"
#include "neurim/graph/trace.h"
#include "neurim/model/cost.h"
#include "neurim/model/zoo.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/matmul.h"
#include "neurim/optim/sgd.h"
#include "neurim/train/step.h"

namespace neurim {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

Type f32(const Shape& shape) { return {DType::f32, shape}; }

/// 200 G operations a second; 4 MiB at 100 GB/s, 64 MiB at 50, the rest at 10.
Peaks two_threads() {
  return {.threads = 2,
          .arithmetic = {{"fp32", 200e9}, {"fp16", 400e9}},
          .memory = {{"L1", 64 << 10, 32 << 10, 400e9},
                     {"L2", 4 * kMiB, 2 * kMiB, 100e9},
                     {"L3", 64 * kMiB, 32 * kMiB, 50e9},
                     {"DRAM", 8192 * kMiB, 512 * kMiB, 10e9}}};
}

std::string limit(std::int64_t multiply_adds, std::size_t bytes, const Peaks& peaks = two_threads()) {
  const Roof found = roof(multiply_adds, bytes, peaks);
  return text(found.bound, ' ', fixed(found.seconds * 1e6, 3));
}

TEST(Roof, IsTheLongerOfArithmeticAndMemory) {
  EXPECT_EQ(limit(1'000'000, 1000), "fp32 10.000");
  EXPECT_EQ(limit(1'000'000, 2'000'000), "L2 20.000");
  Peaks sixteen = two_threads();
  sixteen.arithmetic.push_back({"bf16", 300e9});
  EXPECT_EQ(roof(3'000'000, 1000, sixteen, DType::bf16).bound, "bf16");
  EXPECT_NEAR(roof(3'000'000, 1000, sixteen, DType::bf16).seconds, 20e-6, 1e-12);
  sixteen.arithmetic.back().operations = 100e9;  // products of bf16 are slow here
  EXPECT_EQ(roof(3'000'000, 1000, sixteen, DType::bf16).bound, "fp32");
  sixteen.arithmetic.push_back({"bf16 tiles", 3000e9});
  EXPECT_EQ(roof(3'000'000, 1000, sixteen, DType::bf16).bound, "bf16 tiles");
  EXPECT_EQ(limit(0, 1000), "L2 0.010");  // L1 is not counted on
  EXPECT_EQ(limit(0, 4 * kMiB), "L2 41.943");
  EXPECT_EQ(limit(0, 4 * kMiB + 1), "L3 83.886");
  EXPECT_EQ(limit(0, 65 * kMiB), "DRAM 6815.744");
  EXPECT_EQ(limit(0, 100'000 * kMiB), "DRAM 10485760.000");
}

TEST(Precision, IsTheFastest) {
  const auto fastest = [](double bf16, double fp16, double tiles) {
    return fastest_precision({{"fp32", 200e9}, {"fp16", fp16}, {"bf16", bf16}, {"int8", 9e12}, {"bf16 tiles", tiles}});
  };
  EXPECT_EQ(fastest(0, 0, 0), "f32");
  EXPECT_EQ(fastest(240e9, 0, 0), "f32") << "a fifth faster";
  EXPECT_EQ(fastest(400e9, 0, 0), "bf16");
  EXPECT_EQ(fastest(100e9, 400e9, 0), "fp16");
  EXPECT_EQ(fastest(100e9, 400e9, 3000e9), "bf16");
  EXPECT_EQ(fastest_precision({}), "f32");
}

TEST(Roof, IsOfTheBetterOfTwoMeasurements) {
  Peaks lent_less = two_threads(), other = two_threads();
  lent_less.arithmetic[0].operations = 90e9;
  other.memory[1].read = 40e9;
  const Peaks best = best_of(lent_less, other);
  EXPECT_EQ(limit(1'000'000, 1000, best), "fp32 10.000");
  EXPECT_EQ(limit(1'000'000, 2'000'000, best), "L2 20.000");
}

TEST(Roof, NeedsABandwidth) {
  Peaks peaks = two_threads();
  peaks.memory.back().read = 0;
  EXPECT_EQ(limit(0, kMiB, peaks), "L2 10.486");
  EXPECT_THROW(roof(0, 65 * kMiB, peaks), Error);
}

TEST(Roofline, SortsTasksByKind) {
  const auto row = [](std::string op, const Types& in, std::int64_t multiply_adds = 1'000'000) {
    return PlanRow{.op = op,
                   .anchor = split(op, '+')[0],
                   .in = in,
                   .multiply_adds = multiply_adds,
                   .bytes = 1000,
                   .seconds = 1e-5};
  };
  const Type x = f32({1, 8, 6, 6});
  const Type depthwise = f32({8, 1, 3, 3}), one_axis = f32({8, 8, 1, 3}), series = f32({1, 8, 6});
  const std::vector<PlanRow> rows{
      row("conv2d+relu", {x, f32({4, 8, 3, 3})}),
      row("conv2d", {x, f32({4, 8, 1, 1}), f32({4})}),
      row("conv2d", {x, depthwise}),
      row("conv2d", {x, one_axis}),
      row("conv1d", {series, f32({8, 8, 3})}),
      row("conv2d_weight_grad", {x, x}),
      row("conv2d_input_grad+relu_grad", {x, f32({8, 8, 3, 3})}),
      row("linear", {f32({2, 3}), f32({4, 3})}),
      row("relu", {x}, 0),
      row("", {}, 0),
      row("conv2d", {x, f32({4, 8, 3, 3})}, 10),  // its data take longer
  };
  const Roofline found = roofline(rows, two_threads());
  std::vector<std::string> kinds;
  for (const Roofline::Kind& kind : found.kinds) kinds.push_back(text(kind.name, ' ', kind.tasks));
  EXPECT_EQ(kinds, (std::vector<std::string>{"3x3 1", "1x1 1", "other convolutions 3", "weight gradients 1",
                                             "data gradients 1", "matrix products 1", "memory-bound 3"}));
  EXPECT_EQ(found.tasks.back().kind, "memory-bound");
  EXPECT_EQ(found.kinds[2].multiply_adds, 3'000'000);
  EXPECT_DOUBLE_EQ(found.kinds[2].roof, 3e-5);
  EXPECT_DOUBLE_EQ(found.kinds[2].seconds, 3e-5);
  EXPECT_EQ(found.all.tasks, 11);
  EXPECT_EQ(found.all.bytes, 11000u);
  EXPECT_EQ(found.all.multiply_adds, 8'000'010);
}

TEST(MultiplyAdds, OfAGroupedConvolution) {
  Conv2d conv;
  conv.options.pad = {1, 1, 1, 1};
  conv.options.groups = 2;
  // 6 x 8 x 8 sums of each of two images, of two channels of nine terms.
  EXPECT_EQ(conv.multiply_adds(Types{f32({2, 4, 8, 8}), f32({6, 2, 3, 3})}), 2 * 384 * 18);
}

TEST(MultiplyAdds, OfAProductByAnyTransposition) {
  for (const bool a : {false, true})
    for (const bool b : {false, true}) {
      Matmul product;
      product.transpose_a = a;
      product.transpose_b = b;
      EXPECT_EQ(
          product.multiply_adds(Types{f32(a ? Shape{7, 5, 3} : Shape{7, 3, 5}), f32(b ? Shape{4, 5} : Shape{5, 4})}),
          7 * 3 * 5 * 4);
    }
}

/// The gradients of a convolution take as many as the convolution.
template <std::size_t N>
void expect_as_many() {
  for (const Sample& sample : Conv<N>().samples()) {
    const auto& conv = static_cast<const Conv<N>&>(*sample.op);
    ConvInputGrad<N> input_grad;
    ConvWeightGrad<N> weight_grad;
    input_grad.options = weight_grad.options = conv.options;
    input_grad.input_shape = sample.in[0].shape;
    weight_grad.weight_shape = sample.in[1].shape;
    const Type y = conv.infer(sample.in)[0];
    const std::int64_t many = conv.multiply_adds(sample.in);
    EXPECT_GT(many, 0);
    EXPECT_EQ(input_grad.multiply_adds(Types{y, sample.in[1]}), many) << sample.in[0].shape.rank();
    EXPECT_EQ(weight_grad.multiply_adds(Types{y, sample.in[0]}), many) << sample.in[0].shape.rank();
  }
}

TEST(MultiplyAdds, OfConvolutionsAndTheirGradients) {
  expect_as_many<1>();
  expect_as_many<2>();
  expect_as_many<3>();
}

/// Ops that have a number of their own and a decomposition: transposed convolutions, recurrent layers.
TEST(MultiplyAdds, OfDecompositions) {
  int compared = 0;
  for (const std::string& name : op_names())
    for (const Sample& sample : make_op(name)->samples()) {
      const std::int64_t own = sample.op->multiply_adds(sample.in);
      if (own == 0) continue;
      Trace trace({});
      Tensors in;
      for (const Type& type : sample.in) in.push_back(trace.input(type));
      const Tensors out = sample.op->decompose(in);
      if (out.empty()) continue;
      const Graph graph = trace.finish(out);
      std::int64_t parts = 0;
      for (const Graph::Node& node : graph.nodes) parts += graph.multiply_adds(node);
      EXPECT_EQ(parts, own) << name << ' ' << attributes(*sample.op);
      ++compared;
    }
  EXPECT_GT(compared, 20);
}

std::int64_t sum_of(const Plan& plan) {
  std::int64_t sum = 0;
  for (const PlanRow& row : plan.rows()) sum += row.multiply_adds;
  return sum;
}

/// Each layer costs its forward work twice again, but nobody wants the gradient of the images.
TEST(MultiplyAdds, OfATrainingStep) {
  constexpr std::int64_t kBatch = 2, kSide = 64;
  const Model model = create_model("resnet18", {.seed = std::nullopt});
  const std::vector<LayerCost> layers = layer_costs(model, {3, kSide, kSide});
  const std::int64_t forward = total(layers).multiply_adds;
  ASSERT_EQ(layers[0].where, "conv1");
  SGD optimizer(named_parameters(Model(model)), {.lr = 0.1, .momentum = 0.9});
  const Plan step = plan(training_step(model, optimizer, {}), batch_types(kBatch, 3, kSide, kSide), {.training = true});
  EXPECT_EQ(sum_of(step), kBatch * (3 * forward - layers[0].multiply_adds));

  const Plan inference = plan([&](const Tensors& in) { return Tensors{model(in[0])}; },
                              {f32({kBatch, 3, kSide, kSide})}, {.freeze = true});
  EXPECT_EQ(sum_of(inference), kBatch * forward);
  for (const PlanRow& row : inference.rows())
    if (starts_with(row.op, "conv2d")) {
      ASSERT_GE(row.in.size(), 2u);
      EXPECT_EQ(row.in[0].shape[0], kBatch) << row.where;
    }
}

}  // namespace
}  // namespace neurim
