// Winograd's convolution on shapes of residual networks and on odd ones.
#include <cmath>

#include "neurim/compile/plan.h"
#include "neurim/graph/trace.h"
#include "neurim/hardware/isa.h"
#include "neurim/ops/add.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/sum.h"
#include "tests/ask_group.h"

namespace neurim {
namespace {

using namespace op_table;

constexpr std::string_view kKernel = "cpu winograd";
/// The transforms add to the rounding of the sums: about as much again.
constexpr double kTolerance = 1e-5;

struct Row {
  Shape x;
  std::int64_t out;
  std::array<std::int64_t, 4> pad = {1, 1, 1, 1};
};

std::vector<Row> rows() {
  return {{{2, 16, 12, 12}, 16},                // whole tiles
          {{2, 32, 9, 11}, 48},                 // cut ones; an odd number of blocks
          {{16, 16, 2, 3}, 32},                 // tiles larger than the image
          {{1, 64, 17, 14}, 64, {0, 2, 1, 0}},  // unlike sides
          {{3, 16, 13, 8}, 16, {0, 0, 0, 0}},   // none
          {{70, 16, 4, 4}, 16, {2, 2, 2, 2}},   // more tiles than a task takes
          {{13, 192, 3, 4}, 192}};              // weights that are cut instead of the tiles
}

/// Of few tiles, whose weights are read as they live: by AVX-512 alone, and forward.
std::vector<Row> few() {
  return {{{1, 16, 4, 4}, 16},                 // one tile
          {{1, 48, 7, 7}, 80},                 // four, cut; odd numbers of blocks
          {{1, 16, 4, 12}, 32},                // three
          {{2, 32, 7, 3}, 16, {1, 2, 1, 1}},   // images of two
          {{1, 32, 4, 22}, 48, {1, 0, 1, 0}},  // five, in two groups
          {{2, 16, 8, 8}, 64, {0, 2, 2, 0}}};  // as many as there may be
}

Shape weight_of(const Row& row) { return {row.out, row.x[1], 3, 3}; }

void expect_agreement(const FusionGroup& group, const std::vector<int>& out) {
  std::string why;
  const Tensors one = group.run({}, 1, out, &why, kKernel);
  ASSERT_FALSE(one.empty()) << why;
  EXPECT_EQ(difference(group.expected(out), one, kTolerance), "");
  for (const int chunks : {2, 8})  // runs of tiles, slices of the channels
    EXPECT_EQ(difference(one, group.run({}, chunks, out, &why, kKernel), 0), "") << chunks << " chunks";
}

TEST(Winograd, ForwardAgrees) {
  std::vector<Row> all = rows();
  if (isa() == Isa::avx512)
    for (const Row& row : few()) all.push_back(row);
  for (const Row& row : all)
    for (const bool bias : {false, true})
      for (const bool residual : {false, true}) {
        SCOPED_TRACE(text(row.x, " to ", row.out, bias ? ", bias" : "", residual ? ", add, relu" : ""));
        FusionGroup group;
        auto conv = std::make_shared<Conv2d>();
        conv->options.pad = row.pad;
        std::vector<int> in{group.input(uniform(row.x, -1, 1, 1)), group.input(uniform(weight_of(row), -1, 1, 2))};
        if (bias) in.push_back(group.input(uniform({row.out}, -1, 1, 3)));
        const Shape y = conv->infer(Types{{DType::f32, row.x}, {DType::f32, weight_of(row)}})[0].shape;
        const int added = residual ? group.input(uniform(y, -9, 9, 4)) : -1;
        std::vector<int> out = group.then(conv, in);
        if (residual) {
          out = group.then(make_op("add"), {out[0], added});
          out = group.then(make_op("relu"), out);
        }
        expect_agreement(group, out);
      }
}

TEST(Winograd, DataGradientsAgree) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(text(row.x, " to ", row.out));
    FusionGroup group;
    auto grad = std::make_shared<Conv2dInputGrad>();
    grad->options.pad = row.pad;
    grad->input_shape = row.x;
    Conv2d forward;
    forward.options = grad->options;
    const Shape y = forward.infer(Types{{DType::f32, row.x}, {DType::f32, weight_of(row)}})[0].shape;
    expect_agreement(
        group, group.then(grad, {group.input(uniform(y, -1, 1, 1)), group.input(uniform(weight_of(row), -1, 1, 2))}));
  }
}

TEST(Winograd, WeightGradientsAgree) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(text(row.x, " to ", row.out));
    FusionGroup group;
    auto grad = std::make_shared<Conv2dWeightGrad>();
    grad->options.pad = row.pad;
    grad->weight_shape = weight_of(row);
    Conv2d forward;
    forward.options = grad->options;
    const Shape y = forward.infer(Types{{DType::f32, row.x}, {DType::f32, weight_of(row)}})[0].shape;
    const std::vector<int> out = group.then(grad,
                                            {group.input(uniform(y, -1, 1, 1)), group.input(uniform(row.x, -1, 1, 2))});
    for (const int chunks : {1, 2, 8}) {  // runs with sums of their own, or slices of the channels
      std::string why;
      const Tensors fast = group.run({}, chunks, out, &why, kKernel);
      ASSERT_FALSE(fast.empty()) << why;
      EXPECT_EQ(difference(group.expected(out), fast, kTolerance), "") << chunks << " chunks";
    }
  }
}

/// Of fewer than twelve tiles of 4x4, constant weights make tiles of 2x2 where those of 4x4 are not made of weights as
/// they live.
TEST(Winograd, SmallTilesAgree) {
  struct Case {
    Shape x;
    std::int64_t out;
    std::array<std::int64_t, 4> pad;
  };
  for (const Case& c : {Case{{1, 16, 12, 12}, 16, {1, 1, 1, 1}},
                        {{1, 32, 7, 23}, 48, {1, 1, 1, 1}},
                        {{3, 48, 8, 9}, 32, {0, 2, 1, 0}},
                        {{1, 80, 7, 7}, 16, {1, 1, 1, 1}}}) {
    const Tensor x = uniform(c.x, -1, 1, 1), weight = uniform({c.out, c.x[1], 3, 3}, -1, 1, 2),
                 bias = uniform({c.out}, -1, 1, 3);
    const auto net = [&](const Tensors& in) -> Tensors { return {conv2d(in[0], weight, bias, {.pad = c.pad})}; };
    const auto residual = [&](const Tensors& in) -> Tensors {
      const Tensor y = conv2d(in[0], weight, bias, {.pad = c.pad});
      return {relu(y + in[1])};
    };
    const Tensor other = uniform(conv2d(x, weight, bias, {.pad = c.pad}).shape(), -9, 9, 4);
    const Plan one = plan(net, {x.type()}, {.freeze = true}),
               two = plan(residual, {x.type(), other.type()}, {.freeze = true});
    EXPECT_EQ(difference(plan(net, {x.type()}, {.interpret = true})({x}), one({x}), kTolerance), "") << c.x;
    EXPECT_EQ(difference(plan(residual, {x.type(), other.type()}, {.interpret = true})({x, other}), two({x, other}),
                         kTolerance),
              "")
        << c.x;
    for (const Plan* planned : {&one, &two}) {
      const std::vector<PlanRow> rows = planned->rows();
      EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [](const PlanRow& row) { return row.kernel == kKernel; }), 1)
          << c.x;
    }
  }
}

/// The error of a deep sum, in f32, is within four times that of adding up its products one by one.
TEST(Winograd, IsAboutAsExactAsASum) {
  const Shape image{1, 256, 16, 16}, kernel{16, 256, 3, 3};
  const Tensor x = uniform(image, -1, 1, 1), w = uniform(kernel, -1, 1, 2);
  FusionGroup group;
  auto conv = std::make_shared<Conv2d>();
  const std::vector<int> out = group.then(conv, {group.input(x), group.input(w)});
  const std::vector<double> fast = group.run({}, 1, out, nullptr, kKernel)[0].values<double>(),
                            exact = group.expected(out)[0].values<double>(), xs = x.values<double>(),
                            ws = w.values<double>();
  double fast_error = 0, sum_error = 0;
  for (std::int64_t o = 0; o < 16; ++o)
    for (std::int64_t row = 0; row < 14; ++row)
      for (std::int64_t column = 0; column < 14; ++column) {
        float sum = 0;
        for (std::int64_t c = 0; c < 256; ++c)
          for (std::int64_t tap = 0; tap < 9; ++tap)
            sum += static_cast<float>(xs[(c * 16 + row + tap / 3) * 16 + column + tap % 3] *
                                      ws[(o * 256 + c) * 9 + tap]);
        const auto at = static_cast<std::size_t>((o * 14 + row) * 14 + column);
        fast_error += std::pow(fast[at] - exact[at], 2);
        sum_error += std::pow(sum - exact[at], 2);
      }
  EXPECT_LT(std::sqrt(fast_error), 4 * std::sqrt(sum_error));
}

/// Weights that a plan trains stay where they were; those of a frozen plan are transformed once.
TEST(Winograd, Plans) {
  const Type image{DType::f32, {2, 32, 14, 14}};
  const Tensor weight = uniform({32, 32, 3, 3}, -1, 1, 2), x = uniform(image.shape, -1, 1, 3);
  weight.set_name("weight");
  const auto forward = [&](const Tensors& in) {
    return Tensors{relu(conv2d(in[0], weight, {}, {.pad = {1, 1, 1, 1}}))};
  };
  const auto step = [&](const Tensors& in) {
    const Tensor loss = sum(forward(in)[0]);
    const Tensor wrt[] = {weight, in[0]};
    Tensors out = gradients(std::span(&loss, 1), wrt);
    weight.assign(weight - out[0] * 1e-4);
    return out;
  };
  const auto tasks = [](const Plan& plan, std::string_view kernel) {
    const std::vector<PlanRow> rows = plan.rows();
    return std::count_if(rows.begin(), rows.end(), [&](const PlanRow& row) { return row.kernel.find(kernel) == 0; });
  };
  const Plan frozen = plan(forward, {image}, {.freeze = true}), plain = plan(forward, {image}, {.interpret = true});
  EXPECT_EQ(tasks(frozen, kKernel), 1);
  EXPECT_EQ(difference(plain({x}), frozen({x}), kTolerance), "");

  const Tensor start = weight.clone();
  Tensors slow = plan(step, {image}, {.training = true, .interpret = true})({x});
  for (Tensor& tensor : slow) tensor = tensor.clone();
  const Tensor slow_weight = weight.clone();
  weight.assign(start);
  const Plan fast = plan(step, {image}, {.training = true});
  EXPECT_EQ(tasks(fast, kKernel), 3);
  EXPECT_EQ(difference(slow, fast({x}), kTolerance), "");
  EXPECT_EQ(difference({slow_weight}, {weight}, kTolerance), "");
}

TEST(Winograd, LeavesTheOthers) {
  struct Other {
    Shape x, weight;
    Conv2dOptions options;
    std::string_view reason;
  };
  for (const auto& [x, weight, options, reason] :
       {Other{{4, 16, 16, 16}, {16, 16, 5, 5}, {}, "3x3 kernels"},
        {{4, 16, 16, 16}, {16, 16, 3, 3}, {.stride = {2, 2}}, "stride 1"},
        {{4, 32, 16, 16}, {32, 16, 3, 3}, {.groups = 2}, "without groups"},
        {{4, 8, 16, 16}, {16, 8, 3, 3}, {}, "channels by 16"},
        {{4, 16, 16, 16}, {16, 16, 3, 3}, {.pad = {1, 1, 3, 1}}, "padding"},
        {{1, 16, 12, 12}, {16, 16, 3, 3}, {.pad = {1, 1, 1, 1}}, "more tiles"},
        {{2, 16, 2, 2}, {16, 16, 3, 3}, {.pad = {1, 1, 1, 1}}, "more tiles"}}) {
    FusionGroup group;
    auto conv = std::make_shared<Conv2d>();
    conv->options = options;
    const std::vector<int> out = group.then(
        conv, {group.input(uniform(x, -1, 1, 1)), group.input(uniform(weight, -1, 1, 2))});
    std::string why;
    EXPECT_TRUE(group.run({}, 1, out, &why, kKernel).empty());
    EXPECT_NE(why.find(reason), std::string::npos) << why;
  }
}

}  // namespace
}  // namespace neurim
