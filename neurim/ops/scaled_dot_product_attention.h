// Attention: means of values, weighted by how well their keys match a query.
#pragma once
#include <optional>

#include "neurim/graph/op.h"

namespace neurim {

/// The options of attention.
struct AttentionOptions {
  std::optional<double> scale = {};  ///< of the products of queries and keys; without one 1/sqrt(E)
  bool is_causal = false;            ///< query i sees the keys 0 … i alone, besides what attn_mask says
  double dropout_p = 0;              ///< in a trace for training, the share of the weights that become 0 (see dropout)
};

/// query(N,H,L,E), key(N,K,S,E) and value(N,K,S,V) of one floating dtype -> (N,H,L,V): for each query
/// softmax(scale * query key^T) value (Vaswani et al., "Attention is all you need", NeurIPS'17). K divides H;
/// neighbouring H/K heads share keys and values (Ainslie et al., "GQA", EMNLP'23).
///
/// attn_mask broadcasts to (N,H,L,S): bool, true where a query sees a key, or of the inputs' dtype and added
/// to the scaled products. A query that the mask leaves no key (all false, or all -infinity) gives 0 and
/// passes no gradient on, as in PyTorch since 2.5, whose numerics these are.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask = {}, const AttentionOptions& options = {});

/// Inputs (query, key, value[, attn_mask][, random key i64(2) = {seed, step}, there when dropout_p > 0]). The
/// weight of place i in (N,H,L,S) stays when number i of random_uniform.h is at least dropout_p.
class ScaledDotProductAttention final : public Op {
 public:
  double scale = 1;          ///< of the products of queries and keys
  bool is_causal = false;    ///< as of AttentionOptions
  double dropout_p = 0;      ///< as of AttentionOptions
  std::int64_t ordinal = 0;  ///< of the random op in its trace
  std::string_view name() const override { return "scaled_dot_product_attention"; }
  void fields(Fields& f) override {
    f("scale", scale)("is_causal", is_causal)("dropout_p", dropout_p)("ordinal", ordinal);
  }
  Types infer(std::span<const Type> in) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  /// Of queries with keys, and of their weights with values.
  std::int64_t multiply_adds(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
  /// Takes these options for heads of so many features; the inputs after query, key and value.
  Tensors set(const AttentionOptions& options, double features, const Tensor& attn_mask);

 private:
  bool masked(std::size_t inputs) const { return inputs == (dropout_p > 0 ? 5u : 4u); }
};

}  // namespace neurim
