// Convolutions of one image by several threads: where it has fewer blocks of output channels than there are threads,
// they share out its rows.
#include "neurim/ops/relu.h"
#include "tests/storage.h"

namespace neurim {
namespace {

TEST(OneImage, RowsAreSharedOutWhereChannelsAreFew) {
  struct Case {
    Shape x, weight;
    Conv2dOptions options;
  };
  const std::vector<Case> cases{
      {{1, 3, 32, 32}, {16, 3, 3, 3}, {.pad = {1, 1, 1, 1}}},
      {{1, 3, 41, 37}, {16, 3, 7, 7}, {.stride = {2, 2}, .pad = {3, 3, 3, 3}}},
      {{1, 40, 13, 30}, {16, 40, 5, 5}, {.pad = {2, 2, 2, 2}}},
      {{1, 16, 19, 9}, {16, 16, 3, 3}, {.stride = {2, 2}, .pad = {1, 1, 1, 1}}},
      {{1, 16, 1, 9}, {16, 16, 1, 5}, {.dilation = {1, 2}}},
  };
  const int before = threads();
  for (const Case& c : cases) {
    const Tensor weight = any(c.weight, 1), bias = any({c.weight[0]}, 2);
    const Net net = [&](const Tensors& in) -> Tensors { return {relu(conv2d(in[0], weight, bias, c.options))}; };
    const Tensors one{any(c.x, 3)};
    Shape shape = c.x;
    shape[0] = 4;
    const Tensors four{any(shape, 4)};
    for (const int count_of : {1, 3}) {
      set_threads(count_of);
      for (const Tensors& in : {one, four}) {
        const Plan plan = planned(net, in, false, DType::f32);
        EXPECT_EQ(op_table::difference(interpreted(net, in), plan(in), 2e-5), "")
            << c.x << ", " << count_of << " threads";
        const bool few = count_of == 3 && in[0].shape()[0] == 1;
        if (isa() == Isa::avx512) {
          EXPECT_EQ(count(plan, "conv2d", "cpu direct"), few) << in[0].shape() << ", " << count_of << " threads";
        }
      }
    }
  }
  set_threads(before);
}

}  // namespace
}  // namespace neurim
