// Attention with a state of fixed size: a matrix to which each key adds its value, and which each query reads.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The options of linear_attention.
struct LinearAttentionOptions {
  std::int64_t heads = 1;   ///< of queries
  std::int64_t groups = 1;  ///< heads of keys and values; divides `heads`, neighbouring ones share
  double scale = 1;         ///< of what a query reads
};

/// The optional inputs of linear_attention.
struct LinearAttentionInputs {
  Tensor state = {};  ///< (N,groups,E,V) before the first step, floating; undefined: 0
  Tensor decay =
      {};  ///< (N,T,groups) or (N,T,groups*E): by whose exponential the state, or each row of it, is multiplied
  Tensor beta =
      {};  ///< (N,T,groups) or (N,T,1): a key adds beta times what its value differs from what the state has for it
};

/// query(N,T,heads*E), key(N,T,groups*E), value(N,T,groups*V) of one floating dtype -> (y(N,T,heads*V), last state). At
/// each step S = exp(decay) S, then S += key (x) value, or S += key (x) beta (value - S^T key), then y = scale S^T
/// query (Yang et al., "Gated delta networks", ICLR'25; Katharopoulos et al., ICML'20). Has no gradient.
Tensors linear_attention(const Tensor& query, const Tensor& key, const Tensor& value, const LinearAttentionInputs& more,
                         const LinearAttentionOptions& options);

/// The op of linear_attention. Inputs (query, key, value[, state][, decay][, beta]).
class LinearAttention final : public Op {
 public:
  LinearAttentionOptions options;  ///< of the heads
  bool state = false,              ///< whether there is the input
      decay = false,               ///< the same
      beta = false;                ///< the same
  std::string_view name() const override { return "linear_attention"; }
  void fields(Fields& f) override {
    f("heads", options.heads)("groups", options.groups)("scale", options.scale);
    f("state", state)("decay", decay)("beta", beta);
  }
  Types infer(std::span<const Type> in) const override;
  std::int64_t multiply_adds(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
