#include "neurim/ops/multihead_attention.h"

#include <cmath>

#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/softmax.h"
#include "neurim/ops/split.h"
#include "neurim/ops/transpose.h"

namespace neurim {

namespace {

/// (N,L,H*E) as (N,H,L,E), and back.
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return transpose(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}
Tensor join_heads(const Tensor& x) {
  return reshape(transpose(x, {0, 2, 1, 3}), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

/// Query, key and value, which are packed in the first of the inputs, and the inputs after it.
Tensors unpacked(std::span<const Tensor> in) {
  const std::int64_t third = in[0].size(2) / 3;
  Tensors all = split(in[0], {third, third, third}, 2);
  all.insert(all.end(), in.begin() + 1, in.end());
  return all;
}

}  // namespace

Types MultiheadAttentionOp::apart(std::span<const Type> in) const {
  require(in.size() >= operands(), name(), ": takes a query, a key and a value, got ", in.size(), " inputs");
  require(heads > 0, name(), ": heads is ", heads, ", has to be 1 or more");
  Types all(in.begin(), in.end());
  if (packed) {
    require(in[0].shape.rank() == 3 && in[0].shape[2] % 3 == 0, name(), ": takes qkv (N,L,3*H*E), got ", in[0].shape);
    Type third = in[0];
    third.shape[2] /= 3;
    all[0] = third;
    all.insert(all.begin(), 2, third);
  }
  for (auto each = all.begin(); each != all.begin() + 3; ++each) {
    const Shape x = each->shape;
    require(x.rank() == 3, name(), ": takes query (N,L,H*E), key (N,S,H*E) and value (N,S,H*V), got ", in[0].shape,
            ", ", in[1].shape, " and ", in[2].shape);
    require(x[2] % heads == 0, name(), ": the ", x[2], " features of ", x, " do not divide into ", heads, " heads");
    each->shape = {x[0], heads, x[1], x[2] / heads};
  }
  return all;
}

Types MultiheadAttentionOp::infer(std::span<const Type> in) const {
  const Type y = attention.infer(apart(in))[0];
  return {{y.dtype, {y.shape[0], y.shape[2], y.shape[1] * y.shape[3]}}};
}

Tensors MultiheadAttentionOp::decompose(std::span<const Tensor> in) const {
  Tensors all = packed ? unpacked(in) : Tensors(in.begin(), in.end());
  for (std::size_t i = 0; i < 3; ++i) all[i] = split_heads(all[i], heads);
  return {join_heads(attention.decompose(all)[0])};
}

Tensors MultiheadAttentionOp::grad(const Gradient& g) const {
  if (!own_gradient() || g.in.size() > operands()) return Op::grad(g);
  auto op = std::make_shared<MultiheadAttentionGrad>();
  op->heads = heads, op->packed = packed, op->scale = attention.scale;
  Tensors in(g.in.begin(), g.in.end());
  in.push_back(g.dout[0]);
  return neurim::apply(op, in);
}

std::int64_t MultiheadAttentionOp::multiply_adds(std::span<const Type> in) const {
  return attention.multiply_adds(apart(in));
}

std::vector<Sample> MultiheadAttentionOp::samples() const {
  struct Row {
    std::int64_t batch, length, positions, heads, features, values;
    bool causal = false, masked = false;
    double p = 0;
    bool packed = false;
  };
  std::vector<Sample> all;
  for (const Row& row :
       {Row{2, 5, 7, 3, 4, 6}, Row{2, 37, 37, 2, 32, 32}, Row{1, 20, 33, 3, 16, 48}, Row{1, 100, 16, 1, 64, 16},
        Row{2, 6, 6, 2, 4, 4, true}, Row{1, 4, 9, 2, 3, 5, false, true}, Row{2, 6, 5, 2, 8, 8, false, false, 0.3},
        Row{1, 1, 1, 1, 1, 1}, Row{2, 5, 5, 3, 4, 4, false, false, 0, true},
        Row{2, 21, 21, 2, 16, 16, false, false, 0, true}, Row{2, 4, 4, 2, 3, 3, false, true, 0, true}}) {
    auto op = std::make_shared<MultiheadAttentionOp>();
    op->heads = row.heads;
    op->packed = row.packed;
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
    if (row.packed) sample.in = {f32(row.length, 3 * row.features)}, sample.fill = {{-2, 2}};
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

namespace {

Tensor attend(Tensors in, std::int64_t heads, const Tensor& attn_mask, const AttentionOptions& options) {
  auto op = std::make_shared<MultiheadAttentionOp>();
  op->heads = heads;
  op->packed = in.size() == 1;
  const std::int64_t features = in[0].rank() == 3 && heads > 0 ? in[0].size(2) / heads / (op->packed ? 3 : 1) : Dim(1);
  const Tensors more = op->attention.set(options, static_cast<double>(features), attn_mask);
  in.insert(in.end(), more.begin(), more.end());
  return apply1(op, in);
}

}  // namespace

Tensor multihead_attention(const Tensor& query, const Tensor& key, const Tensor& value, std::int64_t heads,
                           const Tensor& attn_mask, const AttentionOptions& options) {
  return attend({query, key, value}, heads, attn_mask, options);
}

Tensor multihead_self_attention(const Tensor& qkv, std::int64_t heads, const Tensor& attn_mask,
                                const AttentionOptions& options) {
  return attend({qkv}, heads, attn_mask, options);
}

MultiheadAttentionOp MultiheadAttentionGrad::forward() const {
  MultiheadAttentionOp op;
  op.heads = heads, op.packed = packed, op.attention.scale = scale;
  return op;
}

Types MultiheadAttentionGrad::infer(std::span<const Type> in) const {
  const std::size_t operands = forward().operands();
  check_count(*this, in, operands + 1, operands + 1);
  const Type y = forward().infer(in.first(operands))[0];
  require(in.back() == y, name(), ": the gradient is ", in.back(), ", the output ", y);
  return {in.begin(), in.end() - 1};
}

Tensors MultiheadAttentionGrad::decompose(std::span<const Tensor> in) const {
  const Tensors all = packed ? unpacked(in) : Tensors(in.begin(), in.end());
  const auto split = [&](std::size_t i) { return wide(split_heads(all[i], heads)); };
  const auto join = [&](const Tensor& x) { return cast(join_heads(x), in[0].dtype()); };
  const Tensor query = split(0) * scale, key = split(1), value = split(2), dy = split(3);
  const Tensor weights = softmax(matmul(query, key, false, true));
  const Tensor dscores = apply1(std::make_shared<SoftmaxGrad>(), {weights, matmul(dy, value, false, true)});
  const Tensors grads{join(matmul(dscores, key) * scale), join(matmul(dscores, query, true)),
                      join(matmul(weights, dy, true))};
  return packed ? Tensors{concat(grads, 2)} : grads;
}

std::int64_t MultiheadAttentionGrad::multiply_adds(std::span<const Type> in) const {
  // Scores and the gradients of query and key; those of weights and values.
  const std::int64_t positions = in[packed ? 0 : 1].shape[1], query = in[0].shape.numel() / (packed ? 3 : 1);
  return (3 * query + 2 * in.back().shape.numel()) * positions;
}

std::vector<Sample> MultiheadAttentionGrad::samples() const {
  std::vector<Sample> all;
  for (const Sample& sample : forward().samples()) {
    const auto& op = static_cast<const MultiheadAttentionOp&>(*sample.op);
    if (!op.own_gradient() || sample.in.size() > op.operands()) continue;
    auto own = std::make_shared<MultiheadAttentionGrad>();
    own->heads = op.heads, own->packed = op.packed, own->scale = op.attention.scale;
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
