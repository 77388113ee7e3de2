// Rows of features in blocks of 16: the regions of transformers and what views of images lead to, planned against
// interpreted.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "neurim/compile/plan.h"
#include "neurim/core/device.h"
#include "neurim/ops/add.h"
#include "neurim/ops/batch_norm.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/exp.h"
#include "neurim/ops/gelu.h"
#include "neurim/ops/layer_norm.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/log_softmax.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/multihead_attention.h"
#include "neurim/ops/reduce_max.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/sigmoid.h"
#include "neurim/ops/silu.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/softmax.h"
#include "neurim/ops/split.h"
#include "neurim/ops/sum.h"
#include "neurim/ops/tanh.h"
#include "neurim/ops/transpose.h"
#include "tests/ask_group.h"

namespace neurim {
namespace {

using Net = std::function<Tensors(Tensors)>;

Tensor tensor(const Shape& shape, std::uint64_t seed, double mean = 0) {
  return op_table::uniform(shape, mean - 1.5, mean + 1.5, seed);
}

/// The plan with frozen weights, beside the interpreter's values in one thread, two and three; a deterministic one
/// gives the same bits in each.
Plan checked(const Net& net, const Tensors& in, const std::string& where, double tolerance = 2e-5) {
  const Types types = op_table::types_of(in);
  const Tensors expected = plan(net, types, {.interpret = true})(in);
  const int before = threads();
  Tensors first;
  for (const int count : {1, 3, 2}) {
    set_threads(count);
    const Tensors got = plan(net, types, {.freeze = true})(in),
                  fixed = plan(net, types, {.freeze = true, .deterministic = true})(in);
    EXPECT_EQ(op_table::difference(expected, got, tolerance), "") << where << ", threads " << count;
    EXPECT_EQ(op_table::difference(expected, fixed, tolerance), "") << where << ", deterministic, threads " << count;
    if (first.empty()) first = fixed;
    EXPECT_EQ(op_table::difference(first, fixed, 0), "") << where << ", deterministic, threads " << count;
  }
  set_threads(2);
  const Plan planned = plan(net, types, {.freeze = true});
  set_threads(before);
  return planned;
}

std::int64_t count(const Plan& planned, std::string_view op, std::string_view kernel = {}) {
  const auto rows = planned.rows();
  return std::count_if(rows.begin(), rows.end(), [&](const PlanRow& row) {
    return row.op.find(op) != row.op.npos && (kernel.empty() || row.kernel == kernel);
  });
}

/// A norm, one or two layers and what stands between and behind them: whole blocks and tails, rows that are cut and too
/// few to be.
TEST(Features, LayersInARow) {
  struct Case {
    Shape x;
    std::int64_t wide, out;
  };
  const std::vector<Case> cases{{{2, 70, 48}, 96, 48},    {{1, 197, 64}, 256, 64}, {{3, 33, 40}, 72, 24},
                                {{1, 4, 17, 20}, 36, 20}, {{5, 7, 16}, 32, 16},    {{1, 1, 32}, 48, 32},
                                {{1, 150, 96}, 1600, 96}};
  for (const Case& c : cases)
    for (int kind = 0; kind < 8; ++kind) {
      const bool norm = kind % 2, two = kind & 2, more = kind & 4;
      const std::int64_t in = c.x[-1], last = two ? c.out : c.wide;
      const Tensor x = tensor(c.x, 1, 3), gain = tensor({in}, 2), shift = tensor({in}, 3), w1 = tensor({c.wide, in}, 4),
                   b1 = tensor({c.wide}, 5), w2 = tensor({c.out, c.wide}, 6), scale = tensor({last}, 7);
      Shape to = c.x;
      to[-1] = last;
      const Tensor residual = tensor(to, 8);
      const Net net = [&](const Tensors& given) -> Tensors {
        Tensor y = norm ? layer_norm(given[0], {in}, gain, shift, 1e-6) : given[0];
        y = linear(y, w1, more ? Tensor() : b1);
        if (two) y = linear(more ? relu(y) : gelu(y), w2);
        if (more) y = y * scale;
        return {norm || more ? y + given[1] : relu(y)};
      };
      const std::string where = text(c.x, " kind ", kind);
      const Plan planned = checked(net, {x, residual}, where);
      const bool several = norm || two, enough = c.x.numel() / (c.x[0] * in) >= (c.x[0] > 1 ? 32 : 64);
      if (several && enough) {
        EXPECT_EQ(count(planned, "linear", "cpu row-tiled"), 1) << where;
        EXPECT_EQ(count(planned, "layer_norm"), norm) << where;
        EXPECT_EQ(count(planned, "add") + count(planned, "relu"), more && two ? 2 : 1) << where;
      } else {
        EXPECT_EQ(count(planned, "linear", "cpu 1x1"), 1 + two) << where;
      }
    }
}

/// A layer in a row whose result something else reads is no inner one.
TEST(Features, InnerResultsThatAreRead) {
  const Tensor x = tensor({2, 40, 32}, 1), w1 = tensor({64, 32}, 2), w2 = tensor({32, 64}, 3), gain = tensor({32}, 4),
               shift = tensor({32}, 5);
  const Net net = [&](const Tensors& in) -> Tensors {
    const Tensor normal = layer_norm(in[0], {32}, gain, shift), wide = linear(normal, w1), sharp = gelu(wide);
    return {linear(sharp, w2), sharp, sum(wide, {1}), mean(normal, {2})};
  };
  checked(net, {x}, "inner results");
}

TEST(Features, Attention) {
  struct Case {
    std::int64_t images, length, positions, heads, features, values;
  };
  for (const Case& c : {Case{1, 197, 197, 3, 64, 64}, Case{4, 20, 20, 2, 16, 16}, Case{1, 5, 70, 1, 32, 48},
                        Case{2, 130, 16, 3, 48, 16}, Case{1, 1, 1, 1, 16, 16}, Case{1, 40, 600, 2, 16, 32}}) {
    const std::int64_t queries = c.heads * c.features, values = c.heads * c.values;
    const Tensor all = tensor({c.images, c.length, 3 * queries}, 1), query = tensor({c.images, c.length, queries}, 2),
                 key = tensor({c.images, c.positions, queries}, 3), value = tensor({c.images, c.positions, values}, 4);
    const auto packed = [&](const Tensors& in) { return Tensors{multihead_self_attention(in[0], c.heads)}; };
    const auto apart = [&](const Tensors& in) {
      return Tensors{multihead_attention(in[0], in[1], in[2], c.heads, {}, {.scale = 2})};
    };
    const std::string where = text(c.images, ' ', c.length, ' ', c.positions, ' ', c.heads, ' ', c.features, ' ',
                                   c.values);
    EXPECT_EQ(count(checked(packed, {all}, where), "multihead_attention", "cpu"), 1) << where;
    EXPECT_EQ(count(checked(apart, {query, key, value}, where), "multihead_attention", "cpu"), 1) << where;
  }
}

/// Slices that turn an axis, and slices of slices, of which one alone reads another.
TEST(Features, AttentionBehindOtherSlices) {
  const Tensor x = tensor({2, 20, 96}, 1), q = tensor({2, 20, 32}, 2);
  const std::int64_t all = -1000;
  const std::vector<Net> nets{
      [&](const Tensors& in) -> Tensors {
        const Tensors p = split(in[0], {32, 32, 32}, 2);
        return {multihead_attention(slice(in[0], {-1, 0}, {all, 32}, {1, 2}, {-1, 1}), p[1], p[2], 2)};
      },
      [&](const Tensors& in) -> Tensors {
        const Tensors p = split(in[0], {32, 32, 32}, 2);
        return {multihead_attention(p[0], p[1], slice(in[0], {-1, 64}, {all, 96}, {0, 2}, {-1, 1}), 2)};
      },
      [&](const Tensors& in) -> Tensors {
        const Tensor v = slice(in[0], {0}, {64}, {2}), k = slice(v, {0}, {32}, {2});
        return {multihead_attention(in[1], k, v, 2)};
      },
      [&](const Tensors& in) -> Tensors {
        const Tensor k = slice(in[0], {16}, {48}, {2});
        return {multihead_attention(k, k, k, 2), multihead_attention(in[1], k, in[0], 2)};
      }};
  for (std::size_t i = 0; i < nets.size(); ++i) checked(nets[i], {x, q}, text("net ", i));
}

/// What the kernel does not take is made of other ops.
TEST(Features, OtherAttentionFallsApart) {
  const Tensor x = tensor({2, 9, 32}, 1), odd = tensor({2, 9, 24}, 2), mask = tensor({9, 9}, 3);
  const auto plain = [](const Tensors& in) { return Tensors{multihead_attention(in[0], in[0], in[0], 2)}; };
  const auto packed = [](const Tensors& in) { return Tensors{multihead_self_attention(in[0], 2)}; };
  const std::vector<std::pair<Net, Tensor>> cases{
      {plain, odd},
      {packed, odd},
      {[&](const Tensors& in) { return Tensors{multihead_self_attention(in[0], 1, mask)}; }, tensor({2, 9, 48}, 4)},
      {[&](const Tensors& in) { return Tensors{multihead_attention(in[0], in[0], in[0], 2, mask)}; }, x},
      {[](const Tensors& in) { return Tensors{multihead_attention(in[0], in[0], in[0], 2, {}, {.is_causal = true})}; },
       x},
      {[](const Tensors& in) { return Tensors{multihead_attention(in[0], in[0], in[0], 2, {}, {.scale = -1})}; }, x},
      {[](const Tensors& in) {  // every other feature
         const Tensor some = slice(in[0], {0}, {32}, {2}, {2});
         return Tensors{multihead_attention(some, some, some, 1)};
       },
       x}};
  for (std::size_t i = 0; i + 1 < cases.size(); ++i)
    EXPECT_EQ(count(checked(cases[i].first, {cases[i].second}, text("case ", i)), "multihead"), 0) << i;
  checked(cases.back().first, {x}, "every other feature");
  EXPECT_EQ(count(plan(plain, {x.type()}), "multihead"), 1);
}

/// In training features stand in rows; a gradient makes the scores again, where no kernel takes both of other ops.
TEST(Features, AttentionInTraining) {
  struct Case {
    std::int64_t images, length, positions, heads, features, values;
    bool masked = false;
  };
  for (const Case& c : {Case{2, 197, 197, 3, 64, 64}, Case{4, 20, 20, 2, 16, 16}, Case{1, 5, 70, 1, 32, 48},
                        Case{2, 130, 16, 3, 48, 16}, Case{1, 1, 1, 1, 16, 16}, Case{1, 40, 1500, 2, 16, 32},
                        Case{2, 9, 9, 2, 12, 16}, Case{2, 9, 9, 2, 16, 16, true}}) {
    const Tensor query = tensor({c.images, c.length, c.heads * c.features}, 1),
                 key = tensor({c.images, c.positions, c.heads * c.features}, 2),
                 value = tensor({c.images, c.positions, c.heads * c.values}, 3),
                 dy = tensor({c.images, c.length, c.heads * c.values}, 4),
                 mask = c.masked ? tensor({c.length, c.positions}, 5) : Tensor();
    const Net step = [&](const Tensors& in) -> Tensors {
      const Tensor y = multihead_attention(in[0], in[1], in[2], c.heads, mask);
      const Tensors grads = gradients(Tensors{y}, Tensors{in[0], in[1], in[2]}, Tensors{in[3]});
      return {y, grads[0], grads[1], grads[2]};
    };
    const Tensors in{query, key, value, dy};
    const Types types = op_table::types_of(in);
    const std::string where = text(c.images, ' ', c.length, ' ', c.positions, ' ', c.heads, ' ', c.features, ' ',
                                   c.values);
    const Tensors expected = plan(step, types, {.training = true, .interpret = true})(in);
    const bool taken = c.features % 16 == 0 && !c.masked;
    const int before = threads();
    Tensors first;
    for (const int count_of : {1, 3, 2}) {
      set_threads(count_of);
      const Plan planned = plan(step, types, {.training = true, .deterministic = true});
      EXPECT_EQ(count(planned, "multihead_attention", "cpu rows"), taken ? 2 : 0) << where;
      EXPECT_EQ(count(planned, "multihead_attention_grad", "cpu rows"), taken) << where;
      const Tensors got = planned(in);
      EXPECT_EQ(op_table::difference(expected, got, 2e-5), "") << where << ", threads " << count_of;
      if (first.empty()) first = got;
      EXPECT_EQ(op_table::difference(first, got, 0), "") << where << ", threads " << count_of;
    }
    set_threads(before);
  }
  // All three packed.
  for (const auto& [length, heads, features] :
       {std::array<std::int64_t, 3>{197, 3, 64}, {20, 2, 16}, {1, 1, 16}, {300, 1, 48}, {9, 2, 12}}) {
    const Tensors in{tensor({2, length, 3 * heads * features}, 1), tensor({2, length, heads * features}, 2)};
    const Net step = [heads = heads](const Tensors& given) -> Tensors {
      const Tensor y = multihead_self_attention(given[0], heads);
      return {y, gradients(Tensors{y}, Tensors{given[0]}, Tensors{given[1]})[0]};
    };
    const Plan planned = plan(step, op_table::types_of(in), {.training = true});
    const std::string where = text(length, ' ', heads, ' ', features);
    EXPECT_EQ(op_table::difference(plan(step, op_table::types_of(in), {.training = true, .interpret = true})(in),
                                   planned(in), 2e-5),
              "")
        << where;
    const bool taken = features % 16 == 0;
    EXPECT_EQ(count(planned, "multihead_attention", "cpu rows"), taken ? 2 : 0) << where;
    EXPECT_EQ(planned.rows().size() == 2, taken) << where << ": something is cut or joined";
  }
  // One tensor as all three, as their gradients are added up.
  const Tensor x = tensor({2, 30, 32}, 6);
  const Net alike = [](const Tensors& in) -> Tensors {
    return gradients(Tensors{multihead_attention(in[0], in[0], in[0], 2)}, Tensors{in[0]});
  };
  EXPECT_EQ(op_table::difference(plan(alike, {x.type()}, {.training = true, .interpret = true})({x}),
                                 plan(alike, {x.type()}, {.training = true})({x}), 2e-5),
            "");
}

/// As in ConvNeXt: images become rows of pixels and images again, of which nothing is left in the plan.
TEST(Features, ViewsOfImages) {
  for (const std::int64_t channels : {32, 40}) {
    const Tensor x = tensor({2, channels, 12, 9}, 1), w = tensor({channels, 1, 3, 3}, 2), gain = tensor({channels}, 3),
                 shift = tensor({channels}, 4), w1 = tensor({64, channels}, 5), w2 = tensor({channels, 64}, 6),
                 scale = tensor({channels, 1, 1}, 7);
    const Net block = [&](const Tensors& in) -> Tensors {
      const Tensor y = conv2d(in[0], w, {}, {.pad = {1, 1, 1, 1}, .groups = channels});
      const Tensor rows = linear(gelu(linear(layer_norm(transpose(y, {0, 2, 3, 1}), {channels}, gain, shift), w1)), w2);
      return {transpose(rows, {0, 3, 1, 2}) * scale + in[0]};
    };
    EXPECT_EQ(count(checked(block, {x}, text("block of ", channels)), "transpose"), 0);
    // Views that are results, that several read, that others look through, and such as are none.
    const Net views = [&](const Tensors& in) -> Tensors {
      const Tensor y = conv2d(in[0], w, {}, {.pad = {1, 1, 1, 1}, .groups = channels}),
                   last = transpose(y, {0, 2, 3, 1}), flat = reshape(y, {2, channels, 108}),
                   rows = transpose(flat, {0, 2, 1});
      return {last,
              rows + rows,
              sum(last, {1, 2}),
              mean(last, {3}),
              reduce_max(rows, {1}),
              relu(last) + reshape(rows, last.shape()),
              transpose(y, {0, 3, 2, 1}),
              reshape(last, {2, 9, 12 * channels}),
              slice(last, {0, 1}, {2, 5}, {3, 1}),
              transpose(rows * rows, {0, 2, 1})};
    };
    checked(views, {x}, text("views of ", channels));
  }
}

/// A residual stream of both, in training: the views are those of gradients too.
TEST(Features, Training) {
  const Tensor x = tensor({2, 32, 10, 10}, 1), w = tensor({32, 32, 3, 3}, 2), w1 = tensor({48, 32}, 3),
               w2 = tensor({32, 48}, 4), gain = tensor({32}, 5), shift = tensor({32}, 6);
  const Net step = [&](const Tensors& in) -> Tensors {
    const Tensor y = conv2d(in[0], w, {}, {.pad = {1, 1, 1, 1}});
    const Tensor rows = linear(gelu(linear(layer_norm(transpose(y, {0, 2, 3, 1}), {32}, gain, shift), w1)), w2);
    const Tensors of{relu(transpose(rows, {0, 3, 1, 2}) + in[0])}, wrt{in[0], w, w1, w2, gain, shift};
    return gradients(of, wrt);
  };
  const Tensors expected = plan(step, {x.type()}, {.training = true, .interpret = true})({x}),
                got = plan(step, {x.type()}, {.training = true})({x});
  EXPECT_EQ(op_table::difference(expected, got, 3e-5), "");
}

/// The channels of a batch norm are not the features of a layer.
TEST(Features, BatchNormBehindALayer) {
  const Tensor u = tensor({4, 32, 32}, 1), z = tensor({4, 32, 48}, 2), w = tensor({32, 48}, 3),
               gain = tensor({32}, 4, 3), shift = tensor({32}, 5);
  const Net step = [&](const Tensors& in) -> Tensors {
    const Tensor b = batch_norm(in[0], gain, shift, {}, {});
    const Tensors of{b * linear(in[1], w)}, wrt{in[0]};
    return gradients(of, wrt);
  };
  const Types types = op_table::types_of({u, z});
  const Tensors expected = plan(step, types, {.training = true, .interpret = true})({u, z}),
                got = plan(step, types, {.training = true, .freeze = true})({u, z});
  EXPECT_EQ(op_table::difference(expected, got, 3e-5), "");
}

/// A view of a state is of its old value, though the state has a new one.
TEST(Features, ViewsOfStatesThatAreAssigned) {
  const Tensor x = tensor({2, 32, 6, 6}, 1), w = tensor({32, 32, 3, 3}, 2), start = tensor({2, 32, 6, 6}, 3);
  for (const bool interpret : {false, true}) {
    Tensor state = start.clone(), other = Tensor::full({DType::f32, {2, 32, 36}}, 0),
           turned = Tensor::full({DType::f32, {2, 6, 6, 32}}, 0);
    const Net step = [&](const Tensors& in) -> Tensors {
      const Tensor y = conv2d(in[0], w, {}, {.pad = {1, 1, 1, 1}}) + state, seen = transpose(state, {0, 2, 3, 1}),
                   flat = reshape(state, {2, 32, 36});
      other.assign(flat);
      turned.assign(seen);
      state.assign(y * 0.5);
      return {seen, flat};
    };
    const Plan planned = plan(step, {x.type()}, {.training = true, .interpret = interpret});
    for (int i = 0; i < 2; ++i) {
      const Tensor flat = reshape(state, {2, 32, 36}), last = transpose(state, {0, 2, 3, 1});
      const Tensors got = planned({x});
      EXPECT_EQ(op_table::difference({last, flat, flat, last}, {got[0], got[1], other, turned}, 0), "")
          << "step " << i << (interpret ? ", interpreted" : "");
    }
    EXPECT_NE(op_table::difference({start}, {state}, 0), "");
  }
}

TEST(Features, ExtremeNumbers) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::bit_cast<float>(0x7fc00001u),
              odd = std::bit_cast<float>(0x7fffffffu);
  const std::vector<float> given{1e20f, -1e20f, 3e38f, -3e38f, inf, 7, -7, -30, 0, nan, odd};
  const Tensor x = Tensor::from(Shape{static_cast<std::int64_t>(given.size())}, given);
  const Net both = [](const Tensors& in) -> Tensors {
    const Tensor y = gelu(in[0]);
    const Tensors of{y}, wrt{in[0]};
    return {y, gradients(of, wrt)[0]};
  };
  const Tensors got = plan(both, {x.type()}, {.training = true})({x});
  const auto y = got[0].values<float>(), slope = got[1].values<float>();
  const std::vector<float> values{1e20f, 0, 3e38f, 0, inf, 7, 0, 0, 0}, slopes{1, 0, 1, 0, 1, 1, 0, 0, 0.5};
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(y[i] == values[i] || std::abs(y[i] - values[i]) < 1e-8f) << given[i] << " gives " << y[i];
    EXPECT_NEAR(slope[i], slopes[i], 1e-6f) << given[i];
  }
  for (std::size_t i = values.size(); i < given.size(); ++i) EXPECT_TRUE(std::isnan(y[i]) && std::isnan(slope[i])) << i;
  for (const float broken : {nan, odd}) {
    std::vector<float> logits(64, 1);
    logits[5] = broken;
    const Tensor row = Tensor::from(Shape{64}, logits);
    for (const Tensor& result : {softmax(row), log_softmax(row)})
      for (const float each : result.values<float>()) EXPECT_TRUE(std::isnan(each));
    logits[5] = -inf;
    const auto shares = softmax(Tensor::from(Shape{64}, logits)).values<float>();
    EXPECT_EQ(shares[5], 0);
    EXPECT_NEAR(shares[0], 1.0 / 63, 1e-8);
  }
}

/// Far from zero, at the ends of what powers of two can say, and where nothing is a number.
TEST(Features, ExtremeActivations) {
  std::vector<float> given{0,       -0.0f, 3e38f, -3e38f, 1e20f,  -1e20f, 1e-20f,
                           -1e-20f, 9.9f,  -9.9f, 10.1f,  -10.1f, 40,     -40};
  for (float size = 84; size < 92; size += 0.25f) given.insert(given.end(), {size, -size});
  const std::size_t numbers = given.size();
  for (const unsigned bits : {0x7fc00000u, 0x7fc00001u, 0x7fffffffu, 0xffc00003u})
    given.push_back(std::bit_cast<float>(bits));
  const Tensor x = Tensor::from(Shape{static_cast<std::int64_t>(given.size())}, given);
  using One = double (*)(double);
  const auto agrees = [&](const char* name, const Tensor& y, One expected) {
    const auto values = y.values<float>();
    for (std::size_t i = 0; i < numbers; ++i) {
      const double want = expected(static_cast<double>(given[i]));
      if (std::isinf(static_cast<float>(want))) {
        EXPECT_EQ(values[i], static_cast<float>(want)) << name << ' ' << given[i];
      } else {
        EXPECT_NEAR(values[i], want, std::max(1e-36, 4e-7 * std::abs(want))) << name << ' ' << given[i];
      }
    }
    for (std::size_t i = numbers; i < given.size(); ++i) EXPECT_TRUE(std::isnan(values[i])) << name << ' ' << i;
  };
  const auto planned = [&](Tensor (*op)(const Tensor&)) {
    return plan([&](const Tensors& in) { return Tensors{op(in[0])}; }, {x.type()})({x})[0];
  };
  agrees("exp", planned([](const Tensor& v) { return exp(v); }), [](double v) { return std::exp(v); });
  agrees("sigmoid", planned([](const Tensor& v) { return sigmoid(v); }),
         [](double v) { return 1 / (1 + std::exp(-v)); });
  agrees("tanh", planned([](const Tensor& v) { return tanh(v); }), [](double v) { return std::tanh(v); });
  agrees("silu", planned([](const Tensor& v) { return silu(v); }), [](double v) { return v / (1 + std::exp(-v)); });
}

}  // namespace
}  // namespace neurim
