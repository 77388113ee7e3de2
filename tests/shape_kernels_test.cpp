// The ops that move elements, on images in vectors of 16 channels or of 16 images and on larger plain
// tensors.
#include "neurim/compile/plan.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/pad.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"
#include "tests/ask_group.h"

namespace neurim {
namespace {

using namespace op_table;

constexpr Layout kBlocked{Layout::blocked, 16}, kImages{Layout::batch_blocked, 16};

/// The kernel "cpu" moves the same elements as the reference, from and to any layout.
void check(const std::shared_ptr<const Op>& op, const Tensors& in) {
  FusionGroup group;
  std::vector<int> values;
  for (const Tensor& tensor : in) values.push_back(group.input(tensor));
  const std::vector<int> out = group.then(op, values);
  const Tensors want = group.expected(out);
  for (const Layout& layout : {Layout{}, kBlocked, kImages})
    for (const int chunks : {1, 3}) {
      std::string why;
      const Tensors got = group.run(layout, chunks, out, &why);
      ASSERT_FALSE(got.empty()) << why;
      EXPECT_EQ(difference(want, got, 0), "") << text(op->name(), attributes(*op), ' ', in[0].type(), ' ', layout);
    }
}

TEST(ShapeKernels, SliceAndItsGradient) {
  constexpr std::int64_t far = std::int64_t{1} << 40;
  for (const SliceOptions& options : std::vector<SliceOptions>{{{0, 0}, {far, far}, {2, 3}, {2, 2}},
                                                               {{1, -1}, {far, -far}, {2, 3}, {3, -2}},
                                                               {{16}, {48}, {1}},
                                                               {{8}, {24}, {1}},
                                                               {{3}, {40}, {1}},  // no whole pieces of vectors
                                                               {{-4}, {far}, {1}},
                                                               {{16, 4}, {32, 12}, {0, 1}},
                                                               {{40}, {0}, {1}, {-8}}}) {
    const Shape whole{32, 48, 9, 7};
    check(std::make_shared<Slice>(options), {uniform(whole, -1, 1, 1)});
    check(std::make_shared<SliceGrad>(whole, options), {uniform(options.range(whole, "test").shape, -1, 1, 2)});
  }
}

TEST(ShapeKernels, Pad) {
  for (const std::vector<std::int64_t>& pads : std::vector<std::vector<std::int64_t>>{{0, 8, 0, 0, 0, 8, 0, 0},
                                                                                      {0, 16, 1, 2, 0, 0, 0, 1},
                                                                                      {0, 4, 0, 0, 0, 12, 0, 0},
                                                                                      {0, -8, 0, -1, 0, -8, 2, 0},
                                                                                      {0, 20, 0, 0, 0, -20, 0, 0},
                                                                                      {0, 1, 0, 0, 0, 2, 0, 0},
                                                                                      {16, 0, 0, 0, -32, 0, 0, 0}})
    for (const double value : {0.0, -1.5})
      check(std::make_shared<Pad>(pads, value), {uniform({32, 32, 5, 6}, -1, 1, 1)});
}

TEST(ShapeKernels, Concat) {
  for (const int axis : {0, 1, 2, -1}) {
    std::vector<Shape> shapes(3, Shape{16, 32, 5, 6});
    shapes[1][axis] = 16;
    Tensors in;
    for (const Shape& shape : shapes) in.push_back(uniform(shape, -1, 1, in.size()));
    check(std::make_shared<Concat>(axis), in);
    in[2] = in[0];
    check(std::make_shared<Concat>(axis), in);
  }
  check(std::make_shared<Concat>(1), {uniform({16, 3, 5, 6}, -1, 1, 1), uniform({16, 17, 5, 6}, -1, 1, 2)});
}

TEST(ShapeKernels, TransposeAndBroadcast) {
  for (const std::vector<std::int64_t>& perm :
       std::vector<std::vector<std::int64_t>>{{0, 2, 3, 1}, {0, 3, 1, 2}, {3, 2, 1, 0}, {1, 0, 2, 3}, {0, 1, 2, 3}})
    check(std::make_shared<Transpose>(perm), {uniform({16, 3, 33, 47}, -1, 1, 1)});
  for (const Shape& shape : {Shape{16, 1, 5, 1}, {1, 32, 5, 6}, {16, 32, 1, 6}, {1, 1, 1, 1}})
    check(std::make_shared<BroadcastTo>(Shape{16, 32, 5, 6}), {uniform(shape, -1, 1, 1)});
}

TEST(ShapeKernels, KeepTheLayoutOfAShortcut) {
  const Tensor w = uniform({16, 16, 3, 3}, -1, 1, 1), v = uniform({32, 32, 3, 3}, -1, 1, 2);
  const Conv2dOptions same{.pad = {1, 1, 1, 1}};
  const auto shortcut = [&](Tensors in) -> Tensors {
    const Tensor x = conv2d(in[0], w, {}, same);
    const Tensors of{conv2d(pad(slice(x, {0, 0}, {8, 8}, {2, 3}, {2, 2}), {0, 8, 0, 0, 0, 8, 0, 0}), v, {}, same)};
    Tensors out = gradients(of, Tensors{w, v});
    out.push_back(of[0]);
    return out;
  };
  const Types types{{DType::f32, {4, 16, 8, 8}}};
  const Plan planned = plan(shortcut, types, {.training = true}),
             interpreted = plan(shortcut, types, {.training = true, .interpret = true});
  for (const PlanRow& row : planned.rows()) {
    if (row.op != "slice" && row.op != "pad" && row.op != "slice_grad") continue;
    EXPECT_EQ(text(row.op, ' ', row.kernel, ' ', row.layout), text(row.op, " cpu blocked16"));
  }
  const Tensors x{uniform(types[0].shape, -1, 1, 3)};
  EXPECT_EQ(difference(interpreted(x), planned(x), 1e-5), "");
}

TEST(ShapeKernels, GatherReportsWhatIsOutside) {
  const Tensor x = uniform({5, 4}, -1, 1, 1), indices = Tensor::from({3}, std::vector<std::int64_t>{0, 5, -1});
  const Plan planned = plan([](Tensors in) -> Tensors { return {gather(in[0], in[1], 0)}; },
                            {x.type(), indices.type()});
  EXPECT_THROW(planned({x, indices}), Error);
}

}  // namespace
}  // namespace neurim
