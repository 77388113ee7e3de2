// Attention of several heads with the projections around it: PyTorch's module, and the one of timm's vision
// transformers.
#pragma once
#include "neurim/nn/linear.h"
#include "neurim/ops/multihead_attention.h"

namespace neurim::nn {

/// Which keys a query sees; all of it together. As in PyTorch's modules true in a mask HIDES a key, where the
/// bool mask of scaled_dot_product_attention shows it; a floating mask is added to the scores in both.
struct AttentionMask {
  Tensor key_padding_mask = {};  ///< (N,S): the keys that no query of a sequence sees
  Tensor attn_mask = {};         ///< (L,S), or (N*heads,L,S), sequence by sequence
  bool is_causal = false;        ///< query i sees keys 0 … i alone; needs no attn_mask beside it
};

/// query(N,L,embed_dim), key(N,S,kdim) and value(N,S,vdim) -> (N,L,embed_dim), batch first: projected, cut
/// into heads of embed_dim / num_heads features, attended to (Vaswani et al., "Attention is all you need",
/// NeurIPS'17), joined and projected once more. A query that sees no key gives the output's bias.
///
/// Names, order and initial values are those of torch.nn.MultiheadAttention: in_proj_weight(3*embed_dim,
/// embed_dim), or q_proj_weight, k_proj_weight and v_proj_weight where kdim or vdim are not embed_dim,
/// in_proj_bias(3*embed_dim), out_proj.weight and out_proj.bias.
struct MultiheadAttention {
  /// Options; the names and defaults are PyTorch's.
  struct Config {
    double dropout = 0;     ///< of the weights of the values
    bool bias = true;       ///< in the projections of query, key and value, and of the output
    std::int64_t kdim = 0,  ///< features of a key; 0: embed_dim
        vdim = 0;           ///< features of a value; 0: embed_dim

    /// Those of a sequence's attention to itself, whose keys and values have embed_dim features.
    void fields(Fields& f) { f("dropout", dropout)("bias", bias); }
  };

  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads);  ///< with the default Config
  /// Throws Error(usage) when the heads do not divide embed_dim.
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, const Config& config);
  void parts(Parts& p);
  /// query (N,L,embed_dim), key (N,S,kdim), value (N,S,vdim); gives (N,L,embed_dim). Throws Error(usage) when shapes do
  /// not fit.
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& mask = {}) const;
  /// Of a sequence to itself.
  Tensor operator()(const Tensor& x, const AttentionMask& mask = {}) const { return (*this)(x, x, x, mask); }

  std::int64_t embed_dim,  ///< features of the query and of the result
      num_heads;           ///< heads, of embed_dim / num_heads features each
  Config config;           ///< as given
  Tensor in_proj_weight,   ///< (3*embed_dim,embed_dim), or undefined where kdim or vdim differ from embed_dim
      q_proj_weight,       ///< (embed_dim,embed_dim), or undefined
      k_proj_weight,       ///< (embed_dim,kdim), or undefined
      v_proj_weight,       ///< (embed_dim,vdim), or undefined
      in_proj_bias;        ///< (3*embed_dim), or undefined without bias
  Linear out_proj;         ///< (embed_dim,embed_dim), applied to the joined heads
};

/// x(N,L,dim) -> (N,L,dim), attending to itself, with timm's names: qkv.weight(3*dim,dim), qkv.bias,
/// proj.weight(dim,dim), proj.bias.
struct Attention {
  /// Options; the names follow timm's.
  struct Config {
    std::int64_t num_heads = 8;      ///< of dim / num_heads features each
    bool qkv_bias = false;           ///< whether qkv has a bias; proj always has one
    double attn_drop = 0,            ///< dropout of the weights of the values
        proj_drop = 0;               ///< dropout of the results
    InitRule init = fan_in_uniform,  ///< of the weights of qkv and proj
        bias_init = fan_in_uniform;  ///< of their biases

    void fields(Fields& f) {
      f("num_heads", num_heads)("qkv_bias", qkv_bias)("attn_drop", attn_drop)("proj_drop", proj_drop);
      f("init", init)("bias_init", bias_init);
    }
  };

  explicit Attention(std::int64_t dim);  ///< with the default Config
  /// Throws Error(usage) when the heads do not divide dim.
  Attention(std::int64_t dim, const Config& config);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;  ///< x (N,L,dim); gives the same shape

  Config config;  ///< as given
  Linear qkv,     ///< dim to 3*dim features: queries, keys and values
      proj;       ///< dim to dim features, applied to the joined heads
};

}  // namespace neurim::nn
