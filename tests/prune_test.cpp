// Channels that are taken away: which go together, how many stay, and what the rest answers.
#include "neurim/quantize/prune.h"

#include <cmath>

#include "errors.h"
#include "neurim/core/random.h"
#include "neurim/graph/value.h"
#include "neurim/model/function_model.h"
#include "neurim/neurim.h"
#include "neurim/quantize/aware_training.h"

namespace neurim {

namespace {

Tensor drawn(const Shape& shape, std::uint64_t seed, double scale = 1) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(std::int64_t{shape.numel()}));
  for (float& value : values) value = static_cast<float>(scale * random.normal());
  return Tensor::from(shape, values);
}

/// A weight whose rows in [first, last) are zero.
Tensor zeroed(const Shape& shape, std::uint64_t seed, std::int64_t first, std::int64_t last) {
  std::vector<float> values = drawn(shape, seed, 0.1).values<float>();
  const std::int64_t row = std::ssize(values) / std::int64_t{shape[0]};
  std::fill(values.begin() + first * row, values.begin() + last * row, 0.0f);
  return Tensor::from(shape, values);
}

FloatModel traced(const std::function<Tensor(Tensor)>& net, const Shape& image) {
  Type input{DType::f32, {Dim::symbol("batch")}};
  for (const Dim size : image) input.shape.push_back(size);
  return float_model(
      trace_function([&](const Tensors& in) { return Tensors{net(in[0])}; }, {{"input", input}}, {"logits"}));
}

std::vector<float> answers(const FloatModel& model, const Tensor& x) {
  return Compiled(model.function.graph, {.freeze = true})({x})[0].values<float>();
}

/// A residual block, a depthwise convolution, squeeze and excitation, and flattened pixels; of 32 channels everywhere
/// the second half is zero wherever it is made.
FloatModel half_zero() {
  static const Tensor stem = zeroed({32, 3, 3, 3}, 1, 16, 32), inner = zeroed({32, 32, 3, 3}, 2, 16, 32),
                      back = zeroed({32, 32, 1, 1}, 3, 16, 32), depthwise = zeroed({32, 1, 3, 3}, 4, 16, 32),
                      squeeze = zeroed({32, 32, 1, 1}, 5, 16, 32), excite = zeroed({32, 32, 1, 1}, 6, 16, 32),
                      hidden = zeroed({32, 32 * 16}, 7, 16, 32), last = drawn({5, 32}, 8, 0.1);
  const auto net = [](const Tensor& x) {
    const Conv2dOptions same{.pad = {1, 1, 1, 1}};
    const Tensor first = relu(conv2d(x, stem, {}, same));
    Tensor y = first + conv2d(relu(conv2d(first, inner, {}, same)), back);
    y = relu(conv2d(y, depthwise, {}, {.pad = {1, 1, 1, 1}, .groups = 32}));
    y = y * sigmoid(conv2d(relu(conv2d(global_avg_pool2d(y), squeeze)), excite));
    y = max_pool2d(y, {.kernel = {2, 2}, .stride = {2, 2}});
    return linear(relu(linear(flatten(y), hidden)), last);
  };
  return traced(net, {3, 8, 8});
}

TEST(Prune, ChannelsOfZerosGoFirstAndChangeNothing) {
  const FloatModel model = half_zero();
  const PrunedModel pruned = prune_channels(model, {.macs = 0.35, .multiple = 4});
  ASSERT_EQ(pruned.groups.size(), 4u);  // the residual's, the inner one, the squeezed one, the hidden layer's
  for (const ChannelGroup& group : pruned.groups) {
    EXPECT_EQ(group.importance.size(), 32u);
    EXPECT_EQ(group.kept, 16) << group.layers[0];
  }
  EXPECT_LE(pruned.after, 0.35 * static_cast<double>(pruned.before));
  const Tensor x = drawn({2, 3, 8, 8}, 9);
  const std::vector<float> before = answers(model, x), after = answers(pruned.model, x);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(before[i], after[i], 1e-3 * (1 + std::abs(before[i])));
}

TEST(Prune, TheShareOfMultiplyAddsIsKeptTo) {
  const FloatModel model = half_zero();
  for (const double macs : {0.9, 0.6, 0.2}) {
    const PrunedModel pruned = prune_channels(model, {.macs = macs, .multiple = 8});
    EXPECT_LE(static_cast<double>(pruned.after), macs * static_cast<double>(pruned.before));
    for (const ChannelGroup& group : pruned.groups) EXPECT_EQ(group.kept % 8, 0);
  }
  EXPECT_NE(error_of([&] { prune_channels(model, {.macs = 0.001}); }, Fault::usage).find("at least"),
            std::string::npos);
  for (const double macs : {0.0, 1.0, -1.0}) EXPECT_THROW(prune_channels(model, {.macs = macs}), Error);
}

/// A weight that two layers read, flattened pixels that are added up, and constants behind them: what is left computes
/// with the channels of one choice, so that a network of which half is zero answers as before.
TEST(Prune, ChannelsOfSharedWeightsAndFlattenedPixelsGoTogether) {
  const Tensor first = zeroed({32, 3, 1, 1}, 1, 8, 24), again = zeroed({32, 32, 1, 1}, 2, 8, 24),
               branch = zeroed({32, 3, 3, 3}, 3, 8, 24), last = drawn({5, 32 * 16}, 4, 0.1),
               scale = drawn({32 * 16}, 5);
  const auto net = [&](const Tensor& x) {
    Tensor y = relu(conv2d(x, first));
    for (int i = 0; i < 2; ++i) y = relu(conv2d(y, again));
    const Tensor z = relu(conv2d(x, branch, {}, {.pad = {1, 1, 1, 1}}));
    return linear(relu((flatten(y) + flatten(z)) * scale), last);
  };
  const FloatModel model = traced(net, {3, 4, 4});
  const PrunedModel pruned = prune_channels(model, {.macs = 0.4, .multiple = 4});
  ASSERT_EQ(pruned.groups.size(), 1u);
  EXPECT_EQ(pruned.groups[0].kept, 16);
  const Tensor x = drawn({2, 3, 4, 4}, 9);
  const std::vector<float> before = answers(model, x), after = answers(pruned.model, x);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(before[i], after[i], 1e-4 * (1 + std::abs(before[i])));
}

/// What joins channels by their places, groups them or moves them to other axes stays as it is.
TEST(Prune, OtherOpsKeepTheirChannels) {
  const Tensor first = drawn({32, 3, 1, 1}, 1), second = drawn({32, 16, 1, 1}, 2), third = drawn({32, 64, 1, 1}, 3),
               last = drawn({5, 32}, 4);
  const auto net = [&](const Tensor& x) {
    const Tensor a = relu(conv2d(x, first)), b = conv2d(a, second, {}, {.groups = 2});
    const Tensor c = conv2d(concat({a, b}, 1), third);
    return linear(flatten(global_avg_pool2d(relu(c))), last);
  };
  const FloatModel model = traced(net, {3, 8, 8});
  const PrunedModel pruned = prune_channels(model, {.macs = 0.9});
  ASSERT_EQ(pruned.groups.size(), 1u);
  EXPECT_LT(pruned.groups[0].kept, 32);
  EXPECT_EQ(answers(pruned.model, drawn({2, 3, 8, 8}, 5)).size(), 10u);
}

/// What is trained rounds as what is written, and its gradient is that of f32 where nothing is cut off.
TEST(AwareTraining, AnswersAsTheQuantizedModel) {
  const FloatModel model = half_zero();
  const Tensor x = drawn({4, 3, 8, 8}, 11);
  const Statistics statistics = statistics_of(model, {x});
  for (const DType activations : {DType::u8, DType::i8}) {
    const std::vector<bool> all(model.layers.size(), true);
    const ByteOptions options{.method = RangeMethod::minmax, .activations = activations, .correct_bias = false};
    const AwareModel aware(model, statistics, all, options);
    const FloatModel written{quantized(model, statistics, all, options), {}}, trained{aware.function(), {}};
    const std::vector<float> exact = answers(written, x), found = answers(trained, x), plain = answers(model, x);
    double off = 0, rounding = 0, size = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      off += std::pow(exact[i] - found[i], 2), rounding += std::pow(exact[i] - plain[i], 2);
      size += std::pow(exact[i], 2);
    }
    EXPECT_LT(off, 0.01 * rounding);
    EXPECT_GT(rounding, 1e-8 * size);
  }
}

TEST(AwareTraining, WeightsLearnAndComeBack) {
  const FloatModel model = half_zero();
  const AwareModel aware(model, 8, 0, std::vector<bool>(model.layers.size(), true));
  Model net = model_of(aware.function(), "net");
  SGD sgd(named_parameters(net), {.lr = 1e-3});
  EXPECT_EQ(named_parameters(net).size(), model.layers.size());  // there are no biases
  const auto step = training_step(net, sgd, {});
  const Plan plan = neurim::plan(step, batch_types(4, 3, 8, 8), {.training = true});
  const Tensor x = drawn({4, 3, 8, 8}, 11), labels = Tensor::from({4}, std::vector<std::int64_t>{0, 1, 2, 3});
  const double first = plan({x, labels})[0].item();
  double last = first;
  for (int i = 0; i < 20; ++i) last = plan({x, labels})[0].item();
  EXPECT_LT(last, first);
  const FloatModel trained = aware.trained();
  const int weight = model.layers[0].weight;
  const std::vector<float> before = model.function.graph.values[weight].captured.values<float>(),
                           after = trained.function.graph.values[weight].captured.values<float>();
  EXPECT_NE(before, after);
  EXPECT_EQ(trained.layers.size(), model.layers.size());
}

}  // namespace

}  // namespace neurim
