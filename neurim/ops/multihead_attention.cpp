#include "neurim/ops/multihead_attention.h"

#include <cmath>

#include "neurim/ops/matmul.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/rules.h"
#include "neurim/ops/softmax.h"
#include "neurim/ops/transpose.h"
#include "neurim/ops/wide.h"

namespace neurim {

namespace {

/// (N,L,H*E) as (N,H,L,E), and back.
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return transpose(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}
Tensor join_heads(const Tensor& x) { return reshape(transpose(x, {0, 2, 1, 3}), {x.size(0), x.size(2), x.size(1) * x.size(3)}); }

}  // namespace

Types MultiheadAttentionOp::apart(std::span<const Type> in) const {
  require(in.size() >= 3, name(), ": takes a query, a key and a value, got ", in.size(), " inputs");
  require(heads > 0, name(), ": heads is ", heads, ", has to be 1 or more");
  Types all(in.begin(), in.end());
  for (std::size_t i = 0; i < 3; ++i) {
    const Shape& x = in[i].shape;
    require(x.rank() == 3, name(), ": takes query (N,L,H*E), key (N,S,H*E) and value (N,S,H*V), got ", in[0].shape, ", ",
            in[1].shape, " and ", in[2].shape);
    require(x[2] % heads == 0, name(), ": the ", x[2], " features of ", x, " do not divide into ", heads, " heads");
    all[i].shape = {x[0], heads, x[1], x[2] / heads};
  }
  return all;
}

Types MultiheadAttentionOp::infer(std::span<const Type> in) const {
  const Type y = attention.infer(apart(in))[0];
  return {{y.dtype, {y.shape[0], y.shape[2], y.shape[1] * y.shape[3]}}};
}

Tensors MultiheadAttentionOp::decompose(std::span<const Tensor> in) const {
  Tensors all(in.begin(), in.end());
  for (std::size_t i = 0; i < 3; ++i) all[i] = split_heads(in[i], heads);
  return {join_heads(attention.decompose(all)[0])};
}

Tensors MultiheadAttentionOp::grad(const Gradient& g) const {
  if (!own_gradient() || g.in.size() > 3) return Op::grad(g);
  auto op = std::make_shared<MultiheadAttentionGrad>();
  op->heads = heads, op->scale = attention.scale;
  return apply(op, {g.in[0], g.in[1], g.in[2], g.dout[0]});
}

std::int64_t MultiheadAttentionOp::multiply_adds(std::span<const Type> in) const { return attention.multiply_adds(apart(in)); }

std::vector<Sample> MultiheadAttentionOp::samples() const {
  struct Row {
    std::int64_t batch, length, positions, heads, features, values;
    bool causal = false, masked = false;
    double p = 0;
  };
  std::vector<Sample> all;
  for (const Row& row : {Row{2, 5, 7, 3, 4, 6}, Row{2, 37, 37, 2, 32, 32}, Row{1, 20, 33, 3, 16, 48}, Row{1, 100, 16, 1, 64, 16},
                         Row{2, 6, 6, 2, 4, 4, true}, Row{1, 4, 9, 2, 3, 5, false, true},
                         Row{2, 6, 5, 2, 8, 8, false, false, 0.3}, Row{1, 1, 1, 1, 1, 1}}) {
    auto op = std::make_shared<MultiheadAttentionOp>();
    op->heads = row.heads;
    op->attention.scale = 1 / std::sqrt(static_cast<double>(row.features));
    op->attention.is_causal = row.causal;
    op->attention.dropout_p = row.p;
    op->attention.ordinal = row.p > 0 ? 2 : 0;
    const auto f32 = [&](std::int64_t length, std::int64_t features) {
      return Type{DType::f32, {row.batch, length, row.heads * features}};
    };
    Sample sample{op,
                  {f32(row.length, row.features), f32(row.positions, row.features), f32(row.positions, row.values)},
                  {{-2, 2}, {-2, 2}, {}}};
    if (row.masked) {
      sample.in.push_back({DType::boolean, {row.length, row.positions}});
      sample.fill.push_back({0, 2});
    }
    if (row.p > 0) {
      sample.in.push_back({DType::i64, {2}});
      sample.fill.push_back({0, 1e9});
    }
    all.push_back(sample);
  }
  return all;
}

Tensor multihead_attention(const Tensor& query, const Tensor& key, const Tensor& value, std::int64_t heads,
                           const Tensor& attn_mask, const AttentionOptions& options) {
  auto op = std::make_shared<MultiheadAttentionOp>();
  op->heads = heads;
  const std::int64_t features = query.rank() == 3 && heads > 0 ? query.size(2) / heads : 1;
  const Tensors more = op->attention.set(options, static_cast<double>(features), attn_mask);
  Tensors in{query, key, value};
  in.insert(in.end(), more.begin(), more.end());
  return apply1(op, in);
}

MultiheadAttentionOp MultiheadAttentionGrad::forward() const {
  MultiheadAttentionOp op;
  op.heads = heads, op.attention.scale = scale;
  return op;
}

Types MultiheadAttentionGrad::infer(std::span<const Type> in) const {
  check_count(*this, in, 4, 4);
  const Type y = forward().infer(in.first(3))[0];
  require(in[3] == y, name(), ": the gradient is ", in[3], ", the output ", y);
  return {in.begin(), in.begin() + 3};
}

Tensors MultiheadAttentionGrad::decompose(std::span<const Tensor> in) const {
  const auto split = [&](std::size_t i) { return wide(split_heads(in[i], heads)); };
  const auto join = [&](const Tensor& x) { return cast(join_heads(x), in[0].dtype()); };
  const Tensor query = split(0) * scale, key = split(1), value = split(2), dy = split(3);
  const Tensor weights = softmax(matmul(query, key, false, true));
  const Tensor dscores = apply1(std::make_shared<SoftmaxGrad>(), {weights, matmul(dy, value, false, true)});
  return {join(matmul(dscores, key) * scale), join(matmul(dscores, query, true)), join(matmul(weights, dy, true))};
}

std::int64_t MultiheadAttentionGrad::multiply_adds(std::span<const Type> in) const {
  // Scores and the gradients of query and key; those of weights and values.
  return (3 * in[0].shape.numel() + 2 * in[3].shape.numel()) * in[1].shape[1];
}

std::vector<Sample> MultiheadAttentionGrad::samples() const {
  std::vector<Sample> all;
  for (const Sample& sample : forward().samples()) {
    const auto& op = static_cast<const MultiheadAttentionOp&>(*sample.op);
    if (!op.own_gradient() || sample.in.size() > 3) continue;
    auto own = std::make_shared<MultiheadAttentionGrad>();
    own->heads = op.heads, own->scale = op.attention.scale;
    Sample& added = all.emplace_back(Sample{own, sample.in, sample.fill});
    added.in.push_back(op.infer(sample.in)[0]);
  }
  return all;
}

void define_multihead_attention() {
  define<MultiheadAttentionOp>();
  define<MultiheadAttentionGrad>();
}

}  // namespace neurim
