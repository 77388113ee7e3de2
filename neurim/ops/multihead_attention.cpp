#include "neurim/ops/multihead_attention.h"

#include <cmath>

#include "neurim/ops/reshape.h"
#include "neurim/ops/rules.h"
#include "neurim/ops/transpose.h"

namespace neurim {

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
  for (std::size_t i = 0; i < 3; ++i) {
    const Shape& x = in[i].shape();
    all[i] = transpose(reshape(in[i], {x[0], x[1], heads, x[2] / heads}), {0, 2, 1, 3});
  }
  const Tensor y = attention.decompose(all)[0];
  return {reshape(transpose(y, {0, 2, 1, 3}), {y.size(0), y.size(2), heads * y.size(3)})};
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

void define_multihead_attention() { define<MultiheadAttentionOp>(); }

}  // namespace neurim
