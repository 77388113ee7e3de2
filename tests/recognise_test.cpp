// What imported models write out in other ops is computed by the op of that name, and is the same.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "neurim/compile/plan.h"
#include "neurim/core/random.h"
#include "neurim/ops/add.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/div.h"
#include "neurim/ops/erf.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/sigmoid.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/softmax.h"
#include "neurim/ops/transpose.h"

namespace neurim {
namespace {

Tensor drawn(const Shape& shape, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (float& value : values) value = static_cast<float>(random.normal());
  return Tensor::from(shape, values);
}

using Function = std::function<Tensor(const Tensor&)>;

/// The names of the ops of the plan, in one text. Checks that the plan computes what the function does at once.
std::string planned(const Function& function, const Tensor& x) {
  const Plan p = plan([&](const Tensors& in) { return Tensors{function(in[0])}; }, {x.type()}, {.freeze = true});
  const std::vector<double> expected = function(x).values<double>(), found = p({x})[0].values<double>();
  EXPECT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < std::min(expected.size(), found.size()); ++i)
    EXPECT_NEAR(expected[i], found[i], 2e-5) << i;
  std::string ops;
  for (const PlanRow& row : p.rows()) ops += row.op + " ";
  return ops;
}

bool has(const std::string& ops, const std::string& op) { return ops.find(op) != std::string::npos; }

TEST(Recognise, Gelu) {
  const Tensor x = drawn({5, 33}, 1);
  const double root = std::sqrt(2.0);
  for (const Function& written : {Function([&](const Tensor& t) { return t * (erf(t / root) + 1.0) * 0.5; }),
                                  Function([&](const Tensor& t) { return 0.5 * t * (1.0 + erf(t * (1 / root))); }),
                                  Function([&](const Tensor& t) { return (erf(t / root) + 1.0) * (t * 0.5); })}) {
    const std::string ops = planned(written, x);
    EXPECT_TRUE(has(ops, "gelu") && !has(ops, "erf")) << ops;
  }
  for (const Function& other : {Function([&](const Tensor& t) { return t * (erf(t / 1.5) + 1.0) * 0.5; }),
                                Function([&](const Tensor& t) { return t * (erf(t / root) + 1.0) * 0.25; }),
                                Function([&](const Tensor& t) { return t * (erf(t / root) + 0.5) * 0.5; })})
    EXPECT_FALSE(has(planned(other, x), "gelu"));
}

TEST(Recognise, Silu) {
  const Tensor x = drawn({5, 33}, 7);
  EXPECT_TRUE(has(planned([](const Tensor& t) { return t * sigmoid(t); }, x), "silu"));
  EXPECT_FALSE(has(planned([](const Tensor& t) { return (t + 1.0) * sigmoid(t); }, x), "silu"));
}

TEST(Recognise, BiasAndRowsInAnotherOrder) {
  const Tensor weight = drawn({7, 6}, 2), bias = drawn({7}, 3), x = drawn({5, 2, 6}, 4);
  const auto turned = [&](const Tensor& t) { return linear(transpose(t, {1, 0, 2}), weight) + bias; };
  EXPECT_TRUE(has(planned(turned, x), "linear"));
  const auto back = [&](const Tensor& t) { return transpose(turned(t), {1, 0, 2}); };
  const std::string ops = planned(back, x);
  EXPECT_FALSE(has(ops, "transpose") || has(ops, "add")) << ops;
}

TEST(Recognise, Attention) {
  constexpr std::int64_t n = 2, l = 9, h = 3, e = 16;
  const Tensor x = drawn({n, l, 3 * h * e}, 5), mask = drawn({1, 1, l, l}, 6);
  const auto attended = [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& added) {
    const Tensor scores = matmul(q * 0.5, transpose(k, {0, 1, 3, 2}) * 0.5);
    const Tensor means = matmul(softmax(added ? scores + added : scores, -1), v);
    return reshape(transpose(means, {0, 2, 1, 3}), {n, l, h * e});
  };
  const auto packed = [&](const Tensor& t, const std::vector<std::int64_t>& order, const Tensor& added) {
    const Tensor apart = transpose(reshape(t, {n, l, 3, h, e}), {2, 0, 3, 1, 4});
    const auto part = [&](std::int64_t i) { return reshape(slice(apart, {i}, {i + 1}, {0}), {n, h, l, e}); };
    return attended(part(order[0]), part(order[1]), part(order[2]), added);
  };
  const std::string one = planned([&](const Tensor& t) { return packed(t, {0, 1, 2}, {}); }, x);
  EXPECT_TRUE(has(one, "multihead_attention") && !has(one, "softmax")) << one;
  const std::string other = planned([&](const Tensor& t) { return packed(t, {1, 0, 2}, {}); }, x);
  EXPECT_TRUE(has(other, "multihead_attention")) << other;
  EXPECT_FALSE(has(planned([&](const Tensor& t) { return packed(t, {0, 1, 2}, mask); }, x), "multihead_attention"));
}

/// As torch.nn.MultiheadAttention is exported: the time is the first axis, and batch and heads are one.
Tensor torch_attention(const Tensor& x, std::int64_t heads, const Tensors& weights) {
  const std::int64_t n = x.size(0), l = x.size(1), e = x.size(2), size = e / heads;
  const Tensor all = linear(transpose(x, {1, 0, 2}), weights[0]) + weights[1];  // (l, n, 3e)
  const Tensor apart = transpose(reshape(all, {1, l, n, 3, e}), {3, 1, 2, 0, 4});
  const auto part = [&](std::int64_t i) {
    const Tensor one = gather(reshape(apart, {3, l, n, e}), Tensor::from({}, std::vector<std::int64_t>{i}), 0);
    return reshape(transpose(reshape(one, {l, n * heads, size}), {1, 0, 2}), {n, heads, l, size});
  };
  const Tensor scores = matmul(part(0) * 0.25, transpose(part(1), {0, 1, 3, 2}));
  const Tensor means = matmul(softmax(scores, -1), part(2));
  const Tensor rows = reshape(transpose(means, {2, 0, 1, 3}), {l * n, e});
  return transpose(reshape(linear(rows, weights[2]) + weights[3], {l, n, e}), {1, 0, 2});
}

TEST(Recognise, AttentionWithTheTimeFirst) {
  constexpr std::int64_t l = 7, heads = 3, e = 48;
  const Tensors weights{drawn({3 * e, e}, 8), drawn({3 * e}, 9), drawn({e, e}, 10), drawn({e}, 11)};
  for (const std::int64_t n : {1, 2}) {
    const std::string ops = planned([&](const Tensor& t) { return torch_attention(t, heads, weights); },
                                    drawn({n, l, e}, 12) * 0.1);
    EXPECT_TRUE(has(ops, "multihead_attention")) << ops;
    for (const char* op : {"transpose", "gather", "softmax", "add"}) EXPECT_FALSE(has(ops, op)) << n << ": " << ops;
  }
}

TEST(Recognise, MovesThatCannotBeOneStayAsTheyAre) {
  const Tensor x = drawn({2, 6, 5, 4}, 13);
  for (const Function& moved : {
           Function([](const Tensor& t) {  // of ShuffleNet
             return reshape(transpose(reshape(t, {2, 2, 3, 20}), {0, 2, 1, 3}), {2, 6, 5, 4});
           }),
           Function([](const Tensor& t) { return reshape(slice(transpose(t, {0, 2, 3, 1}), {1}, {3}, {2}), {2, -1}); }),
           Function([](const Tensor& t) {
             return reshape(transpose(slice(t, {-1}, {-99}, {1}, {-2}), {1, 0, 2, 3}), {60, 2});
           }),
           Function(
               [](const Tensor& t) { return transpose(reshape(transpose(t, {0, 1, 3, 2}), {2, 6, 20}), {0, 2, 1}); }),
           Function(
               [](const Tensor& t) { return transpose(transpose(reshape(t, {1, 12, 20}), {2, 0, 1}), {1, 2, 0}); }),
           Function([](const Tensor& t) {
             return linear(reshape(transpose(t, {0, 2, 3, 1}), {2, 120}), drawn({3, 120}, 14));
           }),
           Function([](const Tensor& t) { return linear(reshape(t, {2, 120}), drawn({3, 120}, 15)); }),
           Function([](const Tensor& t) {
             return linear(reshape(transpose(t, {1, 0, 2, 3}), {6, 2, 20}), drawn({3, 20}, 16));
           }),
           Function(
               [](const Tensor& t) { return linear(transpose(t, {3, 2, 0, 1}), drawn({3, 6}, 17)) + drawn({3}, 18); }),
       })
    planned(moved, x);
}

TEST(Recognise, JoinsThatBeginAlike) {
  const Function dense = [](const Tensor& x) {
    Tensors parts{x};
    for (int i = 0; i < 3; ++i) parts.push_back(concat(parts, 1) * 0.5);
    Tensors flat;
    for (const Tensor& joined : {concat(parts, 1), concat({parts[0], parts[1]}, 0), concat({parts[0], parts[1]}, -3)})
      flat.push_back(reshape(joined, {-1}));
    return concat(flat, 0);
  };
  planned(dense, drawn({1, 8, 3, 3}, 19));
}

}  // namespace
}  // namespace neurim
