// What the op table cannot say of the network ops: messages, state, randomness, and numbers computed by
// PyTorch.
#include <gtest/gtest.h>

#include "neurim/compile/plan.h"
#include "neurim/ops/adaptive_pool.h"
#include "neurim/ops/add.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/batch_norm.h"
#include "neurim/ops/binary_cross_entropy.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/conv_transpose.h"
#include "neurim/ops/cross_entropy.h"
#include "neurim/ops/dropout.h"
#include "neurim/ops/embedding.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/glu.h"
#include "neurim/ops/group_norm.h"
#include "neurim/ops/interpolate.h"
#include "neurim/ops/layer_norm.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/local_response_norm.h"
#include "neurim/ops/lp_pool.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/one_hot.h"
#include "neurim/ops/pad.h"
#include "neurim/ops/pixel_shuffle.h"
#include "neurim/ops/prelu.h"
#include "neurim/ops/random_uniform.h"
#include "neurim/ops/rms_norm.h"
#include "neurim/ops/selu.h"
#include "neurim/ops/shrink.h"
#include "neurim/ops/sum.h"
#include "tests/ask_group.h"
#include "tests/compositions.h"
#include "tests/errors.h"
#include "tests/op_table.h"

namespace neurim {
namespace {

using op_table::interpret;

Tensor zeros(const Shape& shape) { return Tensor::full({DType::f32, shape}, 0); }

Tensor counting(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor::from(shape, values);
}

void expect_near(const Tensor& actual, const std::vector<double>& expected, double tolerance = 1e-6) {
  const std::vector<double> values = actual.values<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "element " << i;
}

TEST(NetworkOps, MessagesNameBothShapes) {
  EXPECT_EQ(message_of([] { conv2d(zeros({1, 32, 8, 8}), zeros({256, 64, 3, 3})); }),
            "conv2d: input (1,32,8,8) has 32 channels, weight (256,64,3,3) with groups 1 expects 64");
  EXPECT_EQ(message_of([] { conv2d(zeros({1, 4, 8, 8}), zeros({6, 1, 3, 3}), {}, {.groups = 4}); }),
            "conv2d: the 6 output channels of weight (6,1,3,3) do not divide into 4 groups");
  EXPECT_EQ(message_of([] { conv2d(zeros({1, 1, 2, 8}), zeros({1, 1, 3, 3})); }),
            "conv2d: a kernel of height 3 with dilation 1 does not fit into input (1,1,2,8) with padding 0 and 0");
  EXPECT_EQ(message_of([] { conv3d(zeros({1, 2, 4, 4, 4}), zeros({4, 2, 5, 3, 3})); }),
            "conv3d: a kernel of depth 5 with dilation 1 does not fit into input (1,2,4,4,4) with padding 0 and 0");
  EXPECT_EQ(message_of([] { conv_transpose1d(zeros({1, 2, 4}), zeros({2, 3, 3}), {}, {.output_padding = {1}}); }),
            "conv_transpose1d: output_padding 1 of the width has to lie in [0, 1), the stride");
  EXPECT_EQ(message_of([] { conv_transpose2d(zeros({1, 2, 1, 1}), zeros({2, 3, 3, 3}), {}, {.pad = {2, 0, 1, 0}}); }),
            "conv_transpose2d: padding 2 and 1 of the height leaves nothing of input (1,2,1,1) with weight "
            "(2,3,3,3)");
  EXPECT_EQ(message_of([] { max_pool2d(zeros({1, 1, 4, 4}), {.pad = {0, 2, 0, 0}}); }),
            "max_pool2d: padding 2 of the width has to lie in [0, 2), the extent of the kernel, or a window "
            "would see "
            "padding alone");
  EXPECT_EQ(message_of([] { max_pool1d(zeros({1, 4, 4, 4})); }),
            "max_pool1d: takes x(N,C,L), got a tensor of shape (1,4,4,4)");
  EXPECT_EQ(message_of([] { adaptive_avg_pool2d(zeros({1, 4, 0, 4}), {2, 2}); }),
            "adaptive_avg_pool2d: cannot make 2 of height 0 of input (1,4,0,4); both have to be positive");
  EXPECT_EQ(message_of([] { lp_pool2d(zeros({1, 4, 4, 4}), {.norm_type = 0.5}); }),
            "lp_pool2d: norm_type is 0.5, has to be 1 or more");
  EXPECT_EQ(message_of([] { linear(zeros({2, 5}), zeros({3, 4})); }),
            "linear: input (2,5) has 5 features, weight (3,4) expects 4");
  EXPECT_EQ(message_of([] { cross_entropy(zeros({2, 5}), Tensor::full({DType::i64, {3}}, 0)); }),
            "cross_entropy: target is (3), logits (2,5) expect (2)");
}

TEST(NetworkOps, WindowCountIsPyTorchs) {
  EXPECT_EQ(window_count(7, 3, 2, 1, 0, 0), 3);
  EXPECT_EQ(window_count(8, 3, 2, 1, 0, 0), 3);
  EXPECT_EQ(window_count(8, 3, 2, 1, 0, 0, true), 4);
  EXPECT_EQ(window_count(5, 2, 3, 1, 1, 1), 2);
  EXPECT_EQ(window_count(5, 2, 3, 1, 1, 1, true), 2) << "a third window would start in the right padding";
  EXPECT_EQ(window_count(112, 3, 2, 1, 1, 1), 56);
  EXPECT_EQ(window_count(3, 3, 1, 2, 0, 0), 0);
  EXPECT_EQ(window_count(2, 3, 2, 1, 0, 0, true), 1);
}

TEST(NetworkOps, PoolingAgreesWithPyTorch) {
  const Tensor x = counting({1, 1, 5, 5});
  expect_near(max_pool2d(x, {.pad = {1, 1, 1, 1}, .ceil_mode = true}), {0, 2, 4, 10, 12, 14, 20, 22, 24});
  expect_near(avg_pool2d(x, {.ceil_mode = true}), {3, 5, 6.5, 13, 15, 16.5, 20.5, 22.5, 24});
  Pool2dOptions options{.kernel = {3, 3}, .pad = {1, 1, 1, 1}, .ceil_mode = true};
  expect_near(avg_pool2d(x, options), {4.0 / 3, 11.0 / 3, 31.0 / 3, 18}, 1e-5);
  options.count_include_pad = false;
  expect_near(avg_pool2d(x, options), {3, 5.5, 15.5, 18});
}

TEST(NetworkOps, MaxPoolingPassesNanOnAndGivesTiesToTheFirst) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float with_nan[] = {1, nan, 3, 2};
  EXPECT_TRUE(std::isnan(max_pool2d(Tensor::from(Shape{1, 1, 2, 2}, with_nan)).item()));

  const float ties[] = {1, 3, 3, 3, 0, 0, 0, 0};
  const Tensor x = Tensor::from(Shape{1, 2, 2, 2}, ties);
  Trace trace({});
  const Tensor in = trace.input(x.type());
  const Tensor y = max_pool2d(in), dx = gradients(Tensors{y}, Tensors{in})[0];
  expect_near(interpret(trace.finish({dx}), {x})[0], {0, 1, 0, 0, 1, 0, 0, 0});
}

TEST(NetworkOps, MaximaOverThreeAxesAndOverUnevenWindowsGoToTheFirst) {
  const auto gradient = [](const Shape& shape, auto pool) {
    Trace trace({});
    const Tensor in = trace.input({DType::f32, shape});
    const Tensor y = pool(in), dx = gradients(Tensors{y}, Tensors{in})[0];
    return interpret(trace.finish({dx}), {zeros(shape)})[0];
  };
  expect_near(gradient({1, 1, 2, 2, 2}, [](const Tensor& x) { return max_pool3d(x); }), {1, 0, 0, 0, 0, 0, 0, 0});
  expect_near(gradient({1, 1, 5}, [](const Tensor& x) { return adaptive_max_pool1d(x, 3); }), {1, 1, 0, 1, 0});
}

TEST(NetworkOps, TheNormOfZerosHasNoGradient) {
  Trace trace({});
  const Tensor in = trace.input({DType::f32, {1, 1, 2, 4}});
  const Tensor y = lp_pool2d(in), dx = gradients(Tensors{y}, Tensors{in})[0];
  const float values[] = {0, 0, 3, 0, 0, 0, 4, 0};
  const Tensors out = interpret(trace.finish({y, dx}), {Tensor::from(Shape{1, 1, 2, 4}, values)});
  expect_near(out[0], {0, 5});
  expect_near(out[1], {0, 0, 0.6, 0, 0, 0, 0.8, 0});
}

TEST(NetworkOps, VectorsTakePartInMatmul) {
  const Tensor matrix = counting({2, 3}), left = counting({2}), right = counting({3});
  expect_near(matmul(matrix, right), {5, 14});
  expect_near(matmul(left, matrix), {3, 4, 5});
  EXPECT_EQ(matmul(right, right).shape(), Shape{});
  EXPECT_EQ(matmul(right, right).item(), 5);
}

TEST(NetworkOps, BatchNormMovesRunningStatisticsInTrainingAlone) {
  const float values[] = {1, 10, 2, 30, 6, 50};
  const Tensor x = Tensor::from(Shape{3, 2}, values);
  const Tensor mean = zeros({2}), var = Tensor::full({DType::f32, {2}}, 1);
  {
    Trace trace({.training = true});
    const Tensor y = batch_norm(trace.input(x.type()), {}, {}, mean, var);
    const Tensors out = interpret(trace.finish({y}), {x});
    expect_near(out[0], {-0.9258190, -1.2247449, -0.4629095, 0, 1.3887286, 1.2247448}, 1e-5);
  }
  expect_near(mean, {0.3, 3.0});
  expect_near(var, {1.6, 40.9}, 1e-5);
  {
    Trace trace({});
    const Tensor y = batch_norm(trace.input(x.type()), {}, {}, mean, var, 0.1, 0);
    const Graph graph = trace.finish({y});
    EXPECT_TRUE(graph.commits.empty());
    EXPECT_NEAR(interpret(graph, {x})[0].values<double>()[0], 0.7 / std::sqrt(1.6), 1e-6);
  }
  Trace trace({.training = true});
  EXPECT_EQ(message_of([&] { batch_norm(zeros({1, 2}), {}, {}, mean, var); }),
            "batch_norm: input (1,2) has one value per channel, training needs more: use a larger batch or "
            "drop the last, "
            "smaller one");
}

/// Frozen, a norm goes into the convolution before it, or is a product and a sum: also where others read the
/// convolution too.
TEST(NetworkOps, BatchNormOfConstantStatistics) {
  for (const Shape& shape : {Shape{2, 20, 6, 7}, {3, 20, 9}, {5, 20}}) {
    const auto numbers = [](const Shape& of, double low, std::uint64_t seed) {
      return op_table::uniform(of, low, 1.5, seed);
    };
    const Tensor x = numbers(shape, -1.5, 1), gamma = numbers({20}, -1.5, 2), beta = numbers({20}, -1.5, 3),
                 mean = numbers({20}, -1.5, 4), var = numbers({20}, 0.1, 5), weight = numbers({20, 20, 3, 3}, -1.5, 6),
                 bias = numbers({20}, -1.5, 7);
    const auto norm = [&](const Tensor& of) {
      return apply1(std::make_shared<BatchNorm>(), {of, gamma, beta, mean, var});
    };
    const auto net = [&](const Tensors& in) -> Tensors {
      if (in[0].rank() != 4) return {norm(in[0])};
      const Tensor y = conv2d(norm(in[0]), weight, bias), folded = norm(conv2d(y, weight, bias));
      return {norm(y) + pad(folded, {0, 0, 1, 1, 0, 0, 1, 1})};
    };
    const Plan frozen = plan(net, {x.type()}, {.freeze = true});
    EXPECT_EQ(op_table::difference(plan(net, {x.type()}, {.interpret = true})({x}), frozen({x}), 1e-5), "") << shape;
    for (const PlanRow& row : frozen.rows())
      EXPECT_EQ(row.op.find("batch_norm"), row.op.npos) << shape << ' ' << row.op;
  }
}

TEST(NetworkOps, BatchNormKeepsWideStatisticsBesideNarrowInputs) {
  const Tensor wide = Tensor::full({DType::f32, {3}}, 1);
  const Tensors out = neurim::apply(make_op("batch_norm_train"),
                                    {Tensor::full({DType::bf16, {2, 3}}, 0.5), wide, wide});
  EXPECT_EQ(out[0].dtype(), DType::bf16);
  EXPECT_EQ(out[1].dtype(), DType::f32);
}

TEST(NetworkOps, CrossEntropyAgreesWithPyTorch) {
  const float logits[] = {1, 2, 3, 0, -1, 0.5, 2, 2, -2, 0.3f, 0.1f, 4}, class_weights[] = {1, 2, 0.5};
  const std::int64_t classes[] = {2, 0, 1, 0};
  const Tensor x = Tensor::from(Shape{4, 3}, logits), target = Tensor::from(Shape{4}, classes);
  const Tensor weights = Tensor::from(Shape{3}, class_weights);
  auto loss = [&](double smoothing, const char* reduction, const Tensor& w) {
    return cross_entropy(x, target, {smoothing, 1, reduction}, w).item();
  };
  EXPECT_NEAR(loss(0, "mean", {}), 1.751906793628826, 1e-6);
  EXPECT_NEAR(loss(0, "mean", weights), 2.020766959465715, 1e-6);
  EXPECT_NEAR(loss(0.1, "mean", weights), 2.1212905479605126, 1e-6);
  EXPECT_NEAR(loss(0, "sum", weights), 5.051917398664288, 1e-6);
  EXPECT_NEAR(loss(0.1, "sum", weights), 5.303226369901282, 1e-6);
}

TEST(NetworkOps, BinaryCrossEntropyAgreesWithPyTorchForLogitsOfAnySize) {
  const float logits[] = {0.5, -2, 30, -40, 1, 100}, targets[] = {1, 0, 0.25, 0, 1, 1}, weights[] = {1, 2, 0.5};
  const Tensor x = Tensor::from(Shape{2, 3}, logits), y = Tensor::from(Shape{2, 3}, targets);
  EXPECT_NEAR(binary_cross_entropy(x, y).item(), 3.902377780456899, 1e-6);
  EXPECT_NEAR(binary_cross_entropy(x, y, "sum", Tensor::from(Shape{3}, weights)).item(), 23.727528370259606, 1e-5);
  const float low[] = {-30}, no[] = {0};  // nothing cancels: the loss is e^-30
  const double loss = binary_cross_entropy(Tensor::from(Shape{1}, low), Tensor::from(Shape{1}, no)).item();
  EXPECT_NEAR(loss / 9.357622968839736e-14, 1, 1e-5);
  EXPECT_EQ(message_of([] { binary_cross_entropy(zeros({2, 5}), zeros({5})); }),
            "binary_cross_entropy: the logits are f32(2,5), the target is f32(5); they have to be equal: one "
            "number "
            "in [0, 1] for each logit");
  EXPECT_EQ(message_of([] { binary_cross_entropy(zeros({2, 5}), zeros({2, 5}), "mean", zeros({2})); }),
            "binary_cross_entropy: pos_weight is f32(2), which does not broadcast to the logits f32(2,5); one number a "
            "class is (5) "
            "for logits (…,C), (C,1,1) for (N,C,H,W)");
}

TEST(NetworkOps, CrossEntropyOfOddTargets) {
  const std::int64_t ignored[] = {-100, -100}, outside[] = {0, 3};
  const Tensor x = zeros({2, 3});
  EXPECT_TRUE(std::isnan(cross_entropy(x, Tensor::from(Shape{2}, ignored)).item())) << "a mean over nothing";
  EXPECT_EQ(cross_entropy(x, Tensor::from(Shape{2}, ignored), {.reduction = "sum"}).item(), 0);
  try {
    cross_entropy(x, Tensor::from(Shape{2}, outside));
    ADD_FAILURE() << "class 3 of 3 was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::data);
    EXPECT_STREQ(error.what(), "cross_entropy: the target at (1) is 3, which is not in [0,3) (-100 is ignored)");
  }
}

TEST(NetworkOps, AnIndexOutsideItsRangeIsNamed) {
  const Tensor words = counting({5, 4});
  words.set_name("words.weight");
  const auto integers = [](const Shape& shape, const std::vector<std::int64_t>& values) {
    return Tensor::from(shape, values);
  };
  EXPECT_EQ(message_of([&] { embedding(integers({2, 2}, {0, 4, 5, 9}), words); }),
            "words: gather: the index at (1,0) is 5, which is not in [-5,5)");
  EXPECT_EQ(message_of([&] { one_hot(integers({}, {-1}), 3); }), "one_hot: the index is -1, which is not in [0,3)");
  // In a plan what is computed on the way may be overwritten by what follows.
  const Plan step = plan([&](const Tensors& in) { return Tensors{cross_entropy(embedding(in[0] + 1, words), in[1])}; },
                         {{DType::i64, {3}}, {DType::i64, {3}}});
  const Tensor fine = integers({3}, {0, 1, 3});
  EXPECT_EQ(message_of([&] { step({fine, fine}); }), "nothing was thrown");
  EXPECT_EQ(message_of([&] { step({integers({3}, {0, 4, 9}), fine}); }),
            "words: gather: the index at (1) is 5, which is not in [-5,5); nothing was changed by this step");
  EXPECT_EQ(message_of([&] { step({fine, integers({3}, {0, -100, 4})}); }),
            "cross_entropy: the target at (2) is 4, which is not in [0,4) (-100 is ignored); nothing was changed by "
            "this step");
}

TEST(NetworkOps, DropoutActsInTrainingAloneAndKeepsItsMaskForTheGradient) {
  const Tensor x = Tensor::full({DType::f32, {100, 100}}, 2);
  expect_near(sum(dropout(x, 0.25)), {20000});

  const std::int64_t words[] = {7, 3};
  const Tensor key = Tensor::from(Shape{2}, words);
  Trace trace({.training = true, .random = key});
  const Tensor in = trace.input(x.type());
  const Tensor first = dropout(in, 0.25), second = dropout(in, 0.25), total = sum(first);
  const Tensor dx = gradients(Tensors{total}, Tensors{in})[0];
  const Graph graph = trace.finish({first, second, dx});

  const Tensors out = interpret(graph, {x});
  const std::vector<double> a = out[0].values<double>(), b = out[1].values<double>(), d = out[2].values<double>();
  double kept = 0, alike = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], a[i] == 0 ? 0 : 2 / 0.75, 1e-6);
    ASSERT_NEAR(a[i], 2 * d[i], 1e-6) << "the gradient has another mask";
    kept += a[i] != 0;
    alike += (a[i] != 0) == (b[i] != 0);
  }
  // Four stds of 10,000 draws.
  EXPECT_NEAR(kept / 1e4, 0.75, 0.0174);
  EXPECT_NEAR(alike / 1e4, 0.625, 0.0194) << "two dropouts of one trace share numbers";

  EXPECT_EQ(key.values<std::int64_t>()[1], 4) << "a replay moves the key on";
  const std::vector<double> next = interpret(graph, {x})[0].values<double>();
  EXPECT_NE(a, next);
}

/// What a function makes of x in a trace for training with the key {7, 3}.
Tensor trained(const std::function<Tensor(const Tensor&)>& function, const Tensor& x) {
  const std::int64_t words[] = {7, 3};
  Trace trace({.training = true, .random = Tensor::from(Shape{2}, words)});
  return interpret(trace.finish({function(trace.input(x.type()))}), {x})[0];
}

TEST(NetworkOps, WholeChannelsAndWholeSamplesDrop) {
  const Tensor ones = Tensor::full({DType::f32, {40, 50, 2, 3}}, 1);
  const auto check = [&](const Tensor& y, std::int64_t together) {
    const std::vector<double> values = y.values<double>();
    std::int64_t kept = 0;
    const auto blocks = static_cast<std::int64_t>(values.size()) / together;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const double first = values[block * together];
      EXPECT_TRUE(first == 0 || std::abs(first - 4.0 / 3) < 1e-6) << first;
      kept += first != 0;
      for (std::int64_t i = 0; i < together; ++i) ASSERT_EQ(values[block * together + i], first);
    }
    // Four stds.
    const double count = static_cast<double>(blocks);
    EXPECT_NEAR(static_cast<double>(kept) / count, 0.75, 4 * std::sqrt(0.75 * 0.25 / count));
  };
  check(trained([](const Tensor& x) { return dropout2d(x, 0.25); }, ones), 6);
  check(trained([](const Tensor& x) { return drop_path(x, 0.25); }, ones), 300);
  for (const auto& same : {dropout2d(ones, 0.5), drop_path(ones, 0.5), alpha_dropout(ones, 0.5)})
    EXPECT_EQ(same.value(), ones.value()) << "outside training nothing drops";
}

TEST(NetworkOps, AlphaDropoutKeepsMeanAndVariance) {
  Random random(5);
  std::vector<float> values(40000);
  for (float& value : values) value = static_cast<float>(random.normal());
  const Tensor x = Tensor::from(Shape{40000}, values);
  const std::vector<double> y = trained([](const Tensor& t) { return alpha_dropout(t, 0.3); }, x).values<double>();
  const double a = 1 / std::sqrt(0.7 * (1 + 0.3 * 1.7580993408473766 * 1.7580993408473766)),
               b = a * 0.3 * 1.7580993408473766, gone = -a * 1.7580993408473766 + b;
  double mean = 0, square = 0;
  int dropped = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    mean += y[i] / 4e4, square += y[i] * y[i] / 4e4;
    const bool drops = std::abs(y[i] - gone) < 1e-5;
    dropped += drops;
    if (!drops) {
      ASSERT_NEAR(y[i], a * static_cast<double>(values[i]) + b, 1e-5);
    }
  }
  EXPECT_NEAR(dropped / 4e4, 0.3, 0.01);
  EXPECT_NEAR(mean, 0, 0.025);
  EXPECT_NEAR(square - mean * mean, 1, 0.04);
}

TEST(NetworkOps, InstanceNormMovesRunningStatisticsInTrainingAlone) {
  const float values[] = {1, 3, 10, 30, 5, 9, 20, 20};  // two samples of two channels of two
  const Tensor x = Tensor::from(Shape{2, 2, 2}, values), mean = zeros({2}), var = Tensor::full({DType::f32, {2}}, 1);
  const auto norm = [&](const Tensor& t) { return instance_norm(t, {}, {}, mean, var, 0.5, 0); };
  expect_near(trained(norm, Tensor::from(Shape{2, 2, 2}, std::vector<float>{1, 3, 10, 30, 5, 9, 20, 24})),
              {-1, 1, -1, 1, -1, 1, -1, 1});
  expect_near(mean, {2.25, 10.5});         // means 2, 7 and 20, 22
  expect_near(var, {3, 0.5 + 0.5 * 104});  // variances 2, 8 and 200, 8
  const std::vector<double> before = mean.values<double>();
  expect_near(norm(x), batch_norm(x, {}, {}, mean, var, 0, 0).values<double>());
  EXPECT_EQ(mean.values<double>(), before);
}

TEST(NetworkOps, NormsKeepWideWeightsBesideNarrowInputs) {
  const Tensor x = Tensor::full({DType::bf16, {2, 3}}, 0.5), wide = Tensor::full({DType::f32, {3}}, 1);
  EXPECT_EQ(layer_norm(x, {3}, wide, wide).dtype(), DType::bf16);
  EXPECT_EQ(rms_norm(x, {3}, wide).dtype(), DType::bf16);
  EXPECT_EQ(group_norm(x, 3, wide, wide).dtype(), DType::bf16);
}

TEST(NetworkOps, NormsOfLongRowsAndLargeMeans) {
  // Two passes over a row: variance 0.25 beside a mean of 4096 would be lost in E[x^2] - E[x]^2.
  std::vector<float> values(5000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 4095.5f : 4096.5f;
  const std::vector<double> y = layer_norm(Tensor::from(Shape{2, 2500}, values), {2500}, {}, {}, 0).values<double>();
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], i % 2 == 0 ? -1 : 1, 1e-5) << i;
}

TEST(NetworkOps, LocalResponseNormTakesAnyRank) {
  const LocalResponseNormOptions options{.size = 3, .alpha = 0.5};
  const std::vector<double> expected = local_response_norm(counting({2, 5, 3, 2}), options).values<double>();
  EXPECT_EQ(local_response_norm(reshape(counting({60}), {2, 5, 6}), options).values<double>(), expected);
  EXPECT_EQ(local_response_norm(reshape(counting({60}), {2, 5, 3, 1, 2}), options).values<double>(), expected);
}

TEST(NetworkOps, PixelsShuffleAndComeBack) {
  const Tensor x = counting({2, 8, 2, 3}), y = pixel_shuffle(x, 2);
  ASSERT_EQ(y.shape(), (Shape{2, 2, 4, 6}));
  const std::vector<double> values = y.values<double>();
  // Row 1, column 0 of channel 1 is pixel (0,0) of channel 1 * 4 + 1 * 2 + 0.
  EXPECT_EQ(values[24 + 6], 6 * 6);
  EXPECT_EQ(pixel_unshuffle(y, 2).values<double>(), x.values<double>());
  EXPECT_EQ(channel_shuffle(counting({1, 6, 1}), 2).values<double>(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

TEST(NetworkOps, CompositionsInEveryDType) {
  for (const Composition& each : compositions()) {
    const Sample sample{nullptr, each.in, each.fill};
    for (const DType dtype : op_table::dtypes(sample)) {
      const Types types = op_table::in_dtype(sample.in, dtype);
      const Tensors in = op_table::inputs(sample, types, 1);
      const Tensors exact = op_table::converted(in, op_table::in_dtype(types, DType::f64));
      const Tensor out = each.function(in);
      EXPECT_EQ(out.dtype(), dtype) << each.name;
      EXPECT_EQ(op_table::difference({each.function(exact)}, {out}, 1e-6 + 4 * op_table::epsilon(dtype)), "")
          << each.name << ' ' << name(dtype);
    }
  }
}

TEST(NetworkOps, MessagesOfShapesAndModes) {
  const Tensor x = zeros({2, 6, 5});
  EXPECT_EQ(message_of([&] { layer_norm(x, {4}, zeros({4}), zeros({4})); }),
            "layer_norm: the normalized shape (4) is not that of the last axes of the input (2,6,5)");
  EXPECT_EQ(message_of([&] { layer_norm(x, {5}, zeros({4})); }),
            "layer_norm: a weight or bias (4) has not the normalized shape (5)");
  EXPECT_EQ(message_of([&] { group_norm(x, 4); }),
            "group_norm: the 6 channels of input (2,6,5) do not divide into 4 groups");
  EXPECT_EQ(message_of([&] { instance_norm(zeros({2, 3, 1})); }),
            "instance_norm: input (2,3,1) has one value per channel and sample, which has no variance: use a "
            "larger input");
  EXPECT_EQ(message_of([&] { interpolate(x, {.size = {3}, .mode = "bilinear"}); }),
            "interpolate: mode is 'bilinear', input (2,6,5) takes nearest, nearest-exact, linear");
  EXPECT_EQ(message_of([&] { interpolate(x, {.size = {3}, .scale_factor = {2}}); }),
            "interpolate: takes size or scale_factor, one number, for input (2,6,5), got 1 and 1");
  EXPECT_EQ(message_of([&] { pad(x, {0, 0, 5, 0, 0, 0}, "reflect"); }),
            "pad: mode reflect adds up to 4 along axis 2 of (2,6,5), not 5");
  EXPECT_EQ(message_of([&] { pad(x, {0, 0, 1, 0, 0, 1}, "mirror"); }),
            "pad: mode is 'mirror', but has to be reflect, replicate or circular");
  EXPECT_EQ(message_of([&] { glu(x); }), "glu: axis 2 of (2,6,5) has an odd size and no halves");
  EXPECT_EQ(message_of([&] { prelu(x, zeros({5})); }), "prelu: weight is (5), input (2,6,5) takes (1) or (6)");
  EXPECT_EQ(message_of([&] { softshrink(x, -1); }), "shrink: lambd is -1, but has to be 0 or more");
  EXPECT_EQ(message_of([&] { celu(x, 0); }), "celu: alpha is 0, but has to be above 0");
  EXPECT_EQ(message_of([&] { unflatten(x, 1, {4, -1}); }), "unflatten: axis 1 of (2,6,5) does not divide into (4,-1)");
  EXPECT_EQ(message_of([&] { flatten(x, 2, 1); }), "flatten: start axis 2 of (2,6,5) is behind end axis 1");
  EXPECT_EQ(message_of([&] { alpha_dropout(x, 1); }), "alpha_dropout: p is 1, has to lie in [0, 1)");
  EXPECT_EQ(message_of([&] { embedding(Tensor::full({DType::i64, {2}}, 0), zeros({3, 2}), 3); }),
            "embedding: padding_idx 3 names no row of the weight (3,2)");
}

TEST(NetworkOps, RandomUniformFillsItsRange) {
  seed_random(1);
  const std::vector<double> a = random_uniform({4096}, -1, 3).values<double>();
  const std::vector<double> b = random_uniform({4096}, -1, 3).values<double>();
  EXPECT_NE(a, b);
  double mean = 0;
  for (const double value : a) {
    ASSERT_GE(value, -1);
    ASSERT_LE(value, 3);
    mean += value / 4096;
  }
  EXPECT_NEAR(mean, 1, 4 * 4 / std::sqrt(12 * 4096.0));
  seed_random(1);
  EXPECT_EQ(random_uniform({4096}, -1, 3).values<double>(), a);
}

}  // namespace
}  // namespace neurim
