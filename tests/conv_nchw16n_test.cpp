// Lanes that are images: the layout, the convolutions of few channels, and the kernels around them that keep
// it.
#include <cmath>
#include <set>

#include "neurim/compile/plan.h"
#include "neurim/model/zoo.h"
#include "neurim/nn/module.h"
#include "neurim/ops/add.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/cross_entropy.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/sum.h"
#include "neurim/optim/sgd.h"
#include "tests/ask_group.h"

namespace neurim {
namespace {

using namespace op_table;

constexpr Layout kImages{Layout::batch_blocked, 16};
constexpr std::string_view kFew = "cpu nchw16n";

TEST(ImagesLayout, SplitsTheBatch) {
  EXPECT_EQ(text(kImages), "images16");
  for (const Shape& shape : {Shape{32, 3, 4, 5}, {17, 2, 3}, {5, 7}, {16, 1}}) {
    const Type type{DType::f32, shape};
    const std::int64_t images = shape[0], image = shape.numel() / images, groups = (images + 15) / 16;
    ASSERT_EQ(bytes(type, kImages), static_cast<std::size_t>(groups * image * 16) * sizeof(float));
    std::vector<float> plain(static_cast<std::size_t>(shape.numel())), back(plain.size()),
        packed(static_cast<std::size_t>(groups * image * 16), -1.f);
    for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<float>(i + 1);
    pack(type, kImages, plain.data(), packed.data());
    for (std::int64_t n = 0; n < groups * 16; ++n)
      for (std::int64_t k = 0; k < image; ++k)
        ASSERT_EQ(packed[(n / 16 * image + k) * 16 + n % 16], n < images ? plain[n * image + k] : 0) << text(type);
    unpack(type, kImages, packed.data(), back.data());
    EXPECT_EQ(back, plain) << text(type);
  }
}

// --- the convolutions ---

struct Problem {
  Shape x, weight;
  Conv2dOptions options = {};
};

std::vector<Problem> problems() {
  return {
      {{32, 1, 28, 28}, {6, 1, 5, 5}, {.pad = {2, 2, 2, 2}}},
      {{32, 6, 14, 14}, {16, 6, 5, 5}},
      {{16, 5, 9, 31}, {7, 5, 3, 3}, {.pad = {1, 1, 1, 1}}},
      {{16, 15, 7, 6}, {20, 15, 3, 3}, {.pad = {0, 1, 2, 3}}},
      {{16, 17, 5, 5}, {3, 17, 1, 1}},
      {{16, 4, 6, 5}, {9, 4, 1, 1}, {.stride = {2, 2}, .pad = {1, 1, 1, 1}}},
      {{16, 3, 11, 10}, {5, 3, 3, 4}, {.stride = {2, 3}, .dilation = {2, 1}, .pad = {2, 1, 1, 2}}},
      {{16, 2, 12, 13}, {3, 2, 3, 3}, {.dilation = {3, 2}, .pad = {3, 2, 3, 2}}},
      {{16, 2, 3, 2}, {3, 2, 5, 5}, {.pad = {2, 2, 2, 2}}},
      {{16, 2, 3, 3}, {2, 2, 2, 2}, {.pad = {4, 3, 2, 5}}},  // windows of padding alone
      {{16, 1, 4, 130}, {2, 1, 1, 11}, {.pad = {0, 5, 0, 5}}},
      {{16, 1, 40, 9}, {1, 1, 7, 1}, {.stride = {3, 1}, .pad = {3, 0, 3, 0}}},
      {{16, 60, 7, 30}, {3, 60, 3, 3}, {.pad = {1, 1, 1, 1}}},  // rows are staged a few at a time
  };
}

template <class O>
std::shared_ptr<O> with(const Conv2dOptions& options) {
  auto op = std::make_shared<O>();
  op->options = options;
  return op;
}

/// The kernel agrees with the reference; the bits do not depend on the chunks unless these are what is
/// summed.
void check(const FusionGroup& group, const std::vector<int>& out, double tolerance, bool any_chunks,
           const std::string& where) {
  const Tensors want = group.expected(out);
  std::string why;
  const Tensors one = group.run({}, 1, out, &why, kFew);
  ASSERT_FALSE(one.empty()) << where << ": " << why;
  EXPECT_EQ(difference(want, one, tolerance), "") << where;
  for (const int chunks : {2, 3, 8}) {
    const Tensors more = group.run(kImages, chunks, out, &why, kFew);
    EXPECT_EQ(difference(one, more, any_chunks ? 0 : tolerance), "") << where << ", chunks " << chunks;
    EXPECT_EQ(difference(more, group.run({}, chunks, out, &why, kFew), 0), "") << where << ": two runs differ";
  }
}

TEST(FewChannels, Forward) {
  for (const Problem& p : problems()) {
    const std::string where = text("x ", p.x, ", weight ", p.weight);
    FusionGroup alone, fused;
    check(alone,
          alone.then(with<Conv2d>(p.options),
                     {alone.input(uniform(p.x, -1, 1, 1)), alone.input(uniform(p.weight, -1, 1, 2))}),
          1e-5, true, where);
    std::vector<int> in{fused.input(uniform(p.x, -1, 1, 1)), fused.input(uniform(p.weight, -1, 1, 2)),
                        fused.input(uniform({p.weight[0]}, -1, 1, 3))};
    const std::vector<int> before = fused.then(with<Conv2d>(p.options), in);
    const std::vector<int> after = fused.then(make_op("relu"), before);
    check(fused, after, 1e-5, true, where + ", bias, relu");
    check(fused, {before[0], after[0]}, 1e-5, true, where + ", both kept");
  }
}

TEST(FewChannels, ForwardAndRelu6) {
  for (const Problem& p : problems()) {
    const std::string where = text("x ", p.x, ", weight ", p.weight, ", bias, relu6");
    FusionGroup group;
    std::vector<int> in{group.input(uniform(p.x, -1, 1, 1)), group.input(uniform(p.weight, -9, 9, 2)),
                        group.input(uniform({p.weight[0]}, 2, 4, 3))};
    const std::vector<int> after = group.then(make_op("relu6"), group.then(with<Conv2d>(p.options), in));
    const std::vector<float> values = group.expected(after)[0].values<float>();
    EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](float value) { return value == 6; })) << where;
    EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](float value) { return value == 0; })) << where;
    check(group, after, 1e-4, true, where);  // of 6, and the sums are larger
  }
}

TEST(FewChannels, DataGradient) {
  for (const Problem& p : problems()) {
    FusionGroup group;
    const Types in{{DType::f32, p.x}, {DType::f32, p.weight}};
    const Shape y = with<Conv2d>(p.options)->infer(in)[0].shape;
    const int dy = group.input(uniform(y, -1, 1, 1)), weight = group.input(uniform(p.weight, -1, 1, 2));
    const auto op = with<Conv2dInputGrad>(p.options);
    op->input_shape = p.x;
    const std::vector<int> out = group.then(op, {dy, weight});
    const std::string where = text("x ", p.x, ", weight ", p.weight);
    if (p.options.stride == std::array<std::int64_t, 2>{1, 1}) {
      check(group, out, 1e-5, true, where);
    } else {
      std::string why;
      EXPECT_TRUE(group.run({}, 1, out, &why, kFew).empty()) << where;
      EXPECT_EQ(why, "takes data gradients at stride 1");
    }
  }
}

TEST(FewChannels, WeightGradient) {
  for (const Problem& p : problems()) {
    FusionGroup group;
    const Types in{{DType::f32, p.x}, {DType::f32, p.weight}};
    const Shape y = with<Conv2d>(p.options)->infer(in)[0].shape;
    const int dy = group.input(uniform(y, -1, 1, 1)), x = group.input(uniform(p.x, -1, 1, 2));
    const auto op = with<Conv2dWeightGrad>(p.options);
    op->weight_shape = p.weight;
    check(group, group.then(op, {dy, x}), 1e-5, false, text("x ", p.x, ", weight ", p.weight));
  }
}

TEST(FewChannels, KeepsNanAndInfinity) {
  std::vector<float> values(16 * 9, 1.f);
  values[4] = std::nanf("");
  values[9 + 4] = -INFINITY;
  FusionGroup group;
  const int x = group.input(Tensor::from({16, 1, 3, 3}, values)), weight = group.input(uniform({2, 1, 1, 1}, 1, 2, 1));
  check(group, group.then(make_op("relu"), group.then(with<Conv2d>({}), {x, weight})), 1e-6, true, "1x1");
}

TEST(FewChannels, LeavesTheRestToOthers) {
  const auto why = [](const Shape& x, const Shape& weight, const Conv2dOptions& options = {}) {
    FusionGroup group;
    std::string reason;
    const int in = group.input(uniform(x, -1, 1, 1)), w = group.input(uniform(weight, -1, 1, 2));
    EXPECT_TRUE(group.run({}, 1, group.then(with<Conv2d>(options), {in, w}), &reason, kFew).empty()) << text(x);
    return reason;
  };
  EXPECT_EQ(why({8, 3, 5, 5}, {4, 3, 3, 3}), "takes images by 16");
  EXPECT_EQ(why({16, 16, 5, 5}, {32, 16, 3, 3}), "leaves channels from 16 on to blocked16");
  EXPECT_EQ(why({16, 3, 5, 5}, {16, 3, 3, 3}), "leaves channels from 16 on to blocked16");
  EXPECT_EQ(why({16, 4, 5, 5}, {4, 2, 3, 3}, {.groups = 2}), "takes no groups");
  EXPECT_EQ(why({16, 15, 40, 40}, {14, 15, 30, 30}), "takes few weights");
}

// --- the kernels around ---

/// What the first kernel called "cpu" gives with activations in images16 is what the reference gives.
void check_around(const FusionGroup& group, const std::vector<int>& out, double tolerance, const std::string& where) {
  for (const int chunks : {1, 3}) {
    std::string why;
    const Tensors got = group.run(kImages, chunks, out, &why);
    ASSERT_FALSE(got.empty()) << where << ": " << why;
    EXPECT_EQ(difference(group.expected(out), got, tolerance), "") << where;
  }
}

TEST(ImagesLayout, Pointwise) {
  const Shape shape{32, 5, 3, 7};
  for (const Shape& other : {shape, Shape{5, 1, 1}, {32, 1, 1, 1}, {32, 5, 1, 1}, {1, 7}, {}}) {
    FusionGroup group;
    const int x = group.input(uniform(shape, -1, 1, 1)), y = group.input(uniform(other, -1, 1, 2));
    const std::vector<int> sum = group.then(make_op("add"), {x, y});
    check_around(group, group.then(make_op("relu_grad"), {sum[0], x}), 1e-6, text("beside ", other));
  }
}

TEST(ImagesLayout, Sums) {
  for (const std::vector<std::int64_t>& axes :
       std::vector<std::vector<std::int64_t>>{{0, 2, 3}, {0}, {1}, {2, 3}, {1, 2, 3}, {0, 1}, {3}, {}}) {
    FusionGroup group;
    const int x = group.input(uniform({32, 5, 3, 7}, -1, 1, 1));
    Trace trace({});
    const Tensor traced = trace.input({DType::f32, {32, 5, 3, 7}});
    const Graph graph = trace.finish({sum(traced, axes)});
    check_around(group, group.then(graph.nodes[0].op, {x}), 1e-6, text(axes.size(), " axes"));
  }
}

TEST(ImagesLayout, Pools) {
  for (const Pool2dOptions& options : {Pool2dOptions{},
                                       {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}},
                                       {.kernel = {3, 2}, .stride = {1, 3}}}) {
    const Shape shape{32, 3, 10, 8};
    const auto max = std::make_shared<MaxPool2d>();
    const auto mean = std::make_shared<AvgPool2d>();
    const auto max_grad = std::make_shared<MaxPool2dGrad>();
    max->options = mean->options = max_grad->options = options;
    std::vector<float> values = uniform(shape, -2, 3, 1).values<float>();  // many ties, and half of them below 0
    for (float& value : values) value = std::floor(value);
    FusionGroup forward;
    const int x = forward.input(Tensor::from(shape, values));
    const std::vector<int> y = forward.then(max, {x}), z = forward.then(mean, {x});
    const Tensor best = forward.expected(y)[0];
    for (const bool gated : {false, true}) {
      FusionGroup backward;
      backward.input(Tensor::from(shape, values));
      backward.input(uniform(best.shape(), -1, 1, 3));
      std::vector<int> out = backward.then(max_grad, {0, 1});
      if (gated) out = backward.then(make_op("relu_grad"), {0, out[0]});
      for (const Layout& layout : {Layout{}, Layout{Layout::blocked, 16}, kImages}) {
        std::string why;
        const Tensors got = backward.run(layout, 2, out, &why);
        ASSERT_FALSE(got.empty()) << why;
        EXPECT_EQ(difference(backward.expected(out), got, 1e-6), "") << text(layout, gated ? " gated" : "");
      }
    }
    for (const auto& op : std::vector<std::shared_ptr<const Op>>{max, mean}) {
      FusionGroup group;
      const int in = group.input(Tensor::from(shape, values));
      check_around(group, group.then(op, {in}), 1e-6, std::string(op->name()));
    }
  }
}

// --- a whole net ---

struct Step {
  Tensor loss;
  Tensors weights;
  std::set<std::string> rows;
};

Step train_lenet(std::int64_t images, const PlanOptions& options) {
  Model net = create_model("lenet5", {.seed = 5});
  SGD sgd(named_parameters(net), {.lr = 0.05, .momentum = 0.9});
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < images; ++i) labels.push_back(i % 10);
  const Tensor x = uniform({images, 1, 28, 28}, -1, 1, 1), y = Tensor::from({images}, labels);
  const Plan planned = plan(
      [&](Tensors in) -> Tensors {
        const Tensors loss{cross_entropy(net(in[0]), in[1])};
        sgd.step(gradients(loss, sgd.weights()));
        return loss;
      },
      {x.type(), y.type()}, options);
  Step step;
  for (int i = 0; i < 3; ++i) step.loss = planned({x, y})[0];
  for (const Tensor& weight : sgd.weights()) step.weights.push_back(weight.clone());
  for (const PlanRow& row : planned.rows()) step.rows.insert(text(row.op, ": ", row.kernel));
  return step;
}

TEST(ImagesLayout, LeNetTrainsAsInterpreted) {
  const Step want = train_lenet(32, {.training = true, .interpret = true}), got = train_lenet(32, {.training = true});
  EXPECT_EQ(difference({want.loss}, {got.loss}, 1e-5), "");
  EXPECT_EQ(difference(want.weights, got.weights, 1e-4), "");
  for (const char* row : {"conv2d+relu: cpu nchw16n", "conv2d_input_grad: cpu nchw16n",
                          "conv2d_weight_grad: cpu nchw16n", "max_pool2d_grad+relu_grad: cpu"})
    EXPECT_TRUE(got.rows.count(row)) << "no task is " << row << ": " << join({got.rows.begin(), got.rows.end()}, "; ");
}

TEST(ImagesLayout, LeNetIsTheSameForAnyNumberOfThreads) {
  const int before = threads();
  set_threads(1);
  const Step one = train_lenet(16, {.training = true, .deterministic = true});
  set_threads(3);
  const Step three = train_lenet(16, {.training = true, .deterministic = true});
  set_threads(before);
  EXPECT_EQ(difference(one.weights, three.weights, 0), "");
}

}  // namespace
}  // namespace neurim
