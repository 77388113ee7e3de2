// Plans whose products round both factors to 16 bits. Of numbers that these have, such products are exact, so that
// results are those of f32.
#include "tests/storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "neurim/ops/add.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/gelu.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/layer_norm.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/multihead_attention.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/sigmoid.h"
#include "neurim/ops/silu.h"
#include "neurim/ops/softmax.h"
#include "neurim/ops/split.h"

namespace neurim {
namespace {

/// What may stand behind a convolution.
Tensor followed(Tensor y, const Tensor& residual, const Tensor& gate, int kind) {
  if (kind == 1) return relu(y);
  if (kind == 2) return relu(y + residual);
  if (kind == 3) return silu(y);
  if (kind == 4) return y * sigmoid(gate);
  return kind == 5 ? clamp(y + residual, 0, 6) : y;
}

TEST_P(Halves, ConvolutionsOfExactNumbers) {
  const std::vector<Case> cases{
      {{2, 32, 9, 11}, {48, 32, 1, 1}, {}, "cpu 1x1"},
      {{1, 20, 1, 3}, {17, 20, 1, 1}, {}, "cpu 1x1"},
      {{3, 33, 7, 7}, {40, 33, 1, 1}, {}, "cpu 1x1"},
      {{1, 64, 14, 14}, {256, 64, 1, 1}, {}, "cpu 1x1"},
      {{2, 32, 9, 11}, {48, 32, 1, 1}, {.stride = {2, 2}}, "cpu direct"},
      {{1, 32, 8, 9}, {32, 32, 3, 3}, {.stride = {2, 2}, .pad = {1, 1, 1, 1}}, "cpu direct"},
      {{2, 40, 15, 14}, {72, 40, 3, 3}, {.stride = {2, 2}, .pad = {0, 1, 1, 0}}, "cpu direct"},
      {{1, 20, 12, 30}, {24, 20, 3, 3}, {.pad = {1, 1, 1, 1}}, "cpu direct"},
      {{1, 16, 13, 13}, {16, 16, 5, 5}, {.stride = {1, 3}, .pad = {2, 2, 2, 2}}, "cpu direct"},
      {{1, 16, 20, 20}, {32, 16, 3, 3}, {.dilation = {2, 3}, .pad = {2, 3, 2, 3}}, "cpu direct"},
      {{2, 16, 20, 20}, {32, 16, 3, 2}, {.stride = {3, 2}, .dilation = {1, 3}, .pad = {0, 4, 3, 0}}, "cpu direct"},
      {{1, 48, 9, 9}, {33, 48, 1, 7}, {.pad = {0, 3, 0, 3}}, "cpu direct"},
      {{1, 48, 9, 9}, {33, 48, 7, 1}, {.stride = {2, 2}, .pad = {3, 0, 3, 0}}, "cpu direct"},
      {{1, 272, 5, 5}, {530, 272, 2, 2}, {}, "cpu direct"},
      {{1, 16, 1, 1}, {64, 16, 3, 3}, {.pad = {1, 1, 1, 1}}, "cpu direct"},
      {{5, 16, 2, 40}, {16, 16, 2, 1}, {.stride = {2, 1}}, "cpu direct"},
      {{1, 512, 5, 130},
       {16, 512, 3, 3},
       {.stride = {2, 2}, .pad = {1, 1, 1, 1}},
       "cpu direct"},  // a row is a large band
      {{1, 64, 30, 33}, {16, 64, 3, 3}, {.dilation = {12, 12}, .pad = {12, 12, 12, 12}}, "cpu direct"},
      // Images.
      {{2, 3, 31, 32}, {64, 3, 7, 7}, {.stride = {2, 2}, .pad = {3, 3, 3, 3}}, "cpu direct"},
      {{1, 3, 9, 17}, {24, 3, 3, 3}, {.stride = {2, 2}, .pad = {0, 0, 1, 1}}, "cpu direct"},
      {{3, 3, 10, 6}, {16, 3, 3, 3}, {.pad = {1, 1, 1, 1}}, "cpu direct"},
      {{1, 1, 12, 13}, {20, 1, 5, 5}, {.pad = {0, 2, 0, 2}}, "cpu direct"},
      {{1, 4, 27, 27}, {17, 4, 11, 11}, {.stride = {4, 4}, .pad = {2, 2, 2, 2}}, "cpu direct"},
      {{2, 3, 32, 48}, {40, 3, 16, 16}, {.stride = {16, 16}}, "cpu direct"},
      {{2, 3, 9, 9}, {16, 3, 4, 2}, {.stride = {4, 4}}, "cpu direct"},
      {{1, 2, 6, 7}, {16, 2, 1, 3}, {.stride = {3, 1}, .pad = {0, 5, 0, 1}}, "cpu direct"},
      {{1, 3, 11, 5}, {16, 3, 3, 1}, {.stride = {1, 2}, .dilation = {3, 1}, .pad = {1, 0, 2, 0}}, "cpu direct"},
      {{1, 3, 3, 3}, {16, 3, 3, 3}, {.pad = {2, 9, 2, 9}}, "cpu direct"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i)
    for (const std::size_t more : {0, 1, 3}) {
      const int kind = static_cast<int>((i + more) % 6);
      const Case& c = cases[i];
      const Tensor x = exact(c.x, 1), weight = exact(c.weight, 2), bias = kind % 2 ? any({c.weight[0]}, 3) : Tensor();
      const Shape y = result_of(c);
      const Tensors in{x, any(y, 4), any({y[0], y[1], 1, 1}, 5)};
      const Net net = [&](const Tensors& given) -> Tensors {
        return {followed(conv2d(given[0], weight, bias, c.options), given[1], given[2], kind)};
      };
      const std::string where = text("case ", i, ' ', c.x, ' ', c.weight, " kind ", kind);
      const Tensors expected = interpreted(net, in);
      for (const DType products : products_tested()) {
        const Plan last = checked(net, in, expected, text(where, ' ', name(products)), 0, products);
        EXPECT_TRUE(!takes(products) || made_by(last, "conv2d", c.kernel)) << where << ' ' << name(products);
      }
    }
}

TEST_P(Halves, FactorsAreRoundedToTheNearest) {
  const Conv2dOptions two{.stride = {2, 2}, .pad = {1, 1, 1, 1}};
  for (const Case& c : {Case{{2, 40, 9, 9}, {24, 40, 1, 1}, {}, ""},
                        {{2, 40, 9, 9}, {24, 40, 3, 3}, two, ""},
                        {{2, 3, 9, 9}, {24, 3, 3, 3}, two, ""}}) {
    const Tensor x = any(c.x, 1), weight = any(c.weight, 2);
    const Net net = [&](const Tensors& in) -> Tensors { return {conv2d(in[0], weight, {}, c.options)}; };
    const Tensors expected{conv2d(rounded(x), rounded(weight), {}, c.options)};
    checked(net, {x}, expected, text(c.x));
    EXPECT_GT(error_of(interpreted(net, {x})[0], planned(net, {x})({x})[0]), 1e-3 * loss()) << "nothing was rounded";
  }
  // Ties go to the even neighbour, a NaN stays one whatever its digits, and what is too large becomes infinite.
  const float one = 1, half = tested_half() == DType::f16 ? 0x1p-11f : 0x1p-8f, up = std::nextafter(1 + half, 2.0f),
              most = std::numeric_limits<float>::max();
  const std::vector<float> numbers{one + half,
                                   one + 3 * half,
                                   up,
                                   -up,
                                   most,
                                   65519,
                                   0x1.7p-15f,
                                   0x1.8p-24f,
                                   std::bit_cast<float>(0x7fffffffu),
                                   std::bit_cast<float>(0xff800001u),
                                   -0.0f};
  std::vector<float> weights(16 * 16, 0);
  for (std::size_t i = 0; i < 16; ++i) weights[i * 17] = 1;
  const Tensor weight = made({16, 16, 1, 1}, weights);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const Tensor x = made({1, 16, 1, 2}, std::vector<float>(32, numbers[i]));
    const Net net = [&](const Tensors& in) -> Tensors { return {conv2d(in[0], weight)}; };
    const float got = planned(net, {x})({x})[0].values<float>()[0], expected = op_table::nearest_half(numbers[i]);
    if (std::isnan(expected) || std::isinf(expected))
      EXPECT_TRUE(std::isnan(got)) << i;  // times a weight of zero
    else
      EXPECT_EQ(got, expected) << i;
  }
}

/// Infinite pixels reach the results that read them and no others, not by way of a zero beside them.
TEST_P(Halves, InfinitePixelsStayWhereTheyAre) {
  const Conv2dOptions two{.stride = {2, 2}, .pad = {1, 1, 1, 1}};
  for (const Case& c : {Case{{1, 33, 9, 9}, {24, 33, 1, 1}, {}, ""},
                        {{1, 17, 9, 9}, {24, 17, 3, 3}, two, ""},
                        {{1, 3, 9, 9}, {24, 3, 3, 3}, two, ""},
                        {{1, 3, 9, 9}, {24, 3, 3, 3}, {.pad = {0, 1, 0, 1}}, ""},
                        {{1, 1, 9, 9}, {16, 1, 5, 5}, {}, ""}})
    for (int place = 0; place < 81; place += 8) {
      std::vector<float> values = exact(c.x, 1).values<float>();
      values[values.size() - 1 - static_cast<std::size_t>(place)] = std::numeric_limits<float>::infinity();
      const Tensor x = made(c.x, values), weight = exact(c.weight, 2);
      const Net net = [&](const Tensors& in) -> Tensors { return {conv2d(in[0], weight, {}, c.options)}; };
      const std::vector<float> expected = interpreted(net, {x})[0].values<float>(),
                               got = planned(net, {x})({x})[0].values<float>();
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(std::isfinite(got[i]), std::isfinite(expected[i]))
            << c.x << ' ' << c.weight << " place " << place << " at " << i;
    }
}

TEST_P(Halves, LayersInARow) {
  for (const Shape& shape : {Shape{2, 70, 48}, {1, 197, 64}, {3, 33, 40}, {1, 5, 20}}) {
    const std::int64_t in = shape[-1];
    const Tensor x = any(shape, 1), gain = any({in}, 2), shift = any({in}, 3), w1 = any({72, in}, 4), b1 = any({72}, 5),
                 w2 = any({in, 72}, 6);
    const Net net = [&](const Tensors& given) -> Tensors {
      const Tensor y = layer_norm(given[0], {in}, gain, shift, 1e-6);
      return {linear(gelu(linear(y, w1, b1)), w2) + given[0]};
    };
    const Tensor hidden = gelu(linear(rounded(layer_norm(x, {in}, gain, shift, 1e-6)), rounded(w1), b1));
    const Plan last = checked(net, {x}, {linear(rounded(hidden), rounded(w2)) + x}, text(shape), 5e-4);
    EXPECT_EQ(count(last, "linear", "cpu row-tiled") + count(last, "linear", "cpu 1x1"), shape[1] < 32 ? 2 : 1)
        << shape;
  }
}

/// Layers of a single row read weights that are rounded, of half the memory, and x as it is: what those weights give in
/// f32, to the last bit.
TEST_P(Halves, OneRow) {
  for (const auto& [features, classes] : {std::pair{64, 48}, {70, 33}, {7, 3}, {1000, 130}}) {
    const Tensor x = any({1, features}, 1), weight = any({classes, features}, 2), near = rounded(weight),
                 bias = any({classes}, 3);
    const auto net = [&](const Tensor& w) -> Net {
      return [=](const Tensors& in) -> Tensors { return {relu(linear(in[0], w, bias))}; };
    };
    const Plan plan = planned(net(weight), {x});
    EXPECT_EQ(op_table::difference(planned(net(near), {x}, false, DType::f32)({x}), plan({x}), 0), "")
        << features << " to " << classes;
    EXPECT_EQ(plan.rows()[0].kernel, "cpu gemv");
    EXPECT_EQ(plan.rows()[0].compute_dtype, tested_half());
  }
}

/// Constant weights of layers of some rows stand packed: more columns than rows, and fewer; depths in several ranges,
/// and of no whole block.
TEST_P(Halves, SomeRows) {
  for (const auto& [rows, features, classes] :
       {std::array<std::int64_t, 3>{2, 2100, 137}, {5, 70, 4096}, {32, 576, 1000}, {300, 1031, 48}, {129, 160, 100}})
    for (const bool follows : {false, true}) {
      const Tensor x = any({rows, features}, 1), weight = any({classes, features}, 2), bias = any({classes}, 3),
                   scale = any({classes}, 4);
      const auto layer = [&](const Tensor& in, const Tensor& w) {
        return follows ? silu(linear(in, w, bias)) * scale : linear(in, w);
      };
      const Net net = [&](const Tensors& in) -> Tensors { return {layer(in[0], weight)}; };
      const std::string where = text(x.shape(), " to ", classes, follows ? ", followed" : "");
      const Plan last = checked(net, {x}, {layer(rounded(x), rounded(weight))}, where, 1e-5);
      EXPECT_EQ(count(last, "linear", "cpu rounded matmul"), 1) << where;
      EXPECT_GT(error_of(interpreted(net, {x})[0], last({x})[0]), 5e-4 * loss()) << where << ": nothing was rounded";
    }
}

TEST_P(Halves, Attention) {
  for (const auto& [images, length, heads, features] :
       {std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>{2, 50, 3, 64},
        {1, 197, 2, 32},
        {3, 16, 1, 16},
        {1, 5, 2, 48}}) {
    const Tensor x = any({images, length, 3 * heads * features}, 1);
    const Net net = [heads = heads](const Tensors& given) -> Tensors {
      return {multihead_self_attention(given[0], heads)};
    };
    const Tensors expected{multihead_self_attention(rounded(x), heads)};  // but for the weights, which are rounded too
    const Plan last = checked(net, {x}, expected, text(x.shape()), 3e-3 * loss());
    EXPECT_EQ(count(last, "multihead_attention", "cpu"), 1) << x.shape();
    EXPECT_GT(error_of(interpreted(net, {x})[0], last({x})[0]), 3e-4 * loss()) << "nothing was rounded";
  }
}

/// Between layers what attention reads and makes stands rounded.
/// The error of sums of this many products of random signs, relative to the sums, where they are added up as sums of
/// f16. A lane takes every other product, up to 144, and its sum of k terms is of size sqrt(k); rounding it to 11 bits
/// errs by 0.21 units of 2^-10 of that, root mean square over where it stands between two powers of two: 0.21 * 2^-10 *
/// sqrt(1 + ... + n) / sqrt(n). The two lanes are added so, too.
double short_sum_error(std::int64_t terms) {
  const double lane = std::min<double>(144, std::ceil(static_cast<double>(terms) / 2));
  return tested_half() == DType::f16 && sums_of_f16() ? 0.21 * 0x1p-10 * std::sqrt(lane / 2 + 1) : 0;
}

double mean_square(const std::vector<float>& all) {
  return std::transform_reduce(all.begin(), all.end(), 0.0, std::plus<>(), [](double x) { return x * x; }) /
         static_cast<double>(all.size());
}

/// The most that may be lost of a layer behind attention over what layers of `in` features make, to first order.
/// Softmax turns an error of a score into that relative error of its weight, so that large scores of q (N, L, heads *
/// D) and k lose more. Where few weights of two keys compete, few errors make up the whole: the square of the sum of n
/// equal ones spreads by sqrt(2 / n) of itself, and four times that is allowed. A quarter is added for terms of unequal
/// size, which make larger sums before the last.
double most_lost_by_attention(const Tensor& queries, const Tensor& keys, const Tensor& values, std::int64_t heads,
                              std::int64_t in) {
  const std::vector<float> q = queries.values<float>(), k = keys.values<float>(), v = values.values<float>();
  const std::int64_t images = queries.size(0), length = queries.size(1), wide = queries.size(2),
                     features = wide / heads;
  const auto squared = [](double x) { return x * x; };
  const double scale = 1 / std::sqrt(static_cast<double>(features)), layer = squared(short_sum_error(in)),
               product = squared(short_sum_error(features)), mixing = squared(short_sum_error(length)),
               of_q = layer * mean_square(q), of_k = layer * mean_square(k), of_v = layer * mean_square(v);
  double error = 0, squares = 0, size = 0;
  std::vector<double> weight(static_cast<std::size_t>(length)), variance(weight.size());
  for (std::int64_t image = 0; image < images; ++image)
    for (std::int64_t head = 0; head < heads; ++head)
      for (std::int64_t i = 0; i < length; ++i) {
        const auto at = [&](const std::vector<float>& all, std::int64_t row, std::int64_t f) -> double {
          return all[(image * length + row) * wide + head * features + f];
        };
        for (std::int64_t j = 0; j < length; ++j) {
          double score = 0, spread = 0;
          for (std::int64_t f = 0; f < features; ++f) {
            score += at(q, i, f) * at(k, j, f);
            spread += of_q * squared(at(k, j, f)) + of_k * squared(at(q, i, f)) +
                      product * squared(at(q, i, f) * at(k, j, f));
          }
          weight[j] = scale * score, variance[j] = scale * scale * spread;
        }
        const double greatest = *std::max_element(weight.begin(), weight.end());
        double sum = 0;
        for (double& w : weight) sum += w = std::exp(w - greatest);
        for (double& w : weight) w /= sum;
        std::vector<double> y(static_cast<std::size_t>(features));
        for (std::int64_t j = 0; j < length; ++j)
          for (std::int64_t f = 0; f < features; ++f) y[f] += weight[j] * at(v, j, f);
        for (const double each : y) size += each * each;
        for (std::int64_t j = 0; j < length; ++j) {
          double own = 0;
          for (std::int64_t f = 0; f < features; ++f)
            own += variance[j] * squared(at(v, j, f) - y[f]) + mixing * squared(at(v, j, f)) + of_v;
          own *= squared(weight[j]);
          error += own, squares += own * own;
        }
      }
  if (error == 0) return 0;
  return 1.25 * std::sqrt(error / size * (1 + 4 * std::sqrt(2 * squares) / error) + squared(short_sum_error(wide)));
}

TEST_P(Halves, AttentionBetweenLayers) {
  const int before = threads();
  for (const auto& [images, length, heads, features] :
       {std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>{2, 50, 3, 64},
        {1, 197, 2, 32},
        {3, 16, 1, 16},
        {1, 5, 2, 48}})
    for (const bool apart : {false, true})
      for (const int number : {1, 3, 2}) {
        set_threads(number);
        const std::int64_t wide = heads * features;
        const auto weights = [](const Shape& shape, std::uint64_t seed) {
          return op_table::uniform(shape, -0.5, 0.5, seed);
        };  // of scores of about 2.5
        const Tensor x = any({images, length, 40}, 1), qkv = weights({3 * wide, 40}, 2), shift = weights({3 * wide}, 3),
                     q = weights({wide, 40}, 4), k = weights({wide, 40}, 5), v = weights({wide, 40}, 6),
                     back = any({24, wide}, 7);
        const auto attend = [&, heads = heads](const Tensor& given, bool by_hand) {
          const auto factor = [&](const Tensor& tensor) { return by_hand ? rounded(tensor) : tensor; };
          const auto layer = [&](const Tensor& weight, const Tensor& bias) {
            return factor(linear(factor(given), factor(weight), bias));
          };
          const Tensor y = apart ? multihead_attention(layer(q, {}), layer(k, {}), layer(v, {}), heads)
                                 : multihead_self_attention(layer(qkv, shift), heads);
          return linear(factor(y), factor(back));
        };
        const Tensors parts = apart ? Tensors{linear(x, q), linear(x, k), linear(x, v)}
                                    : split(linear(x, qkv, shift), {wide, wide, wide}, 2);
        const double of_sums = most_lost_by_attention(parts[0], parts[1], parts[2], heads, x.size(2));
        const Net net = [&](const Tensors& given) -> Tensors { return {attend(given[0], false)}; };
        const std::string where = text(x.shape(), ' ', heads, " heads, threads ", number, apart ? ", apart" : "");
        const Plan last = checked(net, {x}, {attend(x, true)}, where, 3e-3 * loss(), tested_half(), of_sums);
        EXPECT_EQ(count(last, "multihead_attention", "cpu"), 1) << where;
        EXPECT_EQ(layouts(last, "multihead_attention")[0], text(Layout{Layout::last_blocked, 16}, ' ', tested_half()))
            << where;
      }
  set_threads(before);
}

TEST_P(Halves, ImagesInARow) {
  for (const auto& [shape, kernel, stride] : {std::tuple<Shape, Shape, std::int64_t>{{2, 3, 64, 50}, {32, 3, 3, 3}, 2},
                                              {{3, 1, 40, 33}, {16, 1, 5, 5}, 1},
                                              {{8, 4, 90, 30}, {40, 4, 7, 3}, 3}})
    for (const bool projects : {true, false}) {
      const std::int64_t wide = kernel[0];
      const Tensor x = any(shape, 1), w1 = any(kernel, 2), b1 = any({wide}, 3), w2 = any({wide, 1, 3, 3}, 4),
                   w3 = any({24, wide, 1, 1}, 5);
      const auto layers = [&, stride = stride](const Tensor& given, bool by_hand) {
        const auto factor = [&](const Tensor& tensor) { return by_hand ? rounded(tensor) : tensor; };
        Tensor y = silu(conv2d(factor(given), factor(w1), b1, {.stride = {stride, stride}, .pad = {1, 1, 1, 1}}));
        y = relu(conv2d(y, w2, {}, {.pad = {1, 1, 1, 1}, .groups = wide}));
        return projects ? conv2d(factor(y), factor(w3)) : y;
      };
      const Net net = [&](const Tensors& given) -> Tensors { return {layers(given[0], false)}; };
      const std::string where = text(shape, ' ', kernel, projects ? ", projected" : "");
      const Plan last = checked(net, {x}, {layers(x, true)}, where, 1e-3);
      EXPECT_EQ(count(last, "conv2d", "cpu row-tiled"), 1) << where;
    }
}

TEST_P(Halves, InvertedResiduals) {
  for (const Shape& shape : {Shape{2, 24, 24, 25}, {1, 32, 40, 14}, {3, 20, 5, 5}})
    for (const std::int64_t stride : {1, 2}) {
      const std::int64_t in = shape[1], wide = 6 * in;
      const Tensor x = any(shape, 1), w1 = any({wide, in, 1, 1}, 2), w2 = any({wide, 1, 3, 3}, 3),
                   w3 = any({in, wide, 1, 1}, 4);
      const Conv2dOptions depthwise{.stride = {stride, stride}, .pad = {1, 1, 1, 1}, .groups = wide};
      const auto block = [&](const Tensor& given, bool by_hand, bool apart) {
        const auto factor = [&](const Tensor& tensor) { return by_hand ? rounded(tensor) : tensor; };
        Tensor y = clamp(conv2d(factor(given), factor(w1)), 0, 6);
        y = clamp(conv2d(apart ? factor(y) : y, w2, {}, depthwise), 0, 6);  // between kernels it stands rounded
        y = conv2d(factor(y), factor(w3));
        return stride == 1 ? y + given : y;
      };
      const Net net = [&](const Tensors& given) -> Tensors { return {block(given[0], false, false)}; };
      const int before = threads();
      Tensors first;
      for (const int number : {1, 3, 2})
        for (const bool deterministic : {false, true}) {
          set_threads(number);
          const Plan plan = planned(net, {x}, deterministic);
          const bool apart = layouts(plan, "conv2d")[0] == halves() && count(plan, "conv2d", "cpu row-tiled") == 0;
          const Tensors got = plan({x});
          EXPECT_LE(error_of(block(x, true, apart), got[0]), 1e-3 + of_short_sums())
              << shape << " stride " << stride << ", threads " << number << ", deterministic " << deterministic;
          if (!deterministic) continue;
          if (first.empty()) first = got;
          EXPECT_EQ(op_table::difference(first, got, 0), "") << shape << " stride " << stride << ", threads " << number;
        }
      set_threads(before);
    }
}

/// Whole numbers of few bits, which both have, and weights of which each output reads three.
Tensor whole(const Shape& shape, std::uint64_t seed) {
  std::vector<float> values = op_table::uniform(shape, -2.4, 2.4, seed).values<float>();
  for (float& value : values) value = std::nearbyint(value);
  return made(shape, values);
}
Tensor sparse(const Shape& shape, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()), 0);
  const std::int64_t row = shape.numel() / shape[0];
  for (std::int64_t o = 0; o < shape[0]; ++o)
    for (std::int64_t n = 0; n < 3; ++n) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      values[o * row + static_cast<std::int64_t>(seed >> 33) % row] = n == 1 ? -1.0f : 1.0f;
    }
  return made(shape, values);
}

/// What stands between kernels that all take halves does so; of numbers that it has, nothing changes. `channels`: with
/// and without a tail.
TEST_P(Halves, ValuesStandRoundedBetweenKernels) {
  const Conv2dOptions two{.stride = {2, 2}, .pad = {1, 1, 1, 1}}, down{.stride = {2, 2}};
  for (const std::int64_t channels : {48, 20})
    for (const std::int64_t images : {1, 3}) {
      const std::int64_t c = channels, wide = 3 * c;
      const Tensor x = whole({images, 3, 26, 27}, 1), stem = sparse({c, 3, 3, 3}, 2), one = sparse({wide, c, 1, 1}, 3),
                   three = sparse({c, wide, 3, 3}, 4), shortcut = sparse({c, c, 1, 1}, 5),
                   last = sparse({32, c, 1, 1}, 6), bias = whole({c}, 7);
      const Net residual = [&](const Tensors& in) -> Tensors {
        const Tensor a = max_pool2d(relu(conv2d(in[0], stem, bias, kSame)),
                                    {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}});
        const Tensor b = conv2d(relu(conv2d(a, one)), three, bias, two), sum = relu(b + conv2d(a, shortcut, {}, down));
        return {global_avg_pool2d(conv2d(sum, last))};
      };
      const Plan plan = checked(residual, {x}, interpreted(residual, {x}), text("residual ", c));
      const std::vector<std::string> all = layouts(plan);
      EXPECT_EQ(std::count(all.begin(), all.end(), halves()), std::ssize(all) - 1)
          << join(all, "; ");  // but of the means

      const Net joined = [&](const Tensors& in) -> Tensors {
        const Tensor a = relu(conv2d(in[0], stem, bias, kSame));
        const Tensor both = concat({conv2d(a, shortcut), conv2d(a, one)}, 1);
        return {conv2d(avg_pool2d(both, {.kernel = {2, 2}, .stride = {2, 2}}), sparse({16, c + wide, 1, 1}, 8))};
      };
      const Plan blocks = checked(joined, {x}, interpreted(joined, {x}), text("joined ", c));
      std::vector<std::string> concat_layouts{c % 16 == 0 ? halves() : "plain"};
      if (c % 16 == 0 && images == 1) concat_layouts.clear();  // what is joined is made there
      EXPECT_EQ(layouts(blocks, "concat"), concat_layouts);

      // An inverted residual between others, and one whose last convolution is depthwise.
      const Tensor expand = sparse({wide, c, 1, 1}, 9), depth = sparse({wide, 1, 3, 3}, 10),
                   project = sparse({c, wide, 1, 1}, 11);
      const Conv2dOptions depthwise{.pad = {1, 1, 1, 1}, .groups = wide};
      const Net inverted = [&](const Tensors& in) -> Tensors {
        const Tensor a = conv2d(in[0], stem, bias, kSame);
        const Tensor b = conv2d(clamp(conv2d(clamp(conv2d(a, expand), 0, 6), depth, {}, depthwise), 0, 6), project) + a;
        const Tensor d = relu(relu(conv2d(relu(conv2d(b, expand)), depth, {}, depthwise)) +
                              made({wide, 1, 1}, std::vector<float>(static_cast<std::size_t>(wide), 2.0f)));
        return {conv2d(d, sparse({16, wide, 1, 1}, 12)), conv2d(d, project)};
      };
      const Plan bands = checked(inverted, {x}, interpreted(inverted, {x}), text("inverted ", c));
      EXPECT_EQ(count(bands, "conv2d", "cpu row-tiled"), 2) << c;
      EXPECT_EQ(layouts(bands, "conv2d"), (std::vector<std::string>{halves(), halves(), halves(), kFloats, kFloats}))
          << c;
    }
}

/// Beside steps that are no part of a kernel's epilogue, and through Winograd's points, it is as if each value were
/// rounded by hand.
TEST_P(Halves, RoundedValuesAreTheNearest) {
  for (const std::int64_t c : {48, 20}) {
    const Tensor x = any({2, c, 15, 14}, 1), one = any({c, c, 1, 1}, 2), other = any({32, c, 1, 1}, 3),
                 gate = any({2, c, 1, 1}, 4), two = any({c, c, 3, 3}, 5);
    const auto net = [&](const Tensors& in, bool by_hand) -> Tensors {
      const auto factor = [&](const Tensor& tensor) { return by_hand ? rounded(tensor) : tensor; };
      const Tensor a = factor(silu(conv2d(factor(in[0]), factor(one))));
      const Tensor b = factor(silu(
          conv2d(factor(a * sigmoid(global_avg_pool2d(a))), factor(two), {}, {.stride = {2, 1}, .pad = {1, 1, 1, 1}})));
      const Tensor d = factor(conv2d(b, factor(one)) * sigmoid(in[1]) + b);
      return {conv2d(d, factor(other))};
    };
    const Net planned_net = [&](const Tensors& in) { return net(in, false); };
    const Tensors expected = net({x, gate}, true);
    const Plan plan = checked(planned_net, {x, gate}, expected, text("steps ", c), 1e-3);
    if (of_short_sums() == 0) {  // which lose as much as the rounding
      EXPECT_GT(error_of(interpreted(planned_net, {x, gate})[0], plan({x, gate})[0]),
                3 * error_of(expected[0], plan({x, gate})[0]));
    }
    EXPECT_EQ(layouts(plan, "conv2d"), (std::vector<std::string>{halves(), halves(), halves(), kFloats}));
    EXPECT_EQ(count(plan, "mul+conv2d", "cpu direct"), 1);
  }
  const Tensor x = any({1, 64, 28, 28}, 1), weight = any({64, 64, 3, 3}, 2), one = any({64, 64, 1, 1}, 3);
  const Net net = [&](const Tensors& in) -> Tensors {
    const Tensor a = relu(conv2d(in[0], one)), b = relu(conv2d(a, weight, {}, kSame));
    return {conv2d(relu(conv2d(b, weight, {}, kSame) + a), one)};
  };
  const Plan plan = checked(net, {x}, interpreted(net, {x}), "winograd", 0.02);
  EXPECT_EQ(count(plan, "conv2d", "cpu winograd"), 2);
  EXPECT_EQ(layouts(plan), (std::vector<std::string>{"blocked16", halves(), halves(), halves(), kFloats, "plain"}));
}

/// A value stays exact where one of its readers takes floats, or it is a result; so does one beside it that a kernel
/// wants alike.
TEST_P(Halves, OtherReadersKeepValuesExact) {
  const Tensor x = any({2, 32, 12, 12}, 1), one = any({32, 32, 1, 1}, 2), gain = any({32}, 3),
               other = any({32, 32, 1, 1}, 4);
  const Net net = [&](const Tensors& in) -> Tensors {
    const Tensor a = conv2d(in[0], one), b = conv2d(a, one), both = concat({b, conv2d(a, other)}, 1);
    return {softmax(a, 3), conv2d(both, any({32, 64, 1, 1}, 5)), both};
  };
  const Plan plan = planned(net, {x});
  for (const std::string& layout : layouts(plan)) EXPECT_NE(layout, halves());
  EXPECT_LE(error_of(interpreted(net, {x})[0], plan({x})[0]), 0.01);
}

TEST_P(Halves, WinogradsPoints) {
  for (const Shape& shape : {Shape{2, 32, 28, 27},
                             {1, 64, 14, 14},
                             {1, 16, 56, 9},
                             {1, 64, 7, 7},
                             {3, 32, 4, 3}}) {  // the last in tiles of 2x2
    const Tensor x = relu(any(shape, 1)), weight = any({48, shape[1], 3, 3}, 2), bias = any({48}, 3);
    const Net net = [&](const Tensors& in) -> Tensors { return {relu(conv2d(in[0], weight, bias, kSame))}; };
    const Plan last = checked(net, {x}, interpreted(net, {x}), text(shape), 0.0125 * loss());
    EXPECT_EQ(count(last, "conv2d", "cpu winograd"), 1) << shape;
    EXPECT_GT(error_of(interpreted(net, {x})[0], planned(net, {x})({x})[0]), 1e-3 * loss()) << "nothing was rounded";
  }
}

/// Weights whose corner is all: at Winograd's points they take the most digits, which f16 has.
TEST_P(Halves, TheNumericGateSendsLayersToADirectConvolution) {
  std::vector<float> corner(32 * 64 * 9, 0), none = corner;
  const std::vector<float> some = exact({32, 64}, 1).values<float>();
  for (std::size_t i = 0; i < some.size(); ++i) corner[9 * i] = some[i];
  const Tensor x = exact({1, 64, 16, 16}, 2);
  const auto row = [](const Plan& planned) {
    const auto rows = planned.rows();
    return *std::find_if(rows.begin(), rows.end(), [](const PlanRow& r) { return r.op.find("conv2d") != r.op.npos; });
  };
  std::vector<float> mixed = any({32, 64, 3, 3}, 3).values<float>();  // a block of the output channels
  std::copy_n(corner.begin(), mixed.size() / 2, mixed.begin());
  for (const auto& [values, kernel] : {std::pair{corner, "cpu direct"},
                                       {mixed, "cpu direct"},
                                       {none, "cpu winograd"},
                                       {any({32, 64, 3, 3}, 3).values<float>(), "cpu winograd"}}) {
    const Tensor weight = made({32, 64, 3, 3}, values);
    const Net net = [&](const Tensors& in) -> Tensors { return {conv2d(in[0], weight, {}, kSame)}; };
    const Plan last = planned(net, {x});
    const PlanRow conv = row(last);
    EXPECT_EQ(conv.kernel, tested_half() == DType::f16 ? "cpu winograd" : kernel);
    const bool declined = join(conv.declined, "; ").find("would err by") != std::string::npos;
    EXPECT_EQ(declined, conv.kernel == "cpu direct");
    if (declined) {
      EXPECT_EQ(op_table::difference({conv2d(x, rounded(weight), {}, kSame)}, last({x}), 2e-5 + 16 * of_short_sums()),
                "");
    }
  }
}

NEURIM_OF_BOTH_HALVES();

}  // namespace
}  // namespace neurim
