// Attention of several heads that lie side by side.
#pragma once
#include "neurim/ops/scaled_dot_product_attention.h"

namespace neurim {

/// As scaled_dot_product_attention of `heads` heads: query(N,L,H*E), key(N,S,H*E) and value(N,S,H*V) of one floating
/// dtype, the features of each head side by side in the last axis -> (N,L,H*V). Without a scale it is 1/sqrt(E). Throws
/// Error(usage) when the heads do not divide the features.
Tensor multihead_attention(const Tensor& query, const Tensor& key, const Tensor& value, std::int64_t heads,
                           const Tensor& attn_mask = {}, const AttentionOptions& options = {});

/// The same of query, key and value that lie side by side in the last axis, each a third of it, as one linear layer
/// makes them: qkv(N,L,3*H*E) -> (N,L,H*E).
Tensor multihead_self_attention(const Tensor& qkv, std::int64_t heads, const Tensor& attn_mask = {},
                                const AttentionOptions& options = {});

/// Inputs (query, key, value[, attn_mask][, random key]), the last two as of ScaledDotProductAttention; one in place of
/// the first three where they are packed.
class MultiheadAttentionOp final : public Op {
 public:
  std::int64_t heads = 1;               ///< divides the features
  bool packed = false;                  ///< whether query, key and value are one input (N,L,3*H*E)
  ScaledDotProductAttention attention;  ///< of each head
  std::string_view name() const override { return "multihead_attention"; }
  void fields(Fields& f) override {
    f("heads", heads)("packed", packed);
    attention.fields(f);
  }
  std::size_t operands() const { return packed ? 1 : 3; }  ///< inputs that are query, key and value
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  bool own_gradient() const override { return !attention.is_causal && attention.dropout_p == 0; }
  std::int64_t multiply_adds(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;

 private:
  Types apart(
      std::span<const Type> in) const;  ///< the inputs with an axis for the heads, query, key and value each by itself
};

/// Its gradient where there is neither mask nor dropout: inputs (query, key, value, dy) -> (dquery, dkey, dvalue),
/// packed (qkv, dy) -> (dqkv). The weights are computed again from the query and the key, so that nothing of (N,H,L,S)
/// is kept (Dao et al., "FlashAttention", NeurIPS'22).
class MultiheadAttentionGrad final : public Op {
 public:
  std::int64_t heads = 1;  ///< divides the features
  bool packed = false;     ///< whether query, key and value are one input (N,L,3*H*E)
  double scale = 1;        ///< of the products of queries and keys
  std::string_view name() const override { return "multihead_attention_grad"; }
  void fields(Fields& f) override { f("heads", heads)("packed", packed)("scale", scale); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient&) const override { fail(Fault::usage, name(), ": has no gradient"); }
  Tensors decompose(std::span<const Tensor> in) const override;
  bool own_gradient() const override { return true; }
  std::int64_t multiply_adds(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;

 private:
  MultiheadAttentionOp forward() const;
};

}  // namespace neurim
