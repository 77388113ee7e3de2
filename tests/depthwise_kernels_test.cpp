// Depthwise convolutions and their weight gradient on shapes of mobile networks and on odd ones.
#include "neurim/compile/plan.h"
#include "neurim/hardware/isa.h"
#include "neurim/ops/add.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/hardswish.h"
#include "neurim/ops/relu.h"
#include "tests/ask_group.h"

namespace neurim {
namespace {

using namespace op_table;

constexpr std::string_view kKernel = "cpu depthwise";

struct Row {
  Shape x;
  std::int64_t kernel_height, kernel_width;
  Conv2dOptions options = {};
};

std::vector<int> weight_grad(FusionGroup& group, const Row& row) {
  const std::int64_t channels = row.x[1];
  auto op = std::make_shared<Conv2dWeightGrad>();
  op->options = row.options;
  op->options.groups = channels;
  op->weight_shape = {channels, 1, row.kernel_height, row.kernel_width};
  Conv2d forward;
  forward.options = op->options;
  const Types in{{DType::f32, row.x}, {DType::f32, op->weight_shape}};
  const int dy = group.input(uniform(forward.infer(in)[0].shape, -1, 1, 1));
  return group.then(op, {dy, group.input(uniform(row.x, -1, 1, 2))});
}

std::vector<Row> rows() {
  return {Row{{2, 48, 14, 14}, 5, 5, {.pad = {2, 2, 2, 2}}},
          {{3, 32, 15, 13}, 5, 5, {.stride = {2, 2}, .pad = {2, 2, 2, 2}}},
          {{2, 16, 2, 2}, 5, 5, {.pad = {2, 2, 2, 2}}},  // no output has all columns inside
          {{1, 16, 1, 1}, 7, 7, {.pad = {3, 3, 3, 3}}},
          {{2, 64, 20, 9}, 7, 7, {.pad = {3, 3, 3, 3}}},
          {{2, 24, 9, 11}, 5, 5, {.pad = {2, 2, 2, 2}}},  // a block with lanes behind the last channel
          {{1, 16, 40, 40}, 3, 17, {.stride = {3, 1}, .pad = {1, 8, 1, 8}}},
          {{1, 32, 9, 30}, 1, 4, {.stride = {1, 5}, .pad = {0, 0, 0, 3}}},
          {{1, 16, 19, 21}, 5, 4, {.stride = {1, 2}, .dilation = {2, 3}, .pad = {4, 2, 3, 5}}}};
}

/// And some of 3x3, which are left to oneDNN where it has kernels for blocks.
std::vector<Row> small_and_large() {
  std::vector<Row> all = rows();
  all.push_back({{2, 40, 12, 13}, 3, 3, {.pad = {1, 1, 1, 1}}});
  all.push_back({{3, 16, 9, 10}, 3, 3, {.stride = {2, 2}, .pad = {1, 1, 0, 1}}});
  all.push_back({{1, 32, 7, 7}, 1, 1, {.stride = {3, 2}}});
  for (const std::int64_t stride : {1, 2})
    for (const std::int64_t pad : {0, 1})
      for (const std::int64_t width : {1, 2, 3, 8, 9})
        for (const std::int64_t rows : {1, 2, 3})
          if (width + 2 * pad >= 3)
            all.push_back({{1, 24, 4, width}, rows, 3, {.stride = {stride, stride}, .pad = {rows - 1, pad, 0, pad}}});
  all.push_back({{1, 16, 9, 8}, 3, 3, {.dilation = {2, 1}, .pad = {2, 1, 2, 1}}});
  all.push_back({{1, 16, 5, 6}, 3, 3, {.pad = {1, 1, 1, 2}}});
  all.push_back({{1, 16, 1, 1}, 3, 3, {.stride = {3, 3}, .dilation = {2, 2}, .pad = {3, 3, 3, 3}}});
  all.push_back({{1, 16, 5, 2}, 3, 3, {.stride = {2, 2}, .pad = {1, 0, 1, 1}}});
  all.push_back({{1, 16, 2, 9}, 3, 3, {.stride = {2, 2}, .pad = {4, 1, 4, 1}}});  // rows that see padding alone
  return all;
}

/// Alone, with a relu, and with a sum and another step behind it.
TEST(DepthwiseKernels, ConvolutionsAgree) {
  std::vector<Row> all = isa() == Isa::avx512 ? rows() : small_and_large();
  all.push_back({{1, 40, 12, 33}, 5, 5, {.pad = {2, 2, 2, 2}}});
  all.push_back({{2, 16, 3, 3}, 2, 9, {.stride = {2, 4}, .pad = {3, 9, 2, 4}}});  // outputs that see padding alone
  all.push_back({{1, 16, 5, 70}, 7, 7, {.stride = {2, 1}, .dilation = {1, 2}, .pad = {6, 3, 0, 9}}});
  for (const Row& row : all) {
    Conv2dOptions options = row.options;
    options.groups = row.x[1];
    const Tensor x = uniform(row.x, -1, 1, 1),
                 weight = uniform({row.x[1], 1, row.kernel_height, row.kernel_width}, -1, 1, 2),
                 bias = uniform({row.x[1]}, -1, 1, 3);
    for (int kind = 0; kind < 3; ++kind) {
      SCOPED_TRACE(text(row.x, " kernel ", row.kernel_height, 'x', row.kernel_width, " kind ", kind));
      const auto net = [&](const Tensors& in) -> Tensors {
        const Tensor y = conv2d(in[0], weight, kind == 0 ? Tensor() : bias, options);
        return {kind == 0 ? y : kind == 1 ? relu(y) : hardswish(y + uniform(y.shape(), -1, 1, 4))};
      };
      const Plan planned = plan(net, {x.type()}, {.freeze = true});
      EXPECT_EQ(difference(plan(net, {x.type()}, {.interpret = true})({x}), planned({x}), 1e-5), "");
      const auto tasks = planned.rows();
      EXPECT_EQ(std::count_if(tasks.begin(), tasks.end(), [](const PlanRow& task) { return task.kernel == kKernel; }),
                1);
    }
  }
}

TEST(DepthwiseKernels, WeightGradientsAgree) {
  for (const Row& row : isa() == Isa::avx512 ? rows() : small_and_large()) {
    SCOPED_TRACE(text(row.x, " kernel ", row.kernel_height, 'x', row.kernel_width));
    FusionGroup group;
    const std::vector<int> out = weight_grad(group, row);
    std::string why;
    const Tensors one = group.run({}, 1, out, &why, kKernel);
    ASSERT_FALSE(one.empty()) << why;
    EXPECT_EQ(difference(group.expected(out), one, 1e-5), "");
    EXPECT_EQ(difference(one, group.run({}, 8, out, &why, kKernel), 0), "");
  }
}

/// With AVX-512 oneDNN's are faster.
TEST(DepthwiseKernels, DataGradientsAgree) {
  if (isa() == Isa::avx512) GTEST_SKIP() << "leaves data gradients to oneDNN";
  for (const Row& row : small_and_large()) {
    if (row.options.pad[0] > row.kernel_height) continue;  // left to oneDNN
    SCOPED_TRACE(text(row.x, " kernel ", row.kernel_height, 'x', row.kernel_width));
    FusionGroup group;
    auto op = std::make_shared<Conv2dInputGrad>();
    op->options = row.options;
    op->options.groups = row.x[1];
    op->input_shape = row.x;
    Conv2d forward;
    forward.options = op->options;
    const Shape weight{row.x[1], 1, row.kernel_height, row.kernel_width};
    const Shape y = forward.infer(Types{{DType::f32, row.x}, {DType::f32, weight}})[0].shape;
    const std::vector<int> out = group.then(
        op, {group.input(uniform(y, -1, 1, 1)), group.input(uniform(weight, -1, 1, 2))});
    std::string why;
    const Tensors one = group.run({}, 1, out, &why, kKernel);
    ASSERT_FALSE(one.empty()) << why;
    EXPECT_EQ(difference(group.expected(out), one, 1e-5), "");
    EXPECT_EQ(difference(one, group.run({}, 8, out, &why, kKernel), 0), "");
  }
}

TEST(DepthwiseKernels, LeavesTheOthersToOneDnn) {
  for (const auto& [row, reason] :
       {std::pair{Row{{1, 16, 8, 8}, 3, 3}, "up to 3x3"}, {Row{{1, 4, 8, 8}, 5, 5}, "of 8 channels and more"}}) {
    if (isa() != Isa::avx512 && row.kernel_height == 3) continue;  // where it has no kernels for blocks
    FusionGroup group;
    std::string why;
    EXPECT_TRUE(group.run({}, 1, weight_grad(group, row), &why, kKernel).empty());
    EXPECT_NE(why.find(reason), std::string::npos) << why;
  }
}

}  // namespace
}  // namespace neurim
