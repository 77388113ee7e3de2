// Fusion groups, which a kernel takes in one go, planned against interpreted, and every kernel of groups reached.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "neurim/backend/cpu/common/tiles.h"
#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/core/device.h"
#include "neurim/core/random.h"
#include "neurim/graph/kernel.h"
#include "neurim/hardware/isa.h"
#include "neurim/hardware/machine.h"
#include "neurim/ops/add.h"
#include "neurim/ops/batch_norm.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/hardswish.h"
#include "neurim/ops/layer_norm.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/quantize.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/sigmoid.h"
#include "neurim/ops/silu.h"
#include "neurim/ops/sum.h"
#include "tests/has_onednn.h"

namespace neurim {
namespace {

Tensor random_tensor(const Shape& shape, std::uint64_t seed, double mean = 0) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (float& value : values) value = static_cast<float>(mean + random.normal());
  return Tensor::from(shape, values);
}

/// A residual block: relu(bn2(conv2(relu(bn1(conv1(x))))) + x'), where x' is x or a strided 1x1 convolution of it.
struct Block {
  std::int64_t images, in, out, size, kernel, stride;
  double mean;  ///< of the input: batch statistics have to be sound far from zero
};
class Fusion : public testing::TestWithParam<Block> {
 protected:
  /// The loss, the gradients of all parameters and of x, and the running statistics after one step.
  Tensors step(const PlanOptions& options) const {
    const Block& b = GetParam();
    const Tensor w1 = random_tensor({b.out, b.in, b.kernel, b.kernel}, 1),
                 w2 = random_tensor({b.out, b.out, b.kernel, b.kernel}, 2), w3 = random_tensor({b.out, b.in, 1, 1}, 3),
                 g1 = random_tensor({b.out}, 4, 1), b1 = random_tensor({b.out}, 5), g2 = random_tensor({b.out}, 6, 1),
                 b2 = random_tensor({b.out}, 7), mean = random_tensor({b.out}, 8), var = random_tensor({b.out}, 9, 5),
                 seed = random_tensor({b.images, b.out, out_size(), out_size()}, 10);
    const Tensor x = random_tensor({b.images, b.in, b.size, b.size}, 11, b.mean);
    const Conv2dOptions first{.stride = {b.stride, b.stride}, .pad = pads()}, second{.pad = pads()},
        shortcut{.stride = {b.stride, b.stride}};
    const Plan planned = plan(
        [&](Tensors in) -> Tensors {
          const Tensor a = relu(batch_norm(conv2d(in[0], w1, {}, first), g1, b1, mean, var));
          const Tensor s = b.in == b.out && b.stride == 1 ? in[0] : conv2d(in[0], w3, {}, shortcut);
          const Tensor y = relu(add(batch_norm(conv2d(a, w2, {}, second), g2, b2, {}, {}), s));
          const Tensors of{y}, wrt{in[0], w1, w2, g1, b1, g2, b2}, seeds{in[1]};
          Tensors out = gradients(of, wrt, seeds);
          out.push_back(y);
          return out;
        },
        {x.type(), seed.type()}, options);
    Tensors out = planned({x, seed});
    out.push_back(mean.clone());
    out.push_back(var.clone());
    return out;
  }

  std::array<std::int64_t, 4> pads() const {
    const std::int64_t pad = GetParam().kernel / 2;
    return {pad, pad, pad, pad};
  }
  std::int64_t out_size() const {
    const Block& b = GetParam();
    return (b.size + 2 * (b.kernel / 2) - b.kernel) / b.stride + 1;
  }
};

/// The largest difference relative to the largest magnitude.
double difference(const Tensor& a, const Tensor& b) {
  const auto x = a.values<double>(), y = b.values<double>();
  double most = 0, scale = 1e-30;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double apart = std::abs(x[i] - y[i]);
    if (std::isnan(apart)) return apart;
    most = std::max(most, apart), scale = std::max(scale, std::abs(y[i]));
  }
  return most / scale;
}

TEST_P(Fusion, PlannedIsInterpreted) {
  const Tensors expected = step({.training = true, .interpret = true});
  const Tensors got = step({.training = true});
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_LT(difference(got[i], expected[i]), 5e-5) << "output " << i;
}

/// The root mean square of the differences, relative to that of what is expected.
double error_of(const Tensor& got, const Tensor& expected) {
  const auto a = got.values<double>(), b = expected.values<double>();
  double error = 0, size = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) error += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
  return std::sqrt(error / size);
}

/// Where rounding lifts a number over a relu's zero, or drops it, its gradient differs as a whole: a hundredth of them,
/// by a tenth.
TEST_P(Fusion, PlannedInBf16IsNear) {
  const Tensors expected = step({.training = true, .interpret = true});
  const Tensors got = step({.training = true, .compute_dtype = DType::bf16});
  double most = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT(error_of(got[i], expected[i]), i < 7 ? 0.35 : 0.1) << "output " << i;
    most = std::max(most, error_of(got[i], expected[i]));
  }
  EXPECT_GT(most, 1e-4) << "nothing was rounded";
}

TEST_P(Fusion, DeterministicForAnyNumberOfThreads) {
  const int before = threads();
  for (const DType products : {DType::f32, DType::bf16}) {
    std::vector<Tensors> runs;
    for (int count : {1, 2, 3}) {
      set_threads(count);
      runs.push_back(step({.training = true, .deterministic = true, .compute_dtype = products}));
    }
    set_threads(before);
    for (std::size_t run = 1; run < runs.size(); ++run)
      for (std::size_t i = 0; i < runs[0].size(); ++i)
        EXPECT_EQ(runs[run][i].values<float>(), runs[0][i].values<float>()) << "output " << i << ' ' << name(products);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Blocks, Fusion,
    testing::Values(Block{4, 16, 16, 8, 3, 1, 0}, Block{3, 32, 48, 7, 3, 1, 3}, Block{5, 16, 32, 9, 3, 2, -2},
                    Block{2, 32, 32, 6, 1, 1, 0}, Block{1, 16, 16, 33, 3, 1, 30}, Block{2, 32, 16, 5, 5, 1, 1},
                    Block{9, 48, 16, 4, 1, 2, 0}, Block{4, 24, 40, 7, 1, 1, 1}, Block{3, 24, 24, 9, 3, 2, 0},
                    Block{2, 16, 144, 9, 1, 1, 2}, Block{2, 272, 32, 7, 3, 2, 0}),
    [](const auto& info) {
      const Block& b = info.param;
      return text(b.images, "x", b.in, "x", b.size, "to", b.out, "kernel", b.kernel, "stride", b.stride);
    });

/// In the plain order, which channels that fill no blocks of 16 have, oneDNN adds by its
/// reference loops alone.
TEST(RegionKernels, NotANumberStays) {
  struct Case {
    const char* name;
    Shape x, weight;
    std::int64_t stride;
    bool norm, residual;
  };
  const std::vector<Case> cases{{"linear", {4, 40}, {24, 40}, 0, false, false},
                                {"1x1", {2, 32, 6, 6}, {32, 32, 1, 1}, 1, false, false},
                                {"1x1 with all that follows", {2, 32, 6, 6}, {32, 32, 1, 1}, 1, true, true},
                                {"3x3 strided", {2, 32, 9, 9}, {32, 32, 3, 3}, 2, true, false},
                                {"3x3", {2, 32, 12, 12}, {32, 32, 3, 3}, 1, true, false},
                                {"stem", {2, 3, 12, 12}, {32, 3, 3, 3}, 1, true, false},
                                {"depthwise", {2, 32, 9, 9}, {32, 1, 3, 3}, 1, true, false},
                                {"groups", {2, 32, 9, 9}, {32, 8, 3, 3}, 1, true, false}};
  for (const Case& c : cases)
    for (const bool training : {false, true}) {
      const Tensor weight = random_tensor(c.weight, 1), gain = random_tensor({c.weight[0]}, 2, 1),
                   bias = random_tensor({c.weight[0]}, 3);
      const auto run = [&](const Tensor& x, bool interpret) {
        const Tensor mean = random_tensor({c.weight[0]}, 4), var = random_tensor({c.weight[0]}, 5, 5);
        const auto net = [&](Tensors in) -> Tensors {
          if (c.stride == 0) return {relu(linear(in[0], weight, bias))};
          const std::int64_t pad = c.weight[2] / 2;
          Tensor y = conv2d(
              in[0], weight, c.norm ? Tensor() : bias,
              {.stride = {c.stride, c.stride}, .pad = {pad, pad, pad, pad}, .groups = c.x[1] / c.weight[1]});
          if (c.norm) y = batch_norm(y, gain, bias, mean, var);
          if (c.residual) y = add(y, in[0]);
          return {relu(y)};
        };
        return plan(net, {x.type()}, {.training = training, .interpret = interpret})({x})[0].values<float>();
      };
      // One number alone, in the middle.
      auto numbers = random_tensor(c.x, 6).values<float>();
      numbers[numbers.size() / 2] = std::numeric_limits<float>::quiet_NaN();
      const Tensor x = Tensor::from(c.x, numbers);
      const auto planned = run(x, false), expected = run(x, true);
      std::size_t lost = 0, missing = 0;
      for (std::size_t i = 0; i < expected.size(); ++i)
        if (std::isnan(expected[i])) ++lost, missing += !std::isnan(planned[i]);
      EXPECT_GT(lost, 0u) << c.name;
      EXPECT_EQ(missing, 0u) << c.name << (training ? ", training" : "") << ": of " << lost;
    }
}

TEST(RegionKernels, ASumJoinsAConvolutionOfBlocksOnly) {
  for (const std::int64_t channels : {6, 32}) {
    const Tensor w = random_tensor({channels, channels, 1, 1}, 1);
    const auto function = [&](const Tensors& in) -> Tensors { return {conv2d(in[0], w) + in[0]}; };
    const Type x{DType::f32, {2, channels, 6, 6}};
    std::vector<std::string> ops;
    for (const PlanRow& row : plan(function, {x}, {.freeze = true}).rows()) ops.push_back(row.op);
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "conv2d+add"), channels == 32) << join(ops, ", ");
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "conv2d"), channels == 6) << join(ops, ", ");
  }
}

/// A gate for each channel before a 1x1 convolution, by which the weights are multiplied where the pixels are more; and
/// gates of other shapes, which are not the same for all pixels or differ between no images.
TEST(RegionKernels, GatesBefore) {
  struct Case {
    Shape x;
    std::int64_t out;
    Shape gate;
  };
  const std::vector<Case> cases{
      {{1, 40, 17, 12}, 24, {1, 40, 1, 1}},    // more pixels than four times the channels, cut in two
      {{3, 24, 13, 11}, 20, {3, 24, 1, 1}},    // images of one tile
      {{2, 272, 40, 30}, 72, {2, 272, 1, 1}},  // several tiles an image
      {{2, 32, 5, 5}, 48, {2, 32, 1, 1}},      // fewer
      {{3, 32, 12, 12}, 16, {1, 32, 1, 1}},   {{2, 32, 12, 12}, 16, {2, 32, 12, 1}},
      {{2, 32, 12, 12}, 16, {2, 1, 1, 1}}};
  for (const Case& c : cases)
    for (const bool gate_first : {false, true}) {
      const Tensor weight = random_tensor({c.out, c.x[1], 1, 1}, 1), bias = random_tensor({c.out}, 2),
                   x = random_tensor(c.x, 3), gate = random_tensor(c.gate, 4),
                   residual = random_tensor({c.x[0], c.out, c.x[2], c.x[3]}, 5);
      const auto net = [&](const Tensors& in) -> Tensors {
        return {relu(conv2d(gate_first ? in[1] * in[0] : in[0] * in[1], weight, bias) + residual)};
      };
      const auto step = [&](const Tensors& in) -> Tensors {
        const Tensors of = net(in), wrt{in[0], in[1], weight, bias};
        Tensors out = gradients(of, wrt);
        out.push_back(of[0]);
        return out;
      };
      for (const bool training : {false, true}) {
        const auto function = training ? std::function<Tensors(const Tensors&)>(step) : net;
        const Plan planned = plan(function, {x.type(), gate.type()}, {.training = training, .freeze = !training});
        const Tensors expected = plan(function, {x.type(), gate.type()},
                                      {.training = training, .interpret = true})({x, gate}),
                      got = planned({x, gate});
        if (!training) {
          const auto rows = planned.rows();
          EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [](const PlanRow& row) {
            return row.op == "mul+conv2d+add+relu";
          })) << c.x;
        }
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_LT(difference(expected[i], got[i]), 1e-5)
              << c.x << c.gate << " output " << i << (training ? " training" : "");
      }
    }
}

/// Pointwise steps behind a convolution or a product, which go over its result piece by piece: what is planned is what
/// is interpreted, forward and backward.
TEST(RegionKernels, StepsBehind) {
  using Steps = std::function<Tensor(const Tensor& y, const Tensor& residual, const Tensor& scale)>;
  const std::vector<std::pair<const char*, Steps>> behind{
      {"relu6", [](const Tensor& y, const Tensor&, const Tensor&) { return relu6(y); }},
      {"hardswish", [](const Tensor& y, const Tensor&, const Tensor&) { return hardswish(y); }},
      {"silu, scaled and added", [](const Tensor& y, const Tensor& r, const Tensor& s) { return r + silu(y) * s; }},
      {"added, relu6", [](const Tensor& y, const Tensor& r, const Tensor&) { return relu6(r + y); }},
      {"read twice", [](const Tensor& y, const Tensor&, const Tensor& s) { return y * sigmoid(y * s); }}};
  struct Case {
    Shape x, weight;
    std::int64_t stride;  // 0: a product
  };
  const std::vector<Case> cases{
      {{2, 32, 6, 6}, {48, 32, 1, 1}, 1}, {{1, 32, 9, 9}, {64, 32, 1, 1}, 1},
      {{5, 24, 7, 5}, {40, 24, 1, 1}, 2}, {{3, 48, 9, 9}, {48, 1, 3, 3}, 2},
      {{2, 64, 8, 8}, {64, 32, 3, 3}, 2}, {{2, 272, 13, 9}, {40, 272, 3, 3}, 2},  // weights larger than a cache
      {{5, 32, 3, 3}, {48, 32, 1, 1}, 1}, {{1, 1024, 9, 9}, {40, 1024, 1, 1}, 1},
      {{1, 24, 9, 9}, {40, 24, 3, 3}, 1}, {{7, 33}, {24, 33}, 0},
      {{2, 70, 8}, {1024, 8}, 0},         {{1, 40}, {32, 40}, 0}};
  for (const Case& c : cases)
    for (const auto& [name, steps] : behind) {
      const Tensor weight = random_tensor(c.weight, 1), bias = random_tensor({c.weight[0]}, 2);
      Shape channels{c.weight[0]};
      if (c.stride) channels = {1, c.weight[0], 1, 1};
      const Tensor scale = random_tensor(channels, 3), x = random_tensor(c.x, 4);
      const auto layer = [&](const Tensor& in) {
        if (c.stride == 0) return linear(in, weight, bias);
        const std::int64_t pad = c.weight[2] / 2;
        return conv2d(in, weight, bias,
                      {.stride = {c.stride, c.stride}, .pad = {pad, pad, pad, pad}, .groups = c.x[1] / c.weight[1]});
      };
      const Tensor residual = random_tensor(
          plan([&](Tensors in) -> Tensors { return {layer(in[0])}; }, {x.type()})({x})[0].shape(), 5);
      const auto net = [&](Tensors in) -> Tensors { return {steps(layer(in[0]), in[1], scale)}; };
      const auto step = [&](Tensors in) -> Tensors {
        const Tensors of{net(in)}, wrt{in[0], weight, bias, scale};
        Tensors out = gradients(of, wrt);
        out.push_back(of[0]);
        for (Tensor& each : out)
          if (!each) each = of[0];
        return out;
      };
      for (const bool training : {false, true}) {
        const auto function = training ? std::function<Tensors(Tensors)>(step) : net;
        const Plan planned = plan(function, {x.type(), residual.type()}, {.training = training, .freeze = !training});
        const Tensors expected = plan(function, {x.type(), residual.type()},
                                      {.training = training, .interpret = true})({x, residual});
        const Tensors got = planned({x, residual});
        const std::string where = text(name, " behind ", c.weight, training ? ", training" : "");
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_LT(difference(got[i], expected[i]), 5e-5) << where << ", output " << i;
        std::vector<std::string> ops;
        for (const PlanRow& row : planned.rows()) ops.push_back(row.op);
        const bool groups = c.x[1] != c.weight[1] && c.weight[1] > 1;
        if (groups && isa() != Isa::avx512) continue;  // these are oneDNN's, which has no kernels for blocks there
        if (c.stride == 0 && !has_onednn()) continue;
        EXPECT_TRUE(
            std::any_of(ops.begin(), ops.end(),
                        [](const std::string& op) { return starts_with(op, "conv2d+") || starts_with(op, "linear+"); }))
            << where << ": " << join(ops, ", ");
      }
    }
}

/// The same around a batch norm in training: behind it, and on the way back before its gradient.
TEST(RegionKernels, StepsAroundANorm) {
  using Steps = std::function<Tensor(const Tensor& y, const Tensor& residual)>;
  const std::vector<std::pair<const char*, Steps>> behind{
      {"relu6", [](const Tensor& y, const Tensor&) { return relu6(y); }},
      {"added, relu6", [](const Tensor& y, const Tensor& r) { return relu6(y + r); }},
      {"silu", [](const Tensor& y, const Tensor&) { return silu(y); }},
      {"hardswish, added", [](const Tensor& y, const Tensor& r) { return r + hardswish(y); }}};
  const std::vector<Shape> kernels{{48, 32, 1, 1}, {32, 1, 3, 3}, {40, 32, 3, 3}, {32, 32, 3, 3}};
  for (const Shape& kernel : kernels)
    for (const auto& [name, steps] : behind) {
      const std::int64_t channels = kernel[0], pad = kernel[2] / 2;
      const Tensor w = random_tensor(kernel, 1), v = random_tensor({24, channels, 1, 1}, 2),
                   gamma = random_tensor({channels}, 3, 1), beta = random_tensor({channels}, 4),
                   x = random_tensor({3, 32, 9, 9}, 5), residual = random_tensor({3, channels, 9, 9}, 6),
                   seed = random_tensor({3, 24, 9, 9}, 7);
      const auto function = [&](const Tensors& in) -> Tensors {
        const Tensor before = relu6(in[0]),
                     y = conv2d(before, w, {}, {.pad = {pad, pad, pad, pad}, .groups = 32 / kernel[1]});
        const Tensor a = steps(batch_norm(y, gamma, beta, {}, {}), in[1]);
        const Tensors of{conv2d(a, v)}, wrt{in[0], in[1], w, v, gamma, beta}, seeds{in[2]};
        Tensors out = gradients(of, wrt, seeds);
        out.push_back(of[0]);
        for (Tensor& each : out)
          if (!each) each = of[0];
        return out;
      };
      const Types types{x.type(), residual.type(), seed.type()};
      const Plan planned = plan(function, types, {.training = true});
      const Tensors expected = plan(function, types, {.training = true, .interpret = true})({x, residual, seed});
      const Tensors got = planned({x, residual, seed});
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_LT(difference(got[i], expected[i]), 5e-5) << name << ", " << kernel << ", output " << i;
      std::size_t forward = 0, backward = 0;
      for (const PlanRow& row : planned.rows()) {
        forward += starts_with(row.op, "conv2d+batch_norm_train");
        backward += starts_with(row.op, "conv2d_input_grad+") && ends_with(row.op, "+batch_norm_grad");
      }
      EXPECT_EQ(forward, 1u) << name << ", " << kernel;
      EXPECT_EQ(backward, 1u) << name << ", " << kernel;
    }
}

/// Images of more than a piece, whose channels are computed in slices, and a single one of them in as many as there are
/// threads.
TEST(RegionKernels, LargeImages) {
  for (const auto& [images, size] : {std::pair{1, 5}, {2, 3}}) {
    const Shape kernel{96, 1, size, size};
    const std::int64_t pad = size / 2;
    const Tensor x = random_tensor({images, 96, 56, 56}, 1), w = random_tensor(kernel, 2),
                 seed = random_tensor(x.shape(), 3);
    const auto function = [&](const Tensors& in) -> Tensors {
      const Tensor y = conv2d(relu6(in[0]), w, {}, {.pad = {pad, pad, pad, pad}, .groups = 96});
      const Tensors of{silu(y)}, wrt{in[0], w}, seeds{in[1]};
      Tensors out = gradients(of, wrt, seeds);
      out.push_back(of[0]);
      return out;
    };
    const Plan planned = plan(function, {x.type(), seed.type()}, {.training = true});
    const Tensors expected = plan(function, {x.type(), seed.type()}, {.training = true, .interpret = true})({x, seed});
    const Tensors got = planned({x, seed});
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LT(difference(got[i], expected[i]), 5e-5) << images << " images, " << kernel << ", output " << i;
    std::vector<std::string> ops;
    for (const PlanRow& row : planned.rows()) ops.push_back(row.op);
    EXPECT_TRUE(std::any_of(ops.begin(), ops.end(), [](const std::string& op) { return ends_with(op, "conv2d+silu"); }))
        << join(ops, ", ");
  }
}

/// 1x1, depthwise and 1x1 convolutions without anything between in memory, images whole and cut, bands one and several.
TEST(RegionKernels, ConvolutionsInARow) {
  struct Case {
    Shape x;
    std::int64_t wide, out, kernel, stride, pad, dilation;
  };
  const std::vector<Case> cases{{{2, 16, 9, 9}, 96, 24, 3, 1, 1, 1},    {{3, 24, 12, 7}, 144, 24, 3, 2, 1, 1},
                                {{1, 24, 60, 5}, 72, 40, 5, 2, 2, 1},   {{1, 16, 48, 40}, 96, 16, 3, 1, 1, 1},
                                {{2, 32, 40, 33}, 192, 32, 7, 1, 3, 1}, {{2, 16, 11, 10}, 32, 16, 3, 1, 2, 2},
                                {{2, 16, 13, 13}, 40, 24, 3, 3, 0, 1},  {{2, 16, 10, 10}, 32, 16, 2, 3, 0, 1},
                                {{2, 160, 7, 7}, 960, 160, 3, 1, 1, 1}, {{1, 16, 26, 3}, 24, 16, 5, 1, 2, 1},
                                {{2, 16, 4, 60}, 64, 16, 1, 2, 0, 1}};
  using Activation = std::function<Tensor(const Tensor&)>;
  const std::vector<Activation> activations{[](const Tensor& x) { return relu6(x); },
                                            [](const Tensor& x) { return hardswish(x); },
                                            [](const Tensor& x) { return x; }};
  const int before = threads();
  set_threads(2);  // more would cut images into too few rows
  for (const Case& c : cases)
    for (std::size_t kind = 0; kind < 12; ++kind) {
      const Activation& activation = activations[kind % 3];
      const bool expands = kind < 6 || kind > 8, projects = kind < 3 || kind > 5, adds = kind > 8;
      const std::int64_t more = kind > 9 ? 2 : 0;  // rows below and columns to the right
      const std::int64_t in = c.x[1], wide = expands ? c.wide : in;
      const Tensor x = random_tensor(c.x, 1), w1 = random_tensor({wide, in, 1, 1}, 2), b1 = random_tensor({wide}, 3),
                   w2 = random_tensor({wide, 1, c.kernel, c.kernel}, 4), b2 = random_tensor({wide}, 5),
                   w3 = random_tensor({c.out, wide, 1, 1}, 6), b3 = random_tensor({c.out}, 7);
      const auto residual = [&](const Tensor& y, std::uint64_t seed) {
        return adds ? y + random_tensor(y.shape(), seed) : y;
      };
      const auto net = [&](Tensors given) -> Tensors {
        Tensor y = given[0];
        if (expands) y = activation(residual(conv2d(y, w1, b1), 8));
        y = activation(residual(conv2d(y, w2, b2,
                                       {.stride = {c.stride, c.stride},
                                        .dilation = {c.dilation, c.dilation},
                                        .pad = {c.pad, c.pad, c.pad + more, c.pad + more},
                                        .groups = wide}),
                                9));
        if (!projects) return {y};
        y = conv2d(y, w3, b3);
        return {y.shape() == given[0].shape() ? activation(y + given[0]) : y};
      };
      const Plan planned = plan(net, {x.type()}, {.freeze = true});
      const Tensor expected = plan(net, {x.type()}, {.interpret = true})({x})[0], got = planned({x})[0];
      const std::string where = text(c.x, " kernel ", c.kernel, ", kind ", kind);
      EXPECT_LT(difference(got, expected), 5e-5) << where;
      const auto rows = planned.rows();
      EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [](const PlanRow& row) {
        return row.kernel == "cpu row-tiled";
      })) << where;
    }
  set_threads(before);
}

/// An image of too few rows for the threads: each makes channels of its own, of a 1x1 convolution and the depthwise one
/// behind it.
TEST(RegionKernels, ConvolutionsInARowByChannels) {
  struct Case {
    Shape x;
    std::int64_t wide, kernel, stride, dilation;
  };
  const std::vector<Case> cases{{{1, 40, 7, 7}, 200, 3, 1, 1}, {{1, 32, 7, 5}, 104, 5, 1, 1},
                                {{1, 24, 9, 14}, 48, 3, 2, 1}, {{1, 16, 6, 30}, 72, 3, 1, 2},
                                {{2, 48, 7, 7}, 88, 7, 1, 1},  {{1, 512, 14, 14}, 3072, 3, 1, 1}};
  const int before = threads();
  for (const Case& c : cases)
    for (const bool adds : {false, true})
      for (const DType products : {DType::f32, DType::bf16}) {
        const std::int64_t wide = c.wide, pad = c.kernel / 2 * c.dilation;
        const Tensor x = random_tensor(c.x, 1), w1 = random_tensor({wide, c.x[1], 1, 1}, 2),
                     b1 = random_tensor({wide}, 3), w2 = random_tensor({wide, 1, c.kernel, c.kernel}, 4),
                     b2 = random_tensor({wide}, 5);
        const auto net = [&](Tensors given) -> Tensors {
          Tensor y = conv2d(given[0], w1, b1);
          if (adds) y = y + random_tensor(y.shape(), 6);
          return {silu(conv2d(silu(y), w2, b2,
                              {.stride = {c.stride, c.stride},
                               .dilation = {c.dilation, c.dilation},
                               .pad = {pad, pad, pad, pad},
                               .groups = wide}))};
        };
        set_threads(1);
        const Tensor whole = plan(net, {x.type()}, {.freeze = true, .compute_dtype = products})({x})[0];
        set_threads(static_cast<int>(2 * c.x[0]));
        const Plan planned = plan(net, {x.type()}, {.freeze = true, .compute_dtype = products});
        const std::string where = text(c.x, " kernel ", c.kernel, ' ', products, adds ? ", added" : "");
        EXPECT_EQ(difference(planned({x})[0], whole), 0) << where << ": each result is one sum, whoever makes it";
        const double error = difference(whole, plan(net, {x.type()}, {.interpret = true})({x})[0]);
        EXPECT_LT(error, products == DType::f32 ? 5e-5 : 0.05) << where;
        const auto rows = planned.rows();
        const auto bands = std::find_if(rows.begin(), rows.end(),
                                        [](const PlanRow& row) { return row.kernel == "cpu row-tiled"; });
        ASSERT_NE(bands, rows.end()) << where;
        EXPECT_EQ(split(bands->op, '+').back(), "silu") << where;
      }
  set_threads(before);
}

/// A convolution of an image with the depthwise one behind it, and a 1x1 one or none, in the same way.
TEST(RegionKernels, ImagesInARow) {
  struct Case {
    Shape x, weight;
    Conv2dOptions options;
    std::int64_t stride;
  };
  const std::vector<Case> cases{{{2, 3, 64, 64}, {32, 3, 3, 3}, {.stride = {2, 2}, .pad = {1, 1, 1, 1}}, 1},
                                {{1, 3, 130, 150}, {40, 3, 3, 3}, {.stride = {2, 2}, .pad = {0, 0, 1, 1}}, 2},
                                {{3, 1, 40, 33}, {16, 1, 7, 7}, {.stride = {1, 3}, .pad = {3, 2, 3, 4}}, 1},
                                {{2, 4, 224, 60}, {24, 4, 5, 5}, {.stride = {4, 2}, .pad = {5, 9, 2, 2}}, 1},
                                {{2, 3, 21, 19}, {72, 3, 3, 9}, {.dilation = {2, 1}, .pad = {2, 4, 2, 4}}, 2},
                                {{2, 2, 19, 700}, {16, 2, 1, 1}, {.stride = {2, 2}}, 1}};
  const int before = threads();
  set_threads(2);
  for (const Case& c : cases)
    for (const bool projects : {true, false})
      for (const auto& activation : {std::function<Tensor(const Tensor&)>([](const Tensor& x) { return relu6(x); }),
                                     std::function<Tensor(const Tensor&)>([](const Tensor& x) { return silu(x); })}) {
        const std::int64_t wide = c.weight[0];
        const Tensor x = random_tensor(c.x, 1), w1 = random_tensor(c.weight, 2), b1 = random_tensor({wide}, 3),
                     w2 = random_tensor({wide, 1, 3, 3}, 4), w3 = random_tensor({24, wide, 1, 1}, 5),
                     b3 = random_tensor({24}, 6);
        const auto net = [&](Tensors given) -> Tensors {
          const Tensor made = activation(conv2d(given[0], w1, b1, c.options));
          const Tensor y = activation(
              conv2d(made, w2, {}, {.stride = {c.stride, c.stride}, .pad = {1, 1, 1, 1}, .groups = wide}));
          return {projects ? conv2d(y, w3, b3) : y};
        };
        const Tensor expected = plan(net, {x.type()}, {.interpret = true})({x})[0];
        const std::string where = text(c.x, " with ", c.weight, projects ? ", projected" : "");
        const Plan planned = plan(net, {x.type()}, {.freeze = true});
        EXPECT_LT(difference(planned({x})[0], expected), 5e-5) << where;
        const auto rows = planned.rows();
        const auto convolutions = std::count_if(
            rows.begin(), rows.end(), [](const PlanRow& row) { return row.op.find("conv2d") != row.op.npos; });
        EXPECT_EQ(convolutions == 1, c.options.dilation[0] == 1) << where << ": kernels with holes are left to others";
      }
  set_threads(before);
}

/// Few channels of fewer than sixteen images, in rows of pixels or with output channels in the lanes, pooled or not:
/// narrow and wide, whole and in bands, one part and two.
TEST(RegionKernels, PlainConvolutions) {
  struct Case {
    Shape x, weight;
    Conv2dOptions options;
  };
  const std::vector<Case> cases{{{1, 1, 28, 28}, {6, 1, 5, 5}, {.pad = {2, 2, 2, 2}}},
                                {{1, 6, 14, 14}, {16, 6, 5, 5}, {}},
                                {{3, 2, 9, 1}, {7, 2, 3, 1}, {.pad = {1, 0, 2, 0}}},
                                {{2, 5, 3, 40}, {13, 5, 2, 4}, {.dilation = {1, 3}, .pad = {0, 5, 1, 9}}},
                                {{1, 3, 70, 65}, {8, 3, 3, 3}, {.dilation = {2, 2}, .pad = {2, 2, 2, 2}}},
                                {{1, 24, 40, 50}, {3, 24, 3, 3}, {.pad = {1, 1, 1, 1}}},
                                {{1, 15, 3, 300}, {15, 15, 3, 7}, {.pad = {3, 3, 3, 3}}},
                                {{2, 5, 17, 33}, {32, 5, 3, 3}, {.pad = {1, 1, 1, 1}}},
                                {{1, 15, 90, 61}, {48, 15, 5, 2}, {.dilation = {2, 1}, .pad = {0, 1, 3, 0}}},
                                {{1, 2, 4, 4}, {4, 2, 2, 2}, {.pad = {6, 7, 5, 8}}}};
  const std::vector<std::function<Tensor(const Tensor&)>> activations{[](const Tensor& x) { return x; },
                                                                      [](const Tensor& x) { return relu(x); },
                                                                      [](const Tensor& x) { return relu6(x); }};
  for (const Case& c : cases) {
    const Tensor x = random_tensor(c.x, 1), w = random_tensor(c.weight, 2);
    const Shape y = conv2d(x, w, {}, c.options).shape();
    for (std::size_t kind = 0; kind < 24; ++kind) {
      const bool pooled = kind / 6 % 2 == 1, frozen = kind < 12;  // weights that may change are plain
      const Tensor b = kind % 6 < 3 ? random_tensor({c.weight[0]}, 3) : Tensor();
      if (pooled && (y[2] < 2 || y[3] < 2)) continue;
      const auto net = [&](const Tensors& in) -> Tensors {
        const Tensor made = activations[kind % 3](conv2d(in[0], w, b, c.options));
        return {pooled ? max_pool2d(made) : made};
      };
      const Plan planned = plan(net, {x.type()}, {.freeze = frozen});
      const std::string where = text(c.x, " with ", c.weight, ", kind ", kind);
      EXPECT_LT(difference(planned({x})[0], plan(net, {x.type()}, {.interpret = true})({x})[0]), 2e-5) << where;
      ASSERT_EQ(planned.rows().size(), 1u) << where;
      EXPECT_EQ(planned.rows()[0].kernel, "cpu nchw") << where;
    }
  }
}

/// A pooling behind a convolution: NaN wins, and others than of 2x2 pixels apart, or of what is read elsewhere too, are
/// tasks of their own.
TEST(RegionKernels, PoolingsBehindPlainConvolutions) {
  Tensor x = random_tensor({1, 5, 12, 12}, 1);
  const Tensor w = random_tensor({16, 5, 3, 3}, 2);
  const auto rows_of = [&](const Pool2dOptions& options, bool both) {
    const auto net = [&](const Tensors& in) -> Tensors {
      const Tensor made = conv2d(in[0], w), pooled = max_pool2d(made, options);
      return both ? Tensors{pooled, made} : Tensors{pooled};
    };
    const Plan planned = plan(net, {x.type()}, {.freeze = true});
    const Tensors got = planned({x}), expected = plan(net, {x.type()}, {.interpret = true})({x});
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LT(difference(got[i], expected[i]), 2e-5);
    return planned.rows().size();
  };
  EXPECT_EQ(rows_of({}, false), 1u);
  EXPECT_EQ(rows_of({}, true), 2u);
  EXPECT_EQ(rows_of({.kernel = {3, 3}, .stride = {2, 2}}, false), 2u);
  EXPECT_EQ(rows_of({.kernel = {2, 2}, .stride = {1, 1}}, false), 2u);
  EXPECT_EQ(rows_of({.kernel = {2, 2}, .pad = {1, 1, 1, 1}}, false), 2u);
  EXPECT_EQ(rows_of({.kernel = {3, 2}}, false), 2u);

  auto values = x.values<float>();
  values[5 * 12 + 7] = std::numeric_limits<float>::quiet_NaN();
  x = Tensor::from(x.shape(), values);
  for (const std::int64_t channels : {16, 6}) {
    const Tensor weight = random_tensor({channels, 5, 3, 3}, 2);
    const auto net = [&](const Tensors& in) -> Tensors { return {max_pool2d(relu(conv2d(in[0], weight)))}; };
    const Tensor got = plan(net, {x.type()}, {.freeze = true})({x})[0],
                 expected = plan(net, {x.type()}, {.interpret = true})({x})[0];
    const auto of = got.values<float>(), wanted = expected.values<float>();
    for (std::size_t i = 0; i < of.size(); ++i) EXPECT_EQ(std::isnan(of[i]), std::isnan(wanted[i])) << i;
  }
}

/// Results larger than the caches are written past them, of 1x1 kernels and of others.
TEST(RegionKernels, ResultsBeyondTheCaches) {
  const std::size_t cache = largest_cache();
  if (cache > std::size_t{64} << 20) GTEST_SKIP() << "the largest cache takes " << cache << " bytes";
  const std::int64_t width = 500, rows = 1 + static_cast<std::int64_t>(cache / (32 * sizeof(float)) / width);
  for (const std::int64_t kernel : {1, 2}) {
    const DType products = kernel == 1 ? DType::f32 : DType::bf16;
    const Tensor x = random_tensor({1, 16, rows, width}, 1), w = random_tensor({17, 16, kernel, kernel}, 2),
                 b = random_tensor({17}, 3);
    const std::int64_t pad = kernel / 2;
    const auto layer = [&](const Tensor& in) { return conv2d(in, w, b, {.pad = {0, 0, pad, pad}}); };
    const Tensor residual = random_tensor({1, 17, rows, width}, 4);
    const auto net = [&](const Tensors& in) -> Tensors { return {sum(relu(layer(in[0]) + in[1]), {3})}; };
    const Plan planned = plan(net, {x.type(), residual.type()}, {.freeze = true, .compute_dtype = products});
    ASSERT_GT(bytes({DType::f32, {1, 32, rows, width}}), cache);
    const Tensor expected = plan(net, {x.type(), residual.type()}, {.interpret = true})({x, residual})[0];
    EXPECT_LT(difference(planned({x, residual})[0], expected), products == DType::bf16 ? 5e-3 : 5e-5) << kernel;
  }
}

/// An operand that is the weight too is one value of the request, which no kernel takes for two.
TEST(RegionKernels, OperandsThatAreTheWeightToo) {
  for (const Shape& shape : {Shape{2, 2, 5, 5}, {16, 16, 1, 1}, {8, 5}, {1, 1}, {16, 16}}) {
    const Tensor x = random_tensor(shape, 1), w = random_tensor({shape[0], 1, 1, 1}, 2);
    const auto net = [&](const Tensors& in) -> Tensors {
      if (shape.rank() == 2) return {relu(linear(in[0], in[0]))};
      const Tensor y = relu(conv2d(in[0], in[0]));
      return {relu(conv2d(y, w, {}, {.groups = shape[0]}))};
    };
    const Tensors got = plan(net, {x.type()}, {.freeze = true})({x}),
                  expected = plan(net, {x.type()}, {.interpret = true})({x});
    EXPECT_LT(difference(got[0], expected[0]), 2e-5) << shape;
  }
  const Tensor x = random_tensor({3, 16, 5, 5}, 1), both = random_tensor({16}, 2, 3);
  for (const bool training : {false, true}) {
    const auto net = [&](const Tensors& in) -> Tensors {
      return {relu(batch_norm(in[0], both, both, both, both, 0, 0.1))};
    };
    const auto result = [&](PlanOptions options) {
      options.training = training;
      return plan(net, {x.type()}, options)({x})[0];
    };
    EXPECT_LT(difference(result({}), result({.interpret = true})), 2e-5) << training;
  }
}

/// Fully connected layers of one row, and convolutions of one pixel, which are the same.
/// Where groups were grown as long as the chain from each of its ops, this took hours.
TEST(FusionGroups, LongChainsArePlannedInTheTimeOfTheirLength) {
  constexpr int kOps = 6000;
  const Tensor factor = Tensor::full({DType::f32, {}}, 0.999F), step = Tensor::full({DType::f32, {}}, 0.01F);
  const Plan chain = plan(
      [&](Tensors in) -> Tensors {
        Tensor x = in[0];
        for (int i = 0; i < kOps / 2; ++i) x = x * factor + step;
        return {x};
      },
      {{DType::f32, {5}}});
  float wanted = 2;
  for (int i = 0; i < kOps / 2; ++i) wanted = wanted * 0.999F + 0.01F;
  EXPECT_NEAR(chain({Tensor::full({DType::f32, {5}}, 2)})[0].values<float>()[4], wanted, 1e-3);
}

TEST(RegionKernels, OneRowAndOnePixel) {
  for (const auto& [in, out] :
       {std::pair{1, 1}, {84, 10}, {400, 120}, {17, 9000}, {16, 3}, {8, 96}, {96, 8}, {960, 1280}})
    for (const int kind : {0, 1, 2, 3}) {
      const bool pixel = kind % 2;
      const Shape tail = pixel ? Shape{1, out, 1, 1} : Shape{1, out};
      const Tensor x = random_tensor(pixel ? Shape{1, in, 1, 1} : Shape{1, in}, 1),
                   w = random_tensor(pixel ? Shape{out, in, 1, 1} : Shape{out, in}, 2),
                   b = kind > 1 ? random_tensor({out}, 3) : Tensor(), residual = random_tensor(tail, 4);
      const auto layer = [&](const Tensor& given) { return pixel ? conv2d(given, w, b) : linear(given, w, b); };
      const auto net = [&](const Tensors& given) -> Tensors {
        return {hardswish(layer(given[0]) + residual), layer(given[0])};
      };
      const Plan planned = plan(net, {x.type()}, {.freeze = true});
      const Tensors got = planned({x}), expected = plan(net, {x.type()}, {.interpret = true})({x});
      for (std::size_t i = 0; i < 2; ++i) EXPECT_LT(difference(got[i], expected[i]), 2e-5) << in << " to " << out;
      const auto rows = planned.rows();
      EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [&](const PlanRow& row) { return row.kernel == "cpu gemv"; }));
    }
}

/// Of an image of one pixel that is padded, the result may be another pixel.
TEST(RegionKernels, OnePixelInItsPadding) {
  const Tensor x = random_tensor({1, 20, 1, 1}, 1), w = random_tensor({24, 20, 1, 1}, 2), b = random_tensor({24}, 3);
  for (const Conv2dOptions& options : {Conv2dOptions{.stride = {3, 3}, .pad = {1, 1, 1, 1}},
                                       {.stride = {2, 1}, .pad = {1, 0, 0, 0}},
                                       {.stride = {2, 3}}}) {
    const auto net = [&](const Tensors& in) -> Tensors { return {conv2d(in[0], w, b, options)}; };
    const Tensors got = plan(net, {x.type()}, {.freeze = true})({x}),
                  expected = plan(net, {x.type()}, {.interpret = true})({x});
    EXPECT_LT(difference(got[0], expected[0]), 2e-5);
  }
}

TEST(RegionKernels, EachIsReached) {
  std::set<std::string> used;
  const Type images{DType::f32, {8, 16, 64, 64}};  // large enough to be computed again rather than kept
  const Tensor w = random_tensor({16, 16, 3, 3}, 1), u = random_tensor({16, 1, 3, 3}, 5),
               v = random_tensor({16, 16, 3, 3}, 2), gamma = random_tensor({16}, 3), beta = random_tensor({16}, 4);
  const Conv2dOptions same{.pad = {1, 1, 1, 1}};
  const Plan planned = plan(
      [&](Tensors in) -> Tensors {
        const Tensor a = relu(batch_norm(conv2d(in[0], w, {}, same), gamma, beta, {}, {}));
        const Tensor b = relu(batch_norm(conv2d(a, u, {}, {.pad = {1, 1, 1, 1}, .groups = 16}), gamma, beta, {}, {}));
        const Tensors of{relu(batch_norm(conv2d(b, v, {}, same), gamma, beta, {}, {}))}, wrt{w, u, v};
        return gradients(of, wrt);
      },
      {images}, {.training = true});
  const Plan frozen = plan(
      [&](Tensors in) -> Tensors {
        return {
            conv2d(relu(conv2d(in[0], u, {}, {.pad = {1, 1, 1, 1}, .groups = 16})), random_tensor({32, 16, 1, 1}, 6))};
      },
      {images}, {.freeze = true});
  const Plan rows = plan(
      [&](Tensors in) -> Tensors {
        const Tensor x = linear(layer_norm(in[0], {16}, gamma, beta), random_tensor({32, 16}, 7));
        return {linear(relu(linear(relu(x), random_tensor({16, 32}, 8))), random_tensor({16, 16}, 9))};
      },
      {{DType::f32, {2, 128, 16}}}, {.freeze = true});
  const Tensor filters = Tensor::full({DType::i8, {16, 16, 1, 1}}, 3),
               windows = Tensor::full({DType::i8, {16, 16, 3, 3}}, 3), matrix = Tensor::full({DType::i8, {16, 16}}, 3),
               scale = Tensor::full({DType::f32, {}}, 1);
  const Plan bytes = plan(
      [&](Tensors in) -> Tensors {
        return {conv2d(dequantize(in[0], scale), dequantize(filters, scale)),
                conv2d(dequantize(in[0], scale), dequantize(windows, scale), {}, same),
                linear(dequantize(in[1], scale), dequantize(matrix, scale))};
      },
      {{DType::u8, {1, 16, 4, 4}}, {DType::u8, {4, 16}}}, {.freeze = true});
  for (const Plan& each : {planned, frozen, rows, bytes})
    for (const PlanRow& row : each.rows())
      for (const std::string& op : split(row.op, '+')) used.insert(text(op, ':', row.kernel));
  for (const std::string& op : op_names())
    for (const Kernel& kernel : kernels(op, 0))
      if (kernel.fused_only && (isa() == Isa::avx512 || kernel.name != "onednn fused") &&
          !((has_vnni() || has_dot_products()) && kernel.name == "cpu int8 winograd") &&
          (cpu::uses_tiles() || kernel.name != "cpu int8 tiles")) {
        EXPECT_TRUE(used.count(text(op, ':', kernel.name))) << op << ": no group reaches the kernel " << kernel.name;
      }
}

}  // namespace
}  // namespace neurim
