// Steps of training in plans whose products round both factors to 16 bits: gradients, weights that change, and values
// that stand rounded in memory.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "neurim/ops/add.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/batch_norm.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/multihead_attention.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/silu.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/sum.h"
#include "neurim/ops/transpose.h"
#include "tests/storage.h"

namespace neurim {
namespace {

using op_table::FusionGroup;

/// Of weights that a step changes, and the gradients: what a plan of inference has no constants of.
TEST_P(Halves, StepsOfExactNumbers) {
  const std::vector<Case> cases{
      {{2, 32, 9, 11}, {48, 32, 1, 1}, {}, "cpu 1x1"},
      {{1, 20, 1, 3}, {17, 20, 1, 1}, {}, "cpu 1x1"},
      {{7, 33, 5, 5}, {40, 33, 1, 1}, {}, "cpu 1x1"},
      {{1, 64, 30, 41}, {24, 64, 1, 1}, {}, "cpu 1x1"},
      {{3, 272, 4, 4}, {530, 272, 1, 1}, {}, "cpu 1x1"},
      {{2, 32, 9, 11}, {48, 32, 1, 1}, {.stride = {2, 2}}, "cpu direct"},
      {{2, 32, 9, 11}, {48, 32, 1, 1}, {.stride = {1, 3}}, "cpu direct"},
      {{3, 32, 8, 9}, {32, 32, 3, 3}, {.stride = {2, 2}, .pad = {1, 1, 1, 1}}, "cpu direct"},
      {{2, 40, 15, 14}, {72, 40, 3, 3}, {.stride = {2, 2}, .pad = {0, 1, 1, 0}}, "cpu direct"},
      {{1, 20, 12, 30}, {24, 20, 3, 3}, {.pad = {1, 1, 1, 1}}, "cpu direct"},
      {{1, 16, 20, 20}, {32, 16, 3, 3}, {.dilation = {2, 3}, .pad = {2, 3, 2, 3}}, "cpu direct"},
      {{2, 16, 20, 20}, {32, 16, 3, 2}, {.stride = {3, 2}, .dilation = {1, 3}, .pad = {0, 4, 3, 0}}, "cpu direct"},
      {{1, 48, 9, 9}, {33, 48, 1, 7}, {.pad = {0, 3, 0, 3}}, "cpu direct"},
      {{1, 48, 9, 9}, {33, 48, 7, 1}, {.stride = {2, 2}, .pad = {3, 0, 3, 0}}, "cpu direct"},
      {{2, 272, 5, 5}, {300, 272, 2, 2}, {}, "cpu direct"},
      {{1, 16, 1, 1}, {64, 16, 3, 3}, {.pad = {1, 1, 1, 1}}, "cpu direct"},
      {{5, 16, 2, 40}, {16, 16, 2, 1}, {.stride = {2, 1}}, "cpu direct"},
      {{1, 16, 3, 3}, {16, 16, 3, 3}, {.pad = {2, 9, 2, 9}}, "cpu direct"},
      {{1, 16, 40, 70}, {16, 16, 5, 5}, {.stride = {1, 2}, .pad = {2, 2, 2, 2}}, "cpu direct"},
      {{2, 32, 6, 7}, {16, 32, 2, 2}, {.stride = {3, 4}}, "cpu direct"},  // pixels that nothing reads
      {{1, 16, 30, 33}, {16, 16, 3, 3}, {.stride = {2, 1}, .dilation = {5, 7}, .pad = {5, 7, 5, 7}}, "cpu direct"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const Tensor x = exact(c.x, 1), weight = exact(c.weight, 2), dy = exact(result_of(c), 3);
    const std::string where = text("case ", i, ' ', c.x, ' ', c.weight);
    const Net forward = [&](const Tensors& in) -> Tensors { return {conv2d(in[0], in[1], {}, c.options)}; };
    const auto agrees = [&](const Net& net, const Tensors& in, std::string_view op, std::string_view kernel) {
      const Tensors expected = interpreted(net, in);
      for (const DType products : products_tested()) {
        const std::string which = text(where, ' ', op, ' ', name(products));
        const Plan last = checked(net, in, expected, which, 0, products);
        EXPECT_TRUE(!takes(products) || made_by(last, op, kernel)) << which;
      }
    };
    agrees(forward, {x, weight}, "conv2d", c.kernel);
    const auto weight_grad = std::make_shared<Conv2dWeightGrad>();
    weight_grad->options = c.options, weight_grad->weight_shape = c.weight;
    const Net of_weight = [&](const Tensors& in) { return neurim::apply(weight_grad, in); };
    agrees(of_weight, {dy, x}, "conv2d_weight_grad", "cpu direct");
    const auto input_grad = std::make_shared<Conv2dInputGrad>();
    input_grad->options = c.options, input_grad->input_shape = c.x;
    const Net of_input = [&](const Tensors& in) { return neurim::apply(input_grad, in); };
    agrees(of_input, {dy, weight}, "conv2d_input_grad", c.kernel);
  }
}

TEST_P(Halves, StepsRoundToTheNearest) {
  const Tensor x = any({2, 40, 9, 9}, 1), weight = any({24, 40, 3, 3}, 2), narrow = any({24, 40, 1, 1}, 3),
               dy = any({2, 24, 9, 9}, 4);
  const auto weight_grad = std::make_shared<Conv2dWeightGrad>();
  weight_grad->options = kSame, weight_grad->weight_shape = weight.shape();
  const Net of_weight = [&](const Tensors& in) { return neurim::apply(weight_grad, in); };
  checked(of_weight, {dy, x}, interpreted(of_weight, {rounded(dy), rounded(x)}), "weight");
  const auto input_grad = std::make_shared<Conv2dInputGrad>();
  input_grad->input_shape = x.shape();
  const Net of_input = [&](const Tensors& in) { return neurim::apply(input_grad, in); };
  checked(of_input, {dy, narrow}, interpreted(of_input, {rounded(dy), rounded(narrow)}), "input");
  EXPECT_GT(error_of(interpreted(of_weight, {dy, x})[0], planned(of_weight, {dy, x})({dy, x})[0]), 1e-3 * loss())
      << "nothing was rounded";
}

/// Fully connected layers whose weights change, and their gradients.
TEST_P(Halves, ProductsOfMatrices) {
  struct Size {
    std::int64_t rows, terms, columns;
    bool turned_a = false, turned_b = false;
  };
  for (const Size& s : {Size{64, 64, 64},
                        {197, 65, 80},
                        {300, 1500, 70, true},
                        {150, 2049, 100, false, true},
                        {70, 128, 1000, true, true}}) {
    const auto product = [&](const Tensor& a, const Tensor& b) {
      return matmul(s.turned_a ? transpose(a, {1, 0}) : a, s.turned_b ? transpose(b, {1, 0}) : b);
    };
    const Tensor a = any(s.turned_a ? Shape{s.terms, s.rows} : Shape{s.rows, s.terms}, 1),
                 b = any(s.turned_b ? Shape{s.columns, s.terms} : Shape{s.terms, s.columns}, 2);
    const std::string where = text(s.rows, ' ', s.terms, ' ', s.columns);
    const Net net = [&](const Tensors& in) -> Tensors { return {product(in[0], in[1])}; };
    const Plan last = checked(net, {a, b}, {product(rounded(a), rounded(b))}, where);
    EXPECT_EQ(count(last, "matmul", "cpu rounded matmul"), 1) << where;
    EXPECT_GT(error_of(product(a, b), last({a, b})[0]), 1e-3 * loss()) << where << ": nothing was rounded";
  }
  // A batch of products, more of them than threads, as of attention.
  for (const bool turned : {false, true}) {
    const Tensor a = any({2, 3, 70, 80}, 1), b = any(turned ? Shape{2, 3, 90, 80} : Shape{2, 3, 80, 90}, 2);
    const Net net = [&](const Tensors& in) -> Tensors { return {matmul(in[0], in[1], false, turned)}; };
    const Plan batch = checked(net, {a, b}, {matmul(rounded(a), rounded(b), false, turned)}, "batch");
    EXPECT_EQ(count(batch, "matmul", "cpu rounded matmul"), 1);
  }
  // A layer with what stands behind it; a row of 4 KiB lies apart.
  const Tensor x = any({90, 1024}, 1), weight = any({100, 1024}, 2, -0.1), bias = any({100}, 3);
  const Net layer = [&](const Tensors& in) -> Tensors { return {relu(linear(in[0], in[1], in[2]))}; };
  const Plan last = checked(layer, {x, weight, bias}, {relu(linear(rounded(x), rounded(weight), bias))}, "layer");
  EXPECT_EQ(count(last, "linear", "cpu rounded matmul"), 1);
  // Small ones are left exact, and those of constant matrices, which are no layer's weights.
  const Tensor few = any({2, 1024}, 1);
  EXPECT_EQ(count(planned(layer, {few, weight, bias}), "linear", "cpu rounded matmul"), 0);
  const Net constant = [&](const Tensors& in) -> Tensors { return {matmul(in[0], weight, false, true)}; };
  EXPECT_EQ(count(planned(constant, {x}), "matmul", "cpu rounded matmul"), 0);
}

/// Of rows, some of an odd number of queries or keys, which stand in pairs; without a tile or with several.
TEST_P(Halves, AttentionInSteps) {
  struct Sizes {
    std::int64_t images, length, positions, heads, features, values;
  };
  for (const Sizes& s : {Sizes{2, 197, 197, 3, 64, 64},
                         {4, 20, 33, 2, 16, 16},
                         {1, 5, 70, 1, 32, 48},
                         {2, 130, 17, 3, 48, 16},
                         {1, 41, 1501, 2, 16, 32}}) {
    const Tensors in{
        any({s.images, s.length, s.heads * s.features}, 1), any({s.images, s.positions, s.heads * s.features}, 2),
        any({s.images, s.positions, s.heads * s.values}, 3), any({s.images, s.length, s.heads * s.values}, 4)};
    const Net step = [&](const Tensors& given) -> Tensors {
      const Tensor y = multihead_attention(given[0], given[1], given[2], s.heads);
      Tensors all = gradients(Tensors{y}, Tensors{given[0], given[1], given[2]}, Tensors{given[3]});
      all.push_back(y);
      return all;
    };
    const Types types = op_table::types_of(in);
    const std::string where = text(s.images, ' ', s.length, ' ', s.positions, ' ', s.heads, ' ', s.features, ' ',
                                   s.values);
    const Tensors expected = plan(step, types, {.training = true, .interpret = true})(in);
    const int before = threads();
    Tensors first;
    for (const int number : {1, 3, 2}) {
      set_threads(number);
      const Plan planned = plan(step, types, {.training = true, .deterministic = true, .compute_dtype = tested_half()});
      EXPECT_EQ(count(planned, "multihead_attention", "cpu rows"), 2) << where;
      const Tensors got = planned(in);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const double error = error_of(expected[i], got[i]);
        EXPECT_LE(error, 0.01 * loss() + of_short_sums()) << where << ", result " << i;
        EXPECT_GE(error, 1e-3 * loss()) << where << ", result " << i << ": nothing was rounded";
      }
      if (first.empty()) first = got;
      EXPECT_EQ(op_table::difference(first, got, 0), "") << where << ", threads " << number;
    }
    set_threads(before);
  }
}

/// Winograd's points of weights that change, and of a data gradient.
TEST_P(Halves, WinogradsPointsInSteps) {
  const Tensor x = relu(any({2, 32, 28, 27}, 1)), weight = any({48, 32, 3, 3}, 2), dy = any({2, 48, 28, 27}, 3);
  const Net forward = [&](const Tensors& in) -> Tensors { return {conv2d(in[0], in[1], {}, kSame)}; };
  EXPECT_EQ(count(checked(forward, {x, weight}, interpreted(forward, {x, weight}), "forward", 0.0125 * loss()),
                  "conv2d", "cpu winograd"),
            1);
  const auto input_grad = std::make_shared<Conv2dInputGrad>();
  input_grad->options = kSame, input_grad->input_shape = x.shape();
  const Net of_input = [&](const Tensors& in) { return neurim::apply(input_grad, in); };
  const Tensors expected = interpreted(of_input, {dy, weight});
  EXPECT_EQ(
      count(checked(of_input, {dy, weight}, expected, "input", 0.0125 * loss()), "conv2d_input_grad", "cpu winograd"),
      1);
  EXPECT_GT(error_of(expected[0], planned(of_input, {dy, weight})({dy, weight})[0]), 1e-3 * loss())
      << "nothing was rounded";
  const auto weight_grad = std::make_shared<Conv2dWeightGrad>();
  weight_grad->options = kSame;
  const Net of_weight = [&](const Tensors& in) { return neurim::apply(weight_grad, in); };
  for (const std::int64_t channels : {48, 128}) {  // too few to be worth it, and more
    const Tensor large = relu(any({3, channels, 13, 14}, 1)), gradient = any({3, 112, 13, 14}, 3);
    weight_grad->weight_shape = {112, channels, 3, 3};
    const Tensors exactly = interpreted(of_weight, {gradient, large});
    const Plan last = checked(of_weight, {gradient, large}, exactly, "weight", 0.0125 * loss());
    EXPECT_EQ(count(last, "conv2d_weight_grad", "cpu winograd"), 1);
    EXPECT_EQ(error_of(exactly[0], last({gradient, large})[0]) > 1e-3 * loss(), channels == 128) << channels;
  }
}

/// The kernel of these weight gradients takes some of f32 as well.
TEST_P(Halves, WeightGradientsInF32) {
  for (const auto& [images, kernel, pad] : {std::tuple(2, 3, 1), std::tuple(3, 1, 0), std::tuple(1, 3, 2)}) {
    const Tensor x = any({images, 240, 11, 9}, 1), gain = any({240, 1, 1}, 2),
                 y = conv2d(x, any({288, 240, kernel, kernel}, 3), {}, {.stride = {2, 2}, .pad = {pad, pad, 0, pad}}),
                 dy = any(y.shape(), 4);
    const auto weight_grad = std::make_shared<Conv2dWeightGrad>();
    weight_grad->options = {.stride = {2, 2}, .pad = {pad, pad, 0, pad}},
    weight_grad->weight_shape = {288, 240, kernel, kernel};
    const Net net = [&](const Tensors& in) { return neurim::apply(weight_grad, {in[0], relu(mul(in[1], gain))}); };
    const Tensors expected = interpreted(net, {dy, x});
    const int before = threads();
    Tensors first;
    for (const int threads : {1, 2, 3}) {
      set_threads(threads);
      const Plan usual = plan(net, {dy.type(), x.type()}, {.training = true}),
                 fixed = plan(net, {dy.type(), x.type()}, {.training = true, .deterministic = true});
      EXPECT_EQ(op_table::difference(expected, usual({dy, x}), 2e-5), "");
      if (first.empty()) first = fixed({dy, x});
      EXPECT_EQ(op_table::difference(first, fixed({dy, x}), 0), "");
      EXPECT_EQ(count(usual, "mul+relu+conv2d_weight_grad", "cpu direct"), 1);
    }
    set_threads(before);
  }
}

constexpr Layout kBlocks{Layout::blocked, 16};

/// Activations of a fusion group that are in memory, what is wanted of it, and how near that is to what the reference's
/// kernels give of values rounded by hand: the root mean square of the error, relative to that of what is expected.
struct Stand {
  std::vector<int> activations, out;
  std::vector<int> inner = {};  ///< which later steps read as they stand, rounded
  /// Of outputs that stand rounded, and of others. Sums run in another order, which takes some elements to the
  /// neighbour of the nearest.
  double rounded = 5e-4, exact = 3e-4;
  double units = 1;  ///< of a last digit that each element of an output that stands rounded may be away
  bool same = true;  ///< bits do not depend on the chunks
};

/// The first element that is further away than that, of its own size and the usual one.
std::string beyond(const Tensor& expected, const Tensor& got, double units) {
  const std::vector<float> a = expected.values<float>(), b = got.values<float>();
  double size = 0;
  for (const float value : a) size += double{value} * value / static_cast<double>(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(double{a[i]} - b[i]) <= units / 128 * loss() * (std::abs(a[i]) + std::sqrt(size))))
      return text(b[i], " instead of ", a[i], " at ", i);
  return "";
}

/// The kernel asks for each of these activations rounded, however it comes in, and where one of them has to stay exact
/// for that one so.
void expect_rounded(FusionGroup& group, const Stand& stand, std::string_view kernel) {
  const Tensors expected = group.expected(stand.out, stand.inner);
  std::string why;
  std::vector<Layout> layouts;
  const auto rounds = [&](int value) { return layouts[value].storage; };
  group.may_store_as(stand.activations);
  Tensors first;
  for (const int chunks : {1, 2, 8}) {
    const Tensors got = group.run({Layout::blocked, 16, 0, storage_of(tested_half())}, chunks, stand.out, &why, kernel,
                                  &layouts);
    ASSERT_FALSE(got.empty()) << why;
    for (const int value : stand.activations) EXPECT_EQ(text(layouts[value]), halves()) << "value " << value;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::string where = text("output ", i, ", chunks ", chunks);
      if (!rounds(stand.out[i])) {
        EXPECT_LE(error_of(expected[i], got[i]), stand.exact + of_short_sums()) << where;
        continue;
      }
      EXPECT_LE(error_of(rounded(expected[i]), got[i]), stand.rounded + 2 * of_short_sums()) << where;
      EXPECT_EQ(beyond(expected[i], got[i], stand.units + 16 * 1024 * of_short_sums()), "") << where;
    }
    if (first.empty()) first = got;
    if (stand.same) {
      EXPECT_EQ(op_table::difference(first, got, 0), "") << "chunks " << chunks;
    }
  }
  EXPECT_EQ(op_table::difference(first, group.run(kBlocks, 1, stand.out, nullptr, kernel), 0), "") << "of exact inputs";
  std::vector<std::vector<int>> exact_ones{stand.activations};
  for (const int value : stand.activations) exact_ones.push_back({value});
  for (const std::vector<int>& values : exact_ones) {
    std::vector<int> others;
    for (const int value : stand.activations)
      if (std::find(values.begin(), values.end(), value) == values.end()) others.push_back(value);
    group.may_store_as(others);
    const Tensors got = group.run({Layout::blocked, 16, 0, storage_of(tested_half())}, 2, stand.out, &why, kernel,
                                  &layouts);
    ASSERT_FALSE(got.empty()) << why;
    for (const int value : values) EXPECT_FALSE(rounds(value));
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(error_of(first[i], got[i]), 5e-3 * loss() + of_short_sums())
          << "output " << i << ", " << values.size() << " exact from value " << values[0];
  }
}

/// Convolutions that norms stand behind, and the kernels that take both.
std::vector<Case> layers() {
  const Conv2dOptions two{.stride = {2, 2}, .pad = {1, 1, 1, 1}};
  const char* const depthwise = isa() == Isa::avx512 ? "onednn fused" : "cpu depthwise";
  return {{{3, 33, 7, 7}, {40, 33, 1, 1}, {}, "cpu 1x1"},
          {{2, 40, 46, 45}, {33, 40, 1, 1}, {}, "cpu 1x1"},  // several tiles an image
          {{3, 40, 9, 8}, {33, 40, 3, 3}, two, "cpu direct"},
          {{1, 48, 100, 31}, {40, 48, 3, 3}, two, "cpu direct"},  // several bands
          {{3, 32, 9, 11}, {48, 32, 3, 3}, kSame, "cpu winograd fused"},
          {{3, 48, 9, 7}, {48, 1, 3, 3}, {.pad = {1, 1, 1, 1}, .groups = 48}, depthwise},
          {{2, 40, 9, 8}, {40, 1, 3, 3}, {.stride = {2, 2}, .pad = {1, 1, 1, 1}, .groups = 40}, depthwise}};
}
bool is_large(const Case& c) { return c.x.numel() > 100000; }
bool is_winograd(const Case& c) { return std::string_view(c.kernel).starts_with("cpu winograd"); }

/// With a norm, whose sums are of each part's images. At Winograd's points factors are rounded once more: some results
/// are many units away, and sums of numbers that cancel by more than each of these.
Stand with_norm(const Case& c, std::vector<int> activations, std::vector<int> out, std::vector<int> inner) {
  Stand stand{std::move(activations), std::move(out), std::move(inner)};
  stand.same = false;
  if (is_winograd(c)) stand.rounded = 0.015 * loss(), stand.exact = 0.03 * loss(), stand.units = 24;
  return stand;
}

TEST_P(Halves, ConvolutionsWithNormsStandRounded) {
  for (const Case& c : layers())
    for (const char* behind : {"statistics", "", "relu", "add+relu", "silu", "add+silu", "all+silu"})
      for (const bool bias : {false, true}) {
        SCOPED_TRACE(text(c.kernel, ' ', c.x, ' ', c.weight, " then ", behind, bias ? ", bias" : ""));
        const bool all = starts_with(behind, "all");
        const std::string steps = all ? "silu" : behind;
        if (is_winograd(c) && ends_with(steps, "silu")) continue;  // it takes add and relu alone
        if (is_large(c) && (!bias || (steps != "add+relu" && !all))) continue;
        const Shape y = result_of(c), channels{y[1]};
        FusionGroup group;
        auto conv = std::make_shared<Conv2d>();
        conv->options = c.options;
        std::vector<int> in{group.input(exact(c.x, 1)), group.input(exact(c.weight, 2))};
        if (bias) in.push_back(group.input(any(channels, 3)));
        const int x = in[0], gamma = group.input(any(channels, 4)), beta = group.input(any(channels, 5));
        const int residual = starts_with(steps, "add") ? group.input(exact(y, 6)) : -1;
        const int made = group.then(conv, in)[0];
        const std::vector<int> norm = group.then(make_op("batch_norm_train"), {made, gamma, beta});
        int last = norm[0];
        std::vector<int> activations{x, made}, out{made, norm[1], norm[2]};
        if (residual >= 0) activations.push_back(residual), last = group.then(make_op("add"), {last, residual})[0];
        if (ends_with(steps, "relu")) last = group.then(make_op("relu"), {last})[0];
        if (ends_with(steps, "silu")) last = group.then(make_op("silu"), {last})[0];
        std::vector<int> inner{made};
        if (all) activations.push_back(norm[0]), out.push_back(norm[0]), inner.push_back(norm[0]);
        if (steps != "statistics") activations.push_back(last), out.push_back(last);
        expect_rounded(group, with_norm(c, activations, out, inner), c.kernel);
      }
}

TEST_P(Halves, DataGradientsWithNormsStandRounded) {
  for (const Case& c : layers())
    for (const char* behind : {"", "relu", "add+relu", "add", "silu", "add+silu"})
      for (const bool read_again : {false, true}) {  // the gradient before the norm, by a shortcut
        SCOPED_TRACE(text(c.kernel, ' ', c.x, ' ', c.weight, " then ", behind, read_again ? ", read again" : ""));
        const Shape channels{c.x[1]};
        const std::string_view steps = behind;
        if (is_winograd(c) && steps.ends_with("silu")) continue;
        if (is_large(c) && (!read_again || !steps.starts_with("add+"))) continue;
        FusionGroup group;
        auto conv = std::make_shared<Conv2dInputGrad>();
        conv->options = c.options, conv->input_shape = c.x;
        const int dy = group.input(exact(result_of(c), 1)), weight = group.input(exact(c.weight, 2)),
                  raw = group.input(exact(c.x, 3));
        const int gamma = group.input(any(channels, 4)), mean = group.input(any(channels, 5)),
                  var = group.input(any(channels, 6, 0.5));
        std::vector<int> activations{dy, raw};
        int gradient = group.then(conv, {dy, weight})[0];
        if (steps.starts_with("add")) {
          activations.push_back(group.input(exact(c.x, 7)));
          gradient = group.then(make_op("add"), {gradient, activations.back()})[0];
        }
        if (steps.ends_with("relu") || steps.ends_with("silu")) {
          const bool rectified = steps.ends_with("relu");
          activations.push_back(group.input(rectified ? relu(exact(c.x, 8)) : exact(c.x, 8)));
          gradient = group.then(make_op(rectified ? "relu_grad" : "silu_grad"), {activations.back(), gradient})[0];
        }
        const std::vector<int> norm = group.then(make_op("batch_norm_grad"), {gradient, raw, gamma, mean, var});
        std::vector<int> out = norm;
        activations.push_back(norm[0]);
        if (read_again) activations.push_back(gradient), out.push_back(gradient);
        expect_rounded(group, with_norm(c, activations, out, {gradient}), c.kernel);
      }
}

TEST_P(Halves, GradientsOfConvolutionsStandRounded) {
  std::vector<Case> cases = layers();
  cases.push_back({{3, 128, 13, 14},
                   {112, 128, 3, 3},
                   kSame,
                   "cpu winograd"});  // weights enough to be worth rounding at the points
  cases.push_back(
      {{2, 40, 12, 9}, {40, 1, 5, 5}, {.stride = {1, 2}, .pad = {2, 2, 2, 2}, .groups = 40}, "cpu depthwise"});
  for (const Case& c : cases) {
    SCOPED_TRACE(text(c.kernel, ' ', c.x, ' ', c.weight));
    const bool depthwise = c.options.groups > 1, large = c.weight[0] * c.weight[1] > 128 * 100;
    const std::string_view kernel = is_winograd(c) ? "cpu winograd" : c.kernel;
    if (!depthwise || isa() != Isa::avx512) {  // else oneDNN's alone, which takes no values that are rounded
      FusionGroup group;
      auto grad = std::make_shared<Conv2dInputGrad>();
      grad->options = c.options, grad->input_shape = c.x;
      const int dy = group.input(exact(result_of(c), 1));
      const std::vector<int> dx = group.then(grad, {dy, group.input(exact(c.weight, 2))});
      Stand stand{{dy, dx[0]}, dx};
      if (is_winograd(c)) stand.rounded = 0.015 * loss(), stand.units = 24;
      expect_rounded(group, stand, kernel);
    }
    if (kernel == "onednn fused") continue;  // which takes no weight gradient alone
    FusionGroup group;
    auto grad = std::make_shared<Conv2dWeightGrad>();
    grad->options = c.options, grad->weight_shape = c.weight;
    const int dy = group.input(exact(result_of(c), 1)), x = group.input(exact(c.x, 2));
    Stand stand{{dy, x}, group.then(grad, {dy, x})};
    stand.same = depthwise;
    if (is_winograd(c) && large) stand.exact = 0.0125 * loss();
    expect_rounded(group, stand, kernel == "cpu 1x1" ? "cpu direct" : kernel);
  }
}

TEST_P(Halves, NormsStandRounded) {
  for (const Shape& shape : {Shape{4, 16, 32, 32}, {3, 33, 9, 7}, {5, 48, 7, 7}, {70, 40, 1, 1}}) {
    const Shape channels{shape[1]};
    for (const std::string steps : {"", "add", "relu", "add+relu"})
      for (const bool all : {false, true}) {
        SCOPED_TRACE(text(shape, " then ", steps, all ? ", all read" : ""));
        FusionGroup group;
        const int x = group.input(exact(shape, 1)), gamma = group.input(any(channels, 2)),
                  beta = group.input(any(channels, 3));
        std::vector<int> activations{x};
        if (starts_with(steps, "add")) activations.push_back(group.input(exact(shape, 4)));
        const std::vector<int> norm = group.then(make_op("batch_norm_train"), {x, gamma, beta});
        std::vector<int> made{norm[0]}, out{norm[1], norm[2]};
        if (starts_with(steps, "add")) made.push_back(group.then(make_op("add"), {made.back(), activations.back()})[0]);
        if (ends_with(steps, "relu")) made.push_back(group.then(make_op("relu"), {made.back()})[0]);
        if (!all) made = {made.back()};
        activations.insert(activations.end(), made.begin(), made.end());
        out.insert(out.end(), made.begin(), made.end());
        expect_rounded(group, {activations, out}, "cpu");
      }
    SCOPED_TRACE(text("gradient of ", shape));
    FusionGroup group;
    const int dy = group.input(exact(shape, 1)), x = group.input(exact(shape, 2));
    const std::vector<int> out = group.then(
        make_op("batch_norm_grad"),
        {dy, x, group.input(any(channels, 3)), group.input(any(channels, 4)), group.input(any(channels, 5, 0.5))});
    expect_rounded(group, {{dy, x, out[0]}, out}, "cpu");
  }
}

/// Where windows overlap, each of their shares rounds the sum of those before.
TEST_P(Halves, GradientsOfPoolingsStandRounded) {
  const Pool2dOptions two{.kernel = {2, 2}, .stride = {2, 2}},
      three{.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}},
      five{.kernel = {5, 2}, .stride = {3, 3}, .pad = {1, 0, 2, 1}};
  for (const Shape& shape : {Shape{2, 40, 14, 12}, {3, 33, 9, 11}, {2, 16, 46, 41}})
    for (const Pool2dOptions& options : {two, three, five}) {
      SCOPED_TRACE(text(shape, " kernel ", options.kernel[0]));
      const bool overlaps = options.kernel[0] > options.stride[0];
      const auto stand = [&](std::vector<int> activations, std::vector<int> out) {
        Stand made{std::move(activations), std::move(out)};
        if (overlaps) made.rounded = 4e-3 * loss(), made.units = 4;
        return made;
      };
      MaxPool2d pool;
      pool.options = options;
      const Shape y = pool.infer(Types{{DType::f32, shape}})[0].shape;
      for (const bool gated : {false, true}) {
        FusionGroup group;
        auto grad = std::make_shared<MaxPool2dGrad>();
        grad->options = options;
        const int x = group.input(relu(exact(shape, 1))), dy = group.input(exact(y, 2));
        std::vector<int> out = group.then(grad, {x, dy});
        if (gated) out = group.then(make_op("relu_grad"), {x, out[0]});
        expect_rounded(group, stand({x, dy, out[0]}, out), "cpu");
      }
      FusionGroup group;
      auto grad = std::make_shared<AvgPool2dGrad>();
      grad->options = options, grad->input_shape = shape;
      const int dy = group.input(exact(y, 3));
      const std::vector<int> out = group.then(grad, {dy});
      expect_rounded(group, stand({dy, out[0]}, out), "cpu");
    }
}

/// Sums over what is rounded, and copies of it, which change nothing.
TEST_P(Halves, SumsAndPiecesStandRounded) {
  const auto expect = [](FusionGroup& group, std::vector<int> activations, std::vector<int> out) {
    expect_rounded(group, {.activations = std::move(activations), .out = std::move(out), .rounded = 0, .exact = 1e-5},
                   "cpu");
  };
  for (const Shape& shape : {Shape{2, 64, 9, 7}, {3, 33, 14, 13}, {2, 48, 40, 45}}) {
    SCOPED_TRACE(text(shape));
    for (const std::vector<std::int64_t>& axes : {std::vector<std::int64_t>{0, 2, 3}, {2, 3}, {1}, {}}) {
      FusionGroup group;
      const auto sum = make_op("sum");
      static_cast<ReduceOp&>(*sum).axes = axes;
      const int x = group.input(exact(shape, 1));
      expect(group, {x}, group.then(sum, {x}));
    }
    FusionGroup filled;
    const int mean = filled.input(exact({shape[0], shape[1], 1, 1}, 2));
    const std::vector<int> plane = filled.then(std::make_shared<BroadcastTo>(shape), {mean});
    expect(filled, plane, plane);
    if (shape[1] % 16 != 0) continue;
    for (const SliceOptions& part : {SliceOptions{.starts = {16}, .ends = {48}, .axes = {1}},
                                     {.starts = {8}, .ends = {40}, .axes = {1}},
                                     {.starts = {0, 1}, .ends = {16, 7}, .axes = {1, 2}, .steps = {1, 2}}}) {
      FusionGroup group;
      const int x = group.input(exact(shape, 1));
      const std::vector<int> out = group.then(std::make_shared<Slice>(part), {x});
      expect(group, {x, out[0]}, out);
    }
    for (const int axis : {1, 2}) {
      FusionGroup group;
      Shape other = shape;
      other[axis] = 16;
      const int a = group.input(exact(shape, 1)), b = group.input(exact(other, 2)), c = group.input(exact(shape, 3));
      const std::vector<int> out = group.then(std::make_shared<Concat>(axis), {a, b, c});
      expect(group, {a, b, c, out[0]}, out);
    }
  }
}

/// A small residual network, its loss and gradients: all between its kernels stands rounded. Where rounding lifts a
/// number over a relu's zero, or another to be the largest of a pooling's window, a gradient differs as a whole; with
/// steps that are smooth none does.
TEST_P(Halves, StepsOfNetworksStandRounded) {
  const Conv2dOptions down{.stride = {2, 2}, .pad = {1, 1, 1, 1}}, pixelwise;
  const Pool2dOptions two, three{.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}};
  const Tensor x = any({6, 16, 28, 28}, 98), target = any({6, 40, 1, 1}, 99);
  const Shape shapes[] = {{32, 16, 3, 3}, {48, 32, 3, 3}, {48, 48, 3, 3}, {48, 32, 1, 1}, {40, 48, 1, 1}};
  Tensors weights;  // a filter, a gain and a shift of each layer
  for (const Shape& shape : shapes)
    for (const Tensor& each :
         {any(shape, weights.size()), any({shape[0]}, weights.size() + 1, 0.5), any({shape[0]}, weights.size() + 2)})
      weights.push_back(each);
  for (const bool smooth : {false, true}) {
    const Net step = [&](const Tensors& in) -> Tensors {
      const auto activated = [&](const Tensor& y) { return smooth ? silu(y) : relu(y); };
      const auto pooled = [&](const Tensor& y, const Pool2dOptions& options) {
        return smooth ? avg_pool2d(y, options) : max_pool2d(y, options);
      };
      const auto layer = [&](const Tensor& given, std::size_t i, const Conv2dOptions& options) {
        return batch_norm(conv2d(given, weights[3 * i], {}, options), weights[3 * i + 1], weights[3 * i + 2], {}, {});
      };
      const Tensor a = pooled(activated(layer(in[0], 0, kSame)), three);
      const Tensor b = activated(layer(activated(layer(a, 1, kSame)), 2, down) + layer(pooled(a, two), 3, pixelwise));
      const Tensor loss = sum(mul(global_avg_pool2d(activated(layer(b, 4, pixelwise))), in[1]));
      Tensors out = gradients(std::vector{loss}, weights);
      out.push_back(loss);
      return out;
    };
    const auto planned_with = [&](PlanOptions options) {
      options.training = true, options.winograd = !smooth;
      return plan(step, op_table::types_of({x, target}), options);
    };
    const Plan last = planned_with({.compute_dtype = tested_half()});
    int activations = 0;
    for (const PlanRow& row : last.rows()) {
      const auto has = [&](std::string_view part) { return row.op.find(part) != row.op.npos; };
      const bool large = (has("conv2d") && !has("weight_grad")) || has("batch_norm") || has("pool2d") || has("relu") ||
                         has("silu") || has("add");
      if (!large || has("global_avg_pool2d")) continue;  // whose result is a row of features
      ++activations;
      EXPECT_EQ(text(row.layout), halves()) << row.op << " by " << row.kernel;
    }
    EXPECT_GE(activations, 15);
    const Tensors expected = planned_with({.interpret = true})({x, target}), got = last({x, target});
    double most = 0;
    for (std::size_t i = 0; i < got.size(); ++i) most = std::max(most, error_of(expected[i], got[i]));
    EXPECT_LT(most, smooth ? 0.03 : 0.35);
    EXPECT_GT(most, 1e-3 * loss()) << "nothing was rounded";
  }
}

NEURIM_OF_BOTH_HALVES();

}  // namespace
}  // namespace neurim
