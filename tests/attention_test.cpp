// What neither the op table nor the comparison with PyTorch says of attention and transformers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/graph/trace.h"
#include "neurim/nn/positions.h"
#include "neurim/nn/transformer.h"
#include "neurim/nn/vit_block.h"
#include "neurim/ops/add.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/cross_entropy.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/split.h"
#include "neurim/ops/sum.h"
#include "neurim/optim/adam.h"
#include "tests/errors.h"
#include "tests/op_table.h"

namespace neurim {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor random_tensor(const Shape& shape, std::uint64_t seed, double size = 1) {
  Random random(seed);
  const Type type{DType::f32, shape};
  return op_table::from_doubles(type, op_table::numbers(type, {-size, size}, random));
}

Tensor bools(const Shape& shape, const std::vector<double>& values) {
  return op_table::from_doubles({DType::boolean, shape}, values);
}

std::vector<std::string> names(ModuleRef module) {
  std::vector<std::string> all;
  for (const Parameter& p : named_parameters(module)) all.push_back(p.name);
  return all;
}

std::string difference(const Tensor& expected, const Tensor& actual, double tolerance = 1e-5) {
  return op_table::difference({expected}, {actual}, tolerance);
}

/// What a function gives in a trace for training, and the gradients of its sum by its inputs.
Tensors with_gradients(const std::function<Tensor(const Tensors&)>& function, const Tensors& in) {
  return plan(
      [&](const Tensors& x) {
        Tensors results{function(x)};
        const Tensor total = sum(results[0] * results[0]);
        for (const Tensor& d : gradients(std::span(&total, 1), x)) results.push_back(d);
        return results;
      },
      op_table::types_of(in), {.training = true, .random = Tensor::full({DType::i64, {2}}, 1)})(in);
}

TEST(Attention, MessagesNameBothShapes) {
  const Tensor q = random_tensor({2, 4, 5, 8}, 1), k = random_tensor({2, 2, 7, 8}, 2);
  const auto attend = [&](const Tensor& key, const Tensor& value, const Tensor& mask = {}) {
    return message_of([&] { scaled_dot_product_attention(q, key, value, mask); });
  };
  const std::string who = "scaled_dot_product_attention: ";
  EXPECT_EQ(attend(k, k), "nothing was thrown");
  EXPECT_EQ(attend(random_tensor({2, 7, 8}, 1), k),
            who +
                "takes query (N,H,L,E), key (N,K,S,E) and value (N,K,S,V), got (2,4,5,8), (2,7,8) and "
                "(2,2,7,8)");
  EXPECT_EQ(attend(random_tensor({2, 2, 7, 6}, 1), k),
            who + "query (2,4,5,8) has 8 features, key (2,2,7,6) has 6; they have to be equal");
  EXPECT_EQ(attend(random_tensor({1, 2, 7, 8}, 1), k),
            who + "query (2,4,5,8) and key (1,2,7,8) are of different batches");
  EXPECT_EQ(attend(k, random_tensor({2, 2, 6, 8}, 1)),
            who + "key (2,2,7,8) and value (2,2,6,8) differ before the last axis");
  const Tensor three = random_tensor({2, 3, 7, 8}, 1), none = Tensor::full({DType::f32, {2, 2, 0, 8}}, 0);
  EXPECT_EQ(attend(three, three), who + "the 4 heads of query (2,4,5,8) do not divide into the 3 of key (2,3,7,8)");
  EXPECT_EQ(attend(none, none), who + "query (2,4,5,8) and key (2,2,0,8) have no features or no positions");
  EXPECT_EQ(attend(k, k, random_tensor({2, 5, 7}, 1)),
            who +
                "attn_mask (2,5,7) does not broadcast to (N,H,L,S) = (2,4,5,7) of query (2,4,5,8) and key "
                "(2,2,7,8)");
  EXPECT_EQ(attend(k, k, Tensor::full({DType::i64, {5, 7}}, 1)), who + "attn_mask is i64(5,7), has to be bool or f32");
  EXPECT_EQ(message_of([&] { scaled_dot_product_attention(q, k, k, {}, {.dropout_p = 1.5}); }),
            who + "dropout_p is 1.5, has to lie in [0, 1]");
}

TEST(Attention, WeightsAreTheSoftmaxOfScaledProducts) {
  const float q[] = {1, 2}, k[] = {3, 0, 0, 1}, v[] = {10, 20};
  const auto attend = [&](const AttentionOptions& options) {
    return scaled_dot_product_attention(Tensor::from(Shape{1, 1, 1, 2}, q), Tensor::from(Shape{1, 1, 2, 2}, k),
                                        Tensor::from(Shape{1, 1, 2, 1}, v), {}, options)
        .item();
  };
  const auto mixed = [](double scale) { return 10 + 10 / (1 + std::exp(scale * (3 - 2))); };
  EXPECT_NEAR(attend({}), mixed(1 / std::sqrt(2.0)), 1e-5);
  EXPECT_NEAR(attend({.scale = 4}), mixed(4), 1e-5);
  EXPECT_NEAR(attend({.is_causal = true}), 10, 1e-5);
  EXPECT_NEAR(attend({.scale = -1e6}), 20, 1e-5) << "large products overflow nothing";
  EXPECT_NEAR(attend({.scale = 1e30}), 10, 1e-5);
}

TEST(Attention, HeadsShareKeysAsRepeatedOnesWould) {
  const Tensor q = random_tensor({2, 4, 5, 6}, 1), k = random_tensor({2, 2, 7, 6}, 2),
               v = random_tensor({2, 2, 7, 3}, 3), mask = random_tensor({4, 5, 7}, 4);
  const auto repeated = [](const Tensor& x) {
    const Tensors head = split(x, {1, 1}, 1);
    return concat({head[0], head[0], head[1], head[1]}, 1);
  };
  EXPECT_EQ(difference(scaled_dot_product_attention(q, repeated(k), repeated(v), mask, {.is_causal = true}),
                       scaled_dot_product_attention(q, k, v, mask, {.is_causal = true})),
            "");
}

TEST(Attention, AQueryWithoutKeysGivesZeroAndNoGradient) {
  const Tensor q = random_tensor({2, 2, 3, 4}, 1), k = random_tensor({2, 2, 5, 4}, 2),
               v = random_tensor({2, 2, 5, 4}, 3);
  // Query 1 of all heads sees nothing, the others what is left of five keys.
  const std::vector<double> seen{1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  std::vector<float> added;
  for (const double one : seen) added.push_back(one != 0 ? 0 : -kInfinity);
  const Tensor by_bool = bools({3, 5}, seen), by_number = Tensor::from(Shape{3, 5}, added);
  const auto attend = [](const Tensor& mask) {
    return [mask](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2], mask); };
  };
  const Tensors one = with_gradients(attend(by_bool), {q, k, v}), other = with_gradients(attend(by_number), {q, k, v});
  EXPECT_EQ(op_table::difference(one, other, 1e-6), "");
  const std::vector<double> y = one[0].values<double>(), dq = one[1].values<double>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t query = i / 4 % 3;
    EXPECT_EQ(y[i] == 0, query == 1) << i;
    if (query < 2) {  // query 2 has no choice
      EXPECT_EQ(dq[i] == 0, query == 1) << i;
    }
  }
  for (const Tensor& tensor : one)
    for (const double value : tensor.values<double>()) EXPECT_TRUE(std::isfinite(value));
  // The only key that query 2 sees is the last one.
  EXPECT_EQ(difference(slice(v, {4}, {5}, {2}), slice(one[0], {2}, {3}, {2})), "");
  // The gradient of a floating mask is finite too.
  const Tensors by_mask = with_gradients(
      [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2], x[3]); }, {q, k, v, by_number});
  for (const double value : by_mask.back().values<double>()) EXPECT_TRUE(std::isfinite(value));
  // Nor does causality bring one back: without its first key query 0 sees nothing.
  const Tensor later = bools({1, 5}, {0, 1, 1, 1, 1});
  const Tensor causal = scaled_dot_product_attention(q, k, v, later, {.is_causal = true});
  for (const double value : slice(causal, {0}, {1}, {2}).values<double>()) EXPECT_EQ(value, 0);
}

TEST(Attention, DropoutTakesWeightsInTrainingAlone) {
  constexpr std::int64_t kKeys = 64;
  std::vector<float> identity(kKeys * kKeys);
  for (std::size_t i = 0; i < identity.size(); i += kKeys + 1) identity[i] = 1;
  const Tensor q = random_tensor({1, 1, 200, 8}, 1), k = random_tensor({1, 1, kKeys, 8}, 2),
               v = Tensor::from(Shape{1, 1, kKeys, kKeys}, identity);  // so that the result is the weights
  const auto attend = [](const Tensors& x) {
    return scaled_dot_product_attention(x[0], x[1], x[2], {}, {.dropout_p = 0.25});
  };
  const std::vector<double> whole = attend({q, k, v}).values<double>(),
                            some = with_gradients(attend, {q, k, v})[0].values<double>();
  double kept = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_TRUE(some[i] == 0 || std::abs(some[i] - whole[i] / 0.75) < 1e-6) << i;
    kept += some[i] != 0;
  }
  EXPECT_NEAR(kept / 12800, 0.75, 0.0154);  // four stds
}

TEST(Attention, ATrainingPlanKeepsTheWeightsForTheGradient) {
  const Type x{DType::f32, {2, 4, 16, 8}};
  const Plan step = plan(
      [&](const Tensors& in) {
        const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], in[3],
                                                      {.is_causal = true, .dropout_p = 0.1});
        return gradients(std::span(&y, 1), std::span(in).first(3), std::span(&in[4], 1));
      },
      {x, x, x, {DType::boolean, {16, 16}}, x}, {.training = true, .random = Tensor::full({DType::i64, {2}}, 1)});
  const auto count = [&](std::string_view op) {
    std::ptrdiff_t found = 0;
    for (const PlanRow& row : step.rows())
      for (const std::string& part : split(row.op, '+')) found += part == op;
    return found;
  };
  EXPECT_EQ(count("softmax"), 1);
  EXPECT_EQ(count("softmax_grad"), 1);
  EXPECT_EQ(count("matmul"), 1 + 4);  // the scores; by value, by weights, by query and by key
  EXPECT_EQ(count("reduce_max"), 1);
}

TEST(MultiheadAttention, ParametersArePyTorchs) {
  nn::MultiheadAttention one(8, 2), two(8, 2, {.kdim = 6, .vdim = 8}), bare(8, 2, {.bias = false});
  const std::vector<std::string> out{"out_proj.weight", "out_proj.bias"};
  EXPECT_EQ(names(one), (std::vector<std::string>{"in_proj_weight", "in_proj_bias", out[0], out[1]}));
  EXPECT_EQ(names(two), (std::vector<std::string>{"q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias",
                                                  out[0], out[1]}));
  EXPECT_EQ(names(bare), (std::vector<std::string>{"in_proj_weight", out[0]}));
  EXPECT_EQ(one.in_proj_weight.shape(), (Shape{24, 8}));
  EXPECT_EQ(two.k_proj_weight.shape(), (Shape{8, 6}));
  nn::MultiheadAttention wide(64, 4);
  initialise(wide, 1);
  for (const double value : wide.in_proj_bias.values<double>()) EXPECT_EQ(value, 0);
  for (const double value : wide.out_proj.bias.values<double>()) EXPECT_EQ(value, 0);
  double most = 0;
  for (const double value : wide.in_proj_weight.values<double>()) most = std::max(most, std::abs(value));
  EXPECT_NEAR(most, std::sqrt(6.0 / (192 + 64)), 1e-3) << "Xavier's bound for the three stacked";
}

TEST(MultiheadAttention, OneSequenceOrThreeEqualOnesAreTheSame) {
  const nn::MultiheadAttention attention(12, 3);
  const Tensor x = random_tensor({2, 5, 12}, 1);
  EXPECT_EQ(difference(attention(x, x.clone(), x.clone()), attention(x)), "");
}

TEST(MultiheadAttention, PaddingAndTheFutureAreNotSeen) {
  const nn::MultiheadAttention attention(12, 3);
  const Tensor x = random_tensor({1, 6, 12}, 1), padding = bools({1, 6}, {0, 0, 0, 0, 1, 1});
  const Tensor first = slice(x, {0}, {4}, {1});
  EXPECT_EQ(difference(attention(first), slice(attention(x, {.key_padding_mask = padding}), {0}, {4}, {1})), "");
  const Tensor causal = attention(x, {.is_causal = true});
  EXPECT_EQ(difference(attention(first, {.is_causal = true}), slice(causal, {0}, {4}, {1})), "");
  std::vector<double> later;
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 6; ++j) later.push_back(j > i);
  EXPECT_EQ(difference(causal, attention(x, {.attn_mask = bools({6, 6}, later)})), "");
}

TEST(MultiheadAttention, MessagesNameTheShapes) {
  EXPECT_EQ(message_of([] { nn::MultiheadAttention(10, 3); }),
            "MultiheadAttention: 10 features do not divide into 3 heads");
  EXPECT_EQ(message_of([] { nn::MultiheadAttention(8, 2, {.dropout = 2}); }),
            "MultiheadAttention: dropout is 2, has to lie in [0, 1]");
  const nn::MultiheadAttention attention(8, 2, {.kdim = 6});
  const Tensor x = random_tensor({2, 5, 8}, 1), key = random_tensor({2, 7, 6}, 2), value = random_tensor({2, 7, 8}, 3);
  const auto attend = [&](const Tensor& k, const Tensor& v, const nn::AttentionMask& mask = {}) {
    return message_of([&] { attention(x, k, v, mask); });
  };
  EXPECT_EQ(attend(key, value), "nothing was thrown");
  EXPECT_EQ(attend(value, value), "MultiheadAttention: takes a key (N,length,6), got (2,7,8)");
  EXPECT_EQ(attend(key, x),
            "MultiheadAttention: query (2,5,8), key (2,7,6) and value (2,5,8) are of different batches, or key "
            "and value of different lengths");
  EXPECT_EQ(attend(key, value, {.key_padding_mask = bools({2, 5}, std::vector<double>(10))}),
            "MultiheadAttention: key_padding_mask is (2,5), key (2,7,6) expects (2,7)");
  EXPECT_EQ(attend(key, value, {.attn_mask = random_tensor({7, 5}, 1)}),
            "MultiheadAttention: attn_mask is (7,5), query (2,5,8) and key (2,7,6) expect (5,7) or (4,5,7)");
  EXPECT_EQ(message_of([] { nn::TransformerEncoderLayer(8, 2, {.activation = "silu"}); }),
            "TransformerEncoderLayer: activation is \"silu\", has to be relu or gelu");
  EXPECT_EQ(message_of([] { nn::TransformerDecoder(8, 2, 0); }), "TransformerDecoder: layers (0) must be 1 or more");
}

TEST(Transformer, StacksNameTheirPartsAsPyTorch) {
  nn::TransformerDecoder stack(8, 2, 2, {.dim_feedforward = 16}, true);
  const std::vector<std::string> all = names(stack);
  EXPECT_EQ(all.size(), 2u * 18 + 2);
  for (const std::string name : {"layers.0.self_attn.in_proj_weight", "layers.1.multihead_attn.out_proj.bias",
                                 "layers.1.linear2.weight", "layers.0.norm3.bias", "norm.weight"})
    EXPECT_TRUE(std::find(all.begin(), all.end(), name) != all.end()) << name;
  EXPECT_EQ(names(nn::TransformerEncoder(8, 2, 1, {.bias = false})),
            (std::vector<std::string>{"layers.0.self_attn.in_proj_weight", "layers.0.self_attn.out_proj.weight",
                                      "layers.0.linear1.weight", "layers.0.linear2.weight", "layers.0.norm1.weight",
                                      "layers.0.norm2.weight"}));
}

TEST(Transformer, DropoutActsInTrainingAlone) {
  nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16, .dropout = 1, .norm_first = true});
  const Tensor x = random_tensor({2, 3, 8}, 1);
  const auto forward = [&](const Tensors& in) { return layer(in[0]); };
  EXPECT_EQ(difference(x, with_gradients(forward, {x})[0], 0), "") << "all of both branches is dropped";
  EXPECT_NE(difference(x, layer(x)), "");
}

// Which half of a sequence one marked element stands in: nothing but positions tells.
TEST(Transformer, ATrainingPlanLearns) {
  constexpr std::int64_t kLength = 8, kBatch = 64, kWidth = 16;
  struct Net {
    nn::Linear in{1, kWidth}, out{kWidth, 2};
    nn::TransformerEncoder encoder{kWidth, 2, 1, {.dim_feedforward = 32, .dropout = 0, .norm_first = true}};
    void parts(Parts& p) { p("in", in)("encoder", encoder)("out", out); }
  } net;
  initialise(net, 1);
  Adam optimizer(named_parameters(net), {.lr = 0.01});
  const Plan step = plan(
      [&](const Tensors& in) -> Tensors {
        const Tensor y = net.encoder(nn::SinusoidalPositions()(net.in(in[0])));
        const Tensor loss = cross_entropy(net.out(mean(y, {1})), in[1]);
        optimizer.step(gradients(std::span(&loss, 1), optimizer.weights()));
        return {loss};
      },
      {{DType::f32, {kBatch, kLength, 1}}, {DType::i64, {kBatch}}}, {.training = true});
  Random random(3);
  double loss = 0;
  for (int i = 0; i < 150; ++i) {
    std::vector<float> x(kBatch * kLength);
    std::vector<std::int64_t> labels(kBatch);
    for (std::int64_t n = 0; n < kBatch; ++n) {
      const auto place = static_cast<std::int64_t>(random.uniform(0, kLength));
      x[n * kLength + place] = 1;
      labels[n] = place >= kLength / 2;
    }
    loss = step({Tensor::from(Shape{kBatch, kLength, 1}, x), Tensor::from(Shape{kBatch}, labels)})[0].item();
  }
  EXPECT_LT(loss, 0.2);  // log(2) = 0.69 by chance
}

TEST(ViTBlock, HasTimmsNamesAndLayerScales) {
  nn::ViTBlock block(8, 2, {.init_values = 0.0});
  EXPECT_EQ(names(block), (std::vector<std::string>{"norm1.weight", "norm1.bias", "attn.qkv.weight", "attn.qkv.bias",
                                                    "attn.proj.weight", "attn.proj.bias", "ls1.gamma", "norm2.weight",
                                                    "norm2.bias", "mlp.fc1.weight", "mlp.fc1.bias", "mlp.fc2.weight",
                                                    "mlp.fc2.bias", "ls2.gamma"}));
  const Tensor x = random_tensor({2, 3, 8}, 1);
  EXPECT_EQ(difference(x, block(x), 0), "") << "gamma is 0";
  nn::ViTBlock dropped(8, 2, {.drop_path = 1});
  EXPECT_EQ(difference(x, with_gradients([&](const Tensors& in) { return dropped(in[0]); }, {x})[0], 0), "");
  EXPECT_NE(difference(x, dropped(x)), "");
}

TEST(Positions, SinusoidalTableIsThatOfThePaper) {
  const std::vector<double> table = sinusoidal_positions(3, 5).values<double>();
  for (int p = 0; p < 3; ++p)
    for (int k = 0; k < 5; ++k) {
      const double angle = p / std::pow(10000, k / 2 * 2 / 5.0);
      EXPECT_NEAR(table[p * 5 + k], k % 2 ? std::cos(angle) : std::sin(angle), 1e-6);
    }
}

TEST(Positions, ProductsOfTurnedRowsDependOnTheirDistance) {
  const Tensor q = random_tensor({1, 6}, 1), k = random_tensor({1, 6}, 2);
  for (const bool interleaved : {false, true}) {
    const auto product = [&](std::int64_t at, std::int64_t other) {
      const RotaryOptions here{.interleaved = interleaved, .first = at},
          there{.interleaved = interleaved, .first = other};
      return matmul(rotary_positions(q, here), rotary_positions(k, there), false, true).item();
    };
    EXPECT_NEAR(product(2, 5), product(7, 10), 1e-5);
    EXPECT_GT(std::abs(product(2, 5) - product(2, 6)), 1e-3);
    EXPECT_NEAR(product(4, 4), matmul(q, k, false, true).item(), 1e-5);
    // The rows of a sequence stand one behind the other.
    const Tensor x = random_tensor({2, 3, 5, 6}, 3);
    EXPECT_EQ(difference(rotary_positions(slice(x, {3}, {5}, {2}), {.interleaved = interleaved, .first = 3}),
                         slice(rotary_positions(x, {.interleaved = interleaved}), {3}, {5}, {2})),
              "");
  }
}

TEST(Positions, LearntRowsAreAddedUpToTheirNumber) {
  nn::LearnedPositions positions(5, 4);
  EXPECT_EQ(names(positions), std::vector<std::string>{"weight"});
  const Tensor x = random_tensor({2, 3, 4}, 1);
  EXPECT_EQ(difference(x + slice(positions.weight, {0}, {3}), positions(x)), "");
  EXPECT_EQ(message_of([&] { positions(random_tensor({2, 6, 4}, 1)); }),
            "LearnedPositions: takes x(N,L,4) with L up to 5, got (2,6,4)");
  EXPECT_EQ(message_of([] { nn::RotaryPositions()(random_tensor({2, 3, 5}, 1)); }),
            "rotary_positions: takes floating x(…,L,E) with an even number E of features, got f32(2,3,5)");
  EXPECT_EQ(message_of([] { split(random_tensor({2, 6}, 1), {4, 3}, 1); }),
            "split: the sizes of the 2 parts add up to 7, axis 1 of (2,6) is 6");
}

}  // namespace
}  // namespace neurim
