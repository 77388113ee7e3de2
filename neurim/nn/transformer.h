// The layers of transformers and stacks of them (Vaswani et al., "Attention is all you need", NeurIPS'17),
// with the names, order and initial values of PyTorch's. Sequences are batch first.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "neurim/nn/attention.h"
#include "neurim/nn/norm.h"

namespace neurim::nn {

/// Options of the layers; the names and defaults are PyTorch's.
struct TransformerConfig {
  std::int64_t dim_feedforward = 2048;  ///< features between the two linear layers
  double dropout = 0.1;                 ///< of the weights of attention, of each branch, and between the linear layers
  std::string activation = "relu";      ///< or "gelu"
  double layer_norm_eps = 1e-5;         ///< added to the variance in norms
  bool norm_first = false;              ///< each branch begins with its norm; or norms follow the sums, as in the paper
  bool bias = true;                     ///< of linear layers and norms

  void fields(Fields& f) {
    f("dim_feedforward", dim_feedforward)("dropout", dropout)("activation", activation);
    f("layer_norm_eps", layer_norm_eps)("norm_first", norm_first)("bias", bias);
  }
};

/// x(N,L,d_model) -> the same shape: attention of the sequence to itself and two linear layers, each a branch
/// that is added. Parts: self_attn, linear1, linear2, norm1, norm2.
struct TransformerEncoderLayer {
  /// Throws Error(usage) when the heads do not divide d_model and for another activation.
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerConfig& config = {});
  void parts(Parts& p);
  Tensor operator()(const Tensor& x, const AttentionMask& mask = {}) const;  ///< x (N,L,d_model); gives the same shape

  TransformerConfig config;      ///< as given
  MultiheadAttention self_attn;  ///< of nhead heads
  Linear linear1,                ///< d_model to dim_feedforward features
      linear2;                   ///< dim_feedforward to d_model features
  LayerNorm norm1,               ///< of the branch of self_attn
      norm2;                     ///< of the branch of linear1 and linear2
};

/// target(N,L,d_model) and memory(N,S,d_model), what an encoder gave -> (N,L,d_model): attention of the
/// target to itself, of the target to the memory, and two linear layers. Parts: self_attn, multihead_attn,
/// linear1, linear2, norm1, norm2, norm3.
struct TransformerDecoderLayer {
  /// Throws Error(usage) when the heads do not divide d_model and for another activation.
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerConfig& config = {});
  void parts(Parts& p);
  /// target (N,L,d_model) and memory (N,S,d_model); gives (N,L,d_model). A mask each for attention to either.
  Tensor operator()(const Tensor& target, const Tensor& memory, const AttentionMask& target_mask = {},
                    const AttentionMask& memory_mask = {}) const;

  TransformerConfig config;      ///< as given
  MultiheadAttention self_attn,  ///< of the target to itself
      multihead_attn;            ///< of the target to the memory
  Linear linear1,                ///< d_model to dim_feedforward features
      linear2;                   ///< dim_feedforward to d_model features
  LayerNorm norm1,               ///< of the branch of self_attn
      norm2,                     ///< of the branch of multihead_attn
      norm3;                     ///< of the branch of linear1 and linear2
};

/// num_layers encoder layers, layers.0 … and, with final_norm, a norm after the last one, norm.
struct TransformerEncoder {
  /// Throws Error(usage) without layers and where one cannot be built.
  TransformerEncoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                     const TransformerConfig& config = {}, bool final_norm = false);
  void parts(Parts& p);
  /// x (N,L,d_model); gives the same shape. Every layer has the mask.
  Tensor operator()(const Tensor& x, const AttentionMask& mask = {}) const;

  std::vector<TransformerEncoderLayer> layers;  ///< in the order of the call
  std::optional<LayerNorm> norm;                ///< after the last layer, with final_norm
};

/// The same of decoder layers, each of which sees the memory.
struct TransformerDecoder {
  /// Throws Error(usage) without layers and where one cannot be built.
  TransformerDecoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                     const TransformerConfig& config = {}, bool final_norm = false);
  void parts(Parts& p);
  /// target (N,L,d_model) and memory (N,S,d_model); gives (N,L,d_model). Every layer has the masks.
  Tensor operator()(const Tensor& target, const Tensor& memory, const AttentionMask& target_mask = {},
                    const AttentionMask& memory_mask = {}) const;

  std::vector<TransformerDecoderLayer> layers;  ///< in the order of the call
  std::optional<LayerNorm> norm;                ///< after the last layer, with final_norm
};

}  // namespace neurim::nn
