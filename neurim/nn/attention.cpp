#include "neurim/nn/attention.h"

#include <limits>

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/dropout.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/split.h"
#include "neurim/ops/where.h"

namespace neurim::nn {

namespace {

void check_sizes(std::string_view who, std::int64_t features, std::int64_t heads, double dropout) {
  require(features > 0 && heads > 0 && features % heads == 0, who, ": ", features, " features do not divide into ",
          heads, " heads");
  require(dropout >= 0 && dropout <= 1, who, ": dropout is ", dropout, ", has to lie in [0, 1]");
}

/// The masks as one that is added to the scores (N,heads,L,S) of a query and a key; undefined when there is
/// none.
Tensor added(const AttentionMask& mask, const Tensor& query, const Tensor& key, std::int64_t heads) {
  const Dim batch = query.size(0), length = query.size(1), positions = key.size(1);
  Tensor total;
  const auto put = [&](const Tensor& given, const Shape& shape) {
    const Tensor hidden = given.shape() == shape ? given : reshape(given, shape);
    const Tensor part = hidden.dtype() != DType::boolean
                            ? hidden
                            : where(hidden, scalar_like(query, -std::numeric_limits<double>::infinity()),
                                    scalar_like(query, 0));
    total = total ? total + part : part;
  };
  if (mask.attn_mask) {
    const Shape &given = mask.attn_mask.shape(), all{length, positions}, each{batch * heads, length, positions};
    require(given == all || given == each, "MultiheadAttention: attn_mask is ", given, ", query ", query.shape(),
            " and key ", key.shape(), " expect ", all, " or ", each);
    put(mask.attn_mask, given == all ? all : Shape{batch, heads, length, positions});
  }
  if (mask.key_padding_mask) {
    const Shape expected{batch, positions};
    require(mask.key_padding_mask.shape() == expected, "MultiheadAttention: key_padding_mask is ",
            mask.key_padding_mask.shape(), ", key ", key.shape(), " expects ", expected);
    put(mask.key_padding_mask, {batch, 1, 1, positions});
  }
  return total;
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t dim, std::int64_t heads)
    : MultiheadAttention(dim, heads, Config{}) {}

MultiheadAttention::MultiheadAttention(std::int64_t dim, std::int64_t heads, const Config& c)
    : embed_dim(dim), num_heads(heads), config(c), out_proj(dim, dim, {.bias = c.bias, .bias_init = zeros}) {
  check_sizes("MultiheadAttention", dim, heads, c.dropout);
  require(c.kdim >= 0 && c.vdim >= 0, "MultiheadAttention: kdim (", c.kdim, ") and vdim (", c.vdim,
          ") must be 1 or more, or 0 for embed_dim");
  const auto weight = [&](std::int64_t out, std::int64_t in) {
    const Shape shape{out, in};
    return parameter(shape, xavier_uniform(shape));
  };
  const std::int64_t kdim = c.kdim ? c.kdim : dim, vdim = c.vdim ? c.vdim : dim;
  if (kdim == dim && vdim == dim) {
    in_proj_weight = weight(3 * dim, dim);
  } else {
    q_proj_weight = weight(dim, dim);
    k_proj_weight = weight(dim, kdim);
    v_proj_weight = weight(dim, vdim);
  }
  if (c.bias) in_proj_bias = parameter({3 * dim}, constant(0));
}

void MultiheadAttention::parts(Parts& p) {
  const auto weight = [&](std::string_view name, Tensor& tensor) {
    if (tensor) p(name, tensor, xavier_uniform(tensor.shape()));
  };
  weight("in_proj_weight", in_proj_weight);
  weight("q_proj_weight", q_proj_weight);
  weight("k_proj_weight", k_proj_weight);
  weight("v_proj_weight", v_proj_weight);
  p("in_proj_bias", in_proj_bias, constant(0))("out_proj", out_proj);
}

Tensor MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const AttentionMask& mask) const {
  const std::int64_t dim = embed_dim, kdim = config.kdim ? config.kdim : dim, vdim = config.vdim ? config.vdim : dim;
  const auto check = [&](std::string_view what, const Tensor& x, std::int64_t features) {
    require(x.rank() == 3 && x.size(2) == features, "MultiheadAttention: takes a ", what, " (N,length,", features,
            "), got ", x.shape());
  };
  check("query", query, dim);
  check("key", key, kdim);
  check("value", value, vdim);
  require(query.size(0) == key.size(0) && query.size(0) == value.size(0) && key.size(1) == value.size(1),
          "MultiheadAttention: query ", query.shape(), ", key ", key.shape(), " and value ", value.shape(),
          " are of different batches, or key and value of different lengths");

  const Tensor attn_mask = added(mask, query, key, num_heads);
  const AttentionOptions options{.is_causal = mask.is_causal, .dropout_p = config.dropout};
  if (in_proj_weight && query.value() == key.value() && key.value() == value.value())
    return out_proj(
        multihead_self_attention(linear(query, in_proj_weight, in_proj_bias), num_heads, attn_mask, options));
  const std::vector<std::int64_t> thirds{dim, dim, dim};
  const Tensors weights = in_proj_weight ? split(in_proj_weight, thirds, 0)
                                         : Tensors{q_proj_weight, k_proj_weight, v_proj_weight};
  const Tensors biases = in_proj_bias ? split(in_proj_bias, thirds, 0) : Tensors(3);
  return out_proj(multihead_attention(linear(query, weights[0], biases[0]), linear(key, weights[1], biases[1]),
                                      linear(value, weights[2], biases[2]), num_heads, attn_mask, options));
}

Attention::Attention(std::int64_t dim) : Attention(dim, Config{}) {}

Attention::Attention(std::int64_t dim, const Config& c)
    : config(c),
      qkv(dim, 3 * dim, {.bias = c.qkv_bias, .init = c.init, .bias_init = c.bias_init}),
      proj(dim, dim, {.init = c.init, .bias_init = c.bias_init}) {
  check_sizes("Attention", dim, c.num_heads, c.attn_drop);
}

void Attention::parts(Parts& p) { p("qkv", qkv)("proj", proj); }

Tensor Attention::operator()(const Tensor& x) const {
  require(x.rank() == 3, "Attention: takes x(N,L,features), got ", x.shape());
  const Tensor y = multihead_self_attention(qkv(x), config.num_heads, {}, {.dropout_p = config.attn_drop});
  return dropout(proj(y), config.proj_drop);
}

}  // namespace neurim::nn
