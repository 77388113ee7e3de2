#include "neurim/ops/scaled_dot_product_attention.h"

#include <cmath>
#include <limits>

#include "neurim/graph/trace.h"
#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/dropout.h"
#include "neurim/ops/iota.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reduce_max.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/softmax.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

/// Whether NumPy's rule repeats `shape` to `whole`, which has the last axes of `shape` at least.
bool broadcasts_to(const Shape& shape, const Shape& whole) {
  if (shape.empty() || shape.rank() > whole.rank()) return false;
  for (int axis = -shape.rank(); axis < 0; ++axis)
    if (shape[axis] != 1 && shape[axis] != whole[axis]) return false;
  return true;
}

Tensor reshaped(const Tensor& x, const Shape& shape) { return x.shape() == shape ? x : reshape(x, shape); }

}  // namespace

Types ScaledDotProductAttention::infer(std::span<const Type> in) const {
  require(dropout_p >= 0 && dropout_p <= 1, name(), ": dropout_p is ", dropout_p, ", has to lie in [0, 1]");
  const std::size_t least = dropout_p > 0 ? 4 : 3;
  check_count(*this, in, least, least + 1);
  check_floating(*this, in[0], "the query");
  check_same_dtype(*this, in[0], in[1]);
  check_same_dtype(*this, in[0], in[2]);
  const Shape &query = in[0].shape, &key = in[1].shape, &value = in[2].shape;
  require(query.rank() == 4 && key.rank() == 4 && value.rank() == 4, name(),
          ": takes query (N,H,L,E), key (N,K,S,E) and value (N,K,S,V), got ", query, ", ", key, " and ", value);
  require(query[3] == key[3], name(), ": query ", query, " has ", query[3], " features, key ", key, " has ", key[3],
          "; they have to be equal");
  require(query[0] == key[0], name(), ": query ", query, " and key ", key, " are of different batches");
  require(key[0] == value[0] && key[1] == value[1] && key[2] == value[2], name(), ": key ", key, " and value ", value,
          " differ before the last axis");
  require(query[3] > 0 && key[2] > 0, name(), ": query ", query, " and key ", key, " have no features or no positions");
  require(key[1] > 0 && query[1] % key[1] == 0, name(), ": the ", query[1], " heads of query ", query,
          " do not divide into the ", key[1], " of key ", key);
  const Shape scores{query[0], query[1], query[2], key[2]};
  if (masked(in.size())) {
    require(in[3].dtype == DType::boolean || in[3].dtype == in[0].dtype, name(), ": attn_mask is ", in[3],
            ", has to be bool or ", in[0].dtype);
    require(broadcasts_to(in[3].shape, scores), name(), ": attn_mask ", in[3].shape,
            " does not broadcast to (N,H,L,S) = ", scores, " of query ", query, " and key ", key);
  }
  if (dropout_p > 0) {
    const Type random{DType::i64, {2}};
    require(in.back() == random, name(), ": the random key is ", in.back(), ", has to be ", random);
  }
  return {{in[0].dtype, {query[0], query[1], query[2], value[3]}}};
}

Tensors ScaledDotProductAttention::decompose(std::span<const Tensor> in) const {
  const Tensor query = wide(in[0]), key = wide(in[1]), value = wide(in[2]);
  const Dim batch = query.size(0), heads = query.size(1), length = query.size(2), groups = key.size(1),
            positions = key.size(2);
  // Heads that share keys stand one below the other, as rows of one matrix: the products broadcast nothing.
  const Dim rows = heads / groups * length;
  const auto product = [&](const Tensor& left, const Tensor& right, bool transpose) {
    const Tensor y = matmul(reshaped(left, {batch, groups, rows, left.size(3)}), right, false, transpose);
    return reshaped(y, {batch, heads, length, y.size(3)});
  };
  Tensor scores = product(query * scale, key, true);

  const Tensor zero = scalar_like(query, 0), nothing = scalar_like(query, -std::numeric_limits<double>::infinity());
  Tensor bias, alive;
  if (masked(in.size())) bias = in[3].dtype() == DType::boolean ? where(in[3], zero, nothing) : wide(in[3]);
  if (is_causal) {
    const auto places = [&](Dim count) { return iota(count, DType::f32).to(query.device()); };
    const Tensor seen = less_equal(places(positions), reshape(places(length), {length, 1}));
    const Tensor ahead = where(seen, zero, nothing);
    bias = bias ? bias + ahead : ahead;
  }
  if (masked(in.size())) {  // causality alone leaves each query its first key
    alive = not_equal(reduce_max(bias, {-1}, true), nothing);
    bias = where(alive, bias, zero);
  }
  if (bias) scores = scores + bias;

  Tensor weights = softmax(scores);
  if (dropout_p > 0) {
    auto drop = std::make_shared<Dropout>();
    drop->p = dropout_p;
    drop->ordinal = ordinal;
    weights = apply1(drop, {weights, in.back()});
  }
  const Tensor y = product(weights, value, false);
  return {cast(alive ? where(alive, y, zero) : y, in[0].dtype())};
}

std::int64_t ScaledDotProductAttention::multiply_adds(std::span<const Type> in) const {
  return (in[0].shape.numel() + infer(in)[0].shape.numel()) * in[1].shape[2];
}

std::vector<Sample> ScaledDotProductAttention::samples() const {
  struct AttentionRow {
    Shape query;
    std::int64_t groups, positions, features;
    std::optional<Type> mask = {};
    bool causal = false;
    double p = 0;
    Fill allowed{0, 2};  ///< of a bool mask: true for half of the keys
  };
  const auto seen = [](const Shape& shape) { return Type{DType::boolean, shape}; };
  const auto added = [](const Shape& shape) { return Type{DType::f32, shape}; };
  std::vector<Sample> all;
  for (const AttentionRow& row :
       {AttentionRow{{2, 3, 5, 4}, 3, 7, 6}, AttentionRow{{2, 3, 5, 4}, 3, 7, 6, {}, true},
        AttentionRow{{1, 2, 7, 4}, 2, 5, 4, {}, true}, AttentionRow{{2, 2, 6, 8}, 2, 6, 8, {}, true, 0.3},
        AttentionRow{{2, 3, 5, 4}, 3, 7, 6, seen({5, 7})}, AttentionRow{{2, 3, 5, 4}, 3, 7, 6, seen({2, 1, 1, 7})},
        AttentionRow{{2, 3, 5, 4}, 3, 5, 6, seen({2, 3, 5, 5}), true},
        AttentionRow{{2, 3, 5, 4}, 3, 7, 6, seen({2, 1, 5, 1})},
        AttentionRow{{1, 2, 3, 4}, 2, 5, 4, seen({3, 5}), false, 0, {0, 1}},  // all false
        AttentionRow{{2, 3, 5, 4}, 3, 7, 6, added({3, 5, 7})},
        AttentionRow{{2, 3, 5, 4}, 3, 5, 4, added({2, 1, 1, 5}), true},
        AttentionRow{{2, 3, 5, 4}, 3, 7, 6, added({7}), false, 0.5}, AttentionRow{{2, 4, 5, 6}, 2, 7, 3},
        AttentionRow{{2, 4, 5, 6}, 1, 5, 3, {}, true},
        AttentionRow{{2, 6, 5, 4}, 2, 7, 4, seen({2, 6, 5, 7}), false, 0.2},
        AttentionRow{{2, 4, 3, 4}, 2, 5, 4, added({2, 4, 3, 5}), true}, AttentionRow{{1, 1, 1, 1}, 1, 1, 1},
        AttentionRow{{1, 2, 33, 17}, 2, 40, 19}}) {
    auto op = std::make_shared<ScaledDotProductAttention>();
    op->scale = 1 / std::sqrt(static_cast<double>(row.query[3]));
    op->is_causal = row.causal;
    op->dropout_p = row.p;
    op->ordinal = row.p > 0 ? 2 : 0;
    const std::int64_t batch = row.query[0];
    Sample sample{op,
                  {added(row.query), added({batch, row.groups, row.positions, row.query[3]}),
                   added({batch, row.groups, row.positions, row.features})},
                  {{-2, 2}, {-2, 2}, {}}};
    if (row.mask) {
      sample.in.push_back(*row.mask);
      sample.fill.push_back(row.mask->dtype == DType::boolean ? row.allowed : Fill{});
    }
    if (row.p > 0) {
      sample.in.push_back({DType::i64, {2}});
      sample.fill.push_back({0, 1e9});
    }
    all.push_back(sample);
  }
  return all;
}

Tensors ScaledDotProductAttention::set(const AttentionOptions& options, double features, const Tensor& attn_mask) {
  scale = options.scale.value_or(1 / std::sqrt(features));
  is_causal = options.is_causal;
  require(options.dropout_p >= 0 && options.dropout_p <= 1, name(), ": dropout_p is ", options.dropout_p,
          ", has to lie in [0, 1]");
  Tensors more;
  if (attn_mask) more.push_back(attn_mask);
  if (options.dropout_p > 0 && training()) {
    const RandomKey random = next_random_key();
    dropout_p = options.dropout_p;
    ordinal = random.ordinal;
    more.push_back(random.key);
  }
  return more;
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask, const AttentionOptions& options) {
  auto op = std::make_shared<ScaledDotProductAttention>();
  const Tensors more = op->set(options, static_cast<double>(query.rank() == 4 ? query.size(3) : Dim(1)), attn_mask);
  Tensors in{query, key, value};
  in.insert(in.end(), more.begin(), more.end());
  return apply1(op, in);
}

void define_scaled_dot_product_attention() { define<ScaledDotProductAttention>(); }

}  // namespace neurim
