// Convolutions in groups of several channels, whose weights are constant: planned against interpreted, in f32 and with
// factors rounded.
#include "neurim/ops/add.h"
#include "neurim/ops/relu.h"
#include "tests/storage.h"

namespace neurim {
namespace {

struct Grouped {
  std::int64_t in, out, groups, size, kernel = 3, stride = 1, dilation = 1;
};

class Groups : public testing::TestWithParam<Grouped> {};

TEST_P(Groups, PlannedIsInterpreted) {
  const Grouped& c = GetParam();
  const std::int64_t pad = c.dilation * (c.kernel / 2),
                     size = (c.size + 2 * pad - c.dilation * (c.kernel - 1) - 1) / c.stride + 1;
  const Conv2dOptions options{.stride = {c.stride, c.stride},
                              .dilation = {c.dilation, c.dilation},
                              .pad = {pad, pad, pad, pad},
                              .groups = c.groups};
  const Tensor weight = exact({c.out, c.in / c.groups, c.kernel, c.kernel}, 1), bias = exact({c.out}, 2);
  const Net net = [&](Tensors in) -> Tensors { return {relu(add(conv2d(in[0], weight, bias, options), in[1]))}; };
  const Tensors in{exact({3, c.in, c.size, c.size}, 3), exact({3, c.out, size, size}, 4)};
  const Tensors expected = interpreted(net, in);
  const std::string where = text(c.in, " to ", c.out, " in ", c.groups);
  const Plan rounding = checked(net, in, expected, where);
  EXPECT_EQ(count(rounding, "conv2d", "cpu direct"), 1) << where;
  EXPECT_EQ(rounded_share(rounding.rows()), 1) << where;
  // Groups of whole blocks are left to oneDNN, where it has kernels for blocks.
  const bool whole = c.in / c.groups % 16 == 0 && c.out / c.groups % 16 == 0;
  const Plan plain = checked(net, in, expected, where, 0, DType::f32);
  EXPECT_EQ(count(plain, "conv2d", "cpu direct"), !(whole && isa() == Isa::avx512)) << where;
}

INSTANTIATE_TEST_SUITE_P(Convolutions, Groups,
                         testing::Values(Grouped{32, 32, 8, 9}, Grouped{48, 48, 6, 31}, Grouped{48, 48, 6, 15, 3, 2},
                                         Grouped{40, 40, 10, 8, 5}, Grouped{24, 24, 3, 7, 3, 1, 2},
                                         Grouped{48, 48, 2, 10}, Grouped{72, 72, 3, 14, 3, 2}, Grouped{40, 80, 5, 8},
                                         Grouped{80, 40, 5, 8}, Grouped{34, 34, 17, 6}, Grouped{112, 112, 2, 7},
                                         Grouped{32, 64, 2, 9}, Grouped{64, 64, 4, 30}, Grouped{16, 96, 2, 5, 1},
                                         Grouped{96, 18, 6, 5, 1, 2}),
                         [](const auto& info) {
                           const Grouped& c = info.param;
                           return text(c.in, "to", c.out, "in", c.groups, "kernel", c.kernel, "stride", c.stride,
                                       "dilation", c.dilation);
                         });

}  // namespace
}  // namespace neurim
