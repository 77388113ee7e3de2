// The block of vision transformers, with timm's names.
#pragma once
#include <optional>

#include "neurim/nn/attention.h"
#include "neurim/nn/norm.h"
#include "neurim/ops/common/list_field.h"

namespace neurim::nn {

/// x(…,dim) -> the same shape: fc1 to `hidden` features, GELU, fc2 back; dropout after each.
struct Mlp {
  /// Options.
  struct Config {
    double drop = 0;                 ///< the probability of both dropouts
    InitRule init = fan_in_uniform,  ///< of the weights
        bias_init = fan_in_uniform;  ///< of the biases

    void fields(Fields& f) { f("drop", drop)("init", init)("bias_init", bias_init); }
  };

  Mlp(std::int64_t dim, std::int64_t hidden);                        ///< with the default Config
  Mlp(std::int64_t dim, std::int64_t hidden, const Config& config);  ///< hidden: features between the layers
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;  ///< x (…,dim); gives the same shape

  Config config;  ///< as given
  Linear fc1,     ///< dim to hidden features
      fc2;        ///< hidden to dim features
};

/// x(…,dim) * gamma(dim), which begins as `init_values`: Touvron et al., "Going deeper with image
/// transformers", ICCV'21.
struct LayerScale {
  explicit LayerScale(std::int64_t dim, double init_values = 1e-5);  ///< init_values: of every element of gamma
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;  ///< x (…,dim); gives the same shape

  double init_values;  ///< the first value of gamma
  Tensor gamma;        ///< (dim)
};

/// x(N,L,dim) -> the same shape: attention of the sequence to itself and two linear layers, each a branch
/// that begins with its norm and is added (Dosovitskiy et al., "An image is worth 16x16 words", ICLR'21).
/// Parts: norm1, attn, ls1, norm2, mlp, ls2.
struct ViTBlock {
  /// Options; the names follow timm's.
  struct Config {
    double mlp_ratio = 4;                    ///< of the inner features of mlp to dim
    bool qkv_bias = true;                    ///< whether qkv of attn has a bias
    double proj_drop = 0,                    ///< dropout of the results of attn and of both layers of mlp
        attn_drop = 0;                       ///< dropout of the weights of attention
    std::optional<double> init_values = {};  ///< of ls1 and ls2; without them there are none
    double drop_path = 0;                    ///< see nn::DropPath, on each branch
    double eps = 1e-6;                       ///< of the norms
    InitRule init = fan_in_uniform,          ///< of the linear layers' weights
        bias_init = fan_in_uniform;          ///< of their biases

    void fields(Fields& f) {
      f("mlp_ratio", mlp_ratio)("qkv_bias", qkv_bias)("proj_drop", proj_drop)("attn_drop", attn_drop);
      list_field(f, "init_values", init_values);
      f("drop_path", drop_path)("eps", eps)("init", init)("bias_init", bias_init);
    }
  };

  ViTBlock(std::int64_t dim, std::int64_t num_heads);  ///< with the default Config
  /// Throws Error(usage) when the heads do not divide dim.
  ViTBlock(std::int64_t dim, std::int64_t num_heads, const Config& config);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;  ///< x (N,L,dim); gives the same shape

  Config config;                  ///< as given
  LayerNorm norm1,                ///< before attn
      norm2;                      ///< before mlp
  Attention attn;                 ///< of the sequence to itself
  Mlp mlp;                        ///< dim to mlp_ratio * dim features and back
  std::optional<LayerScale> ls1,  ///< scales what attn gives; none without init_values
      ls2;                        ///< scales what mlp gives; none without init_values
};

}  // namespace neurim::nn
