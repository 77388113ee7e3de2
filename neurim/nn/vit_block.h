// The block of vision transformers, with timm's names.
#pragma once
#include <optional>

#include "neurim/nn/attention.h"
#include "neurim/nn/norm.h"
#include "neurim/ops/common/list_field.h"

namespace neurim::nn {

/// x(…,dim) -> the same shape: fc1 to `hidden` features, GELU, fc2 back; dropout behind each.
struct Mlp {
  struct Config {
    double drop = 0;
    InitRule init = fan_in_uniform, bias_init = fan_in_uniform;

    void fields(Fields& f) { f("drop", drop)("init", init)("bias_init", bias_init); }
  };

  Mlp(std::int64_t dim, std::int64_t hidden);
  Mlp(std::int64_t dim, std::int64_t hidden, const Config& config);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  Config config;
  Linear fc1, fc2;
};

/// x(…,dim) * gamma(dim), which begins as `init_values`: Touvron et al., "Going deeper with image
/// transformers", ICCV'21.
struct LayerScale {
  explicit LayerScale(std::int64_t dim, double init_values = 1e-5);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  double init_values;
  Tensor gamma;
};

/// x(N,L,dim) -> the same shape: attention of the sequence to itself and two linear layers, each a branch
/// that begins with its norm and is added (Dosovitskiy et al., "An image is worth 16x16 words", ICLR'21).
/// Parts: norm1, attn, ls1, norm2, mlp, ls2.
struct ViTBlock {
  struct Config {
    double mlp_ratio = 4;  ///< of the inner features of mlp to dim
    bool qkv_bias = true;
    double proj_drop = 0, attn_drop = 0;     ///< dropout of the results, and of the weights of attention
    std::optional<double> init_values = {};  ///< of ls1 and ls2; without them there are none
    double drop_path = 0;                    ///< see nn::DropPath, on each branch
    double eps = 1e-6;                       ///< of the norms
    InitRule init = fan_in_uniform, bias_init = fan_in_uniform;  ///< of the linear layers

    void fields(Fields& f) {
      f("mlp_ratio", mlp_ratio)("qkv_bias", qkv_bias)("proj_drop", proj_drop)("attn_drop", attn_drop);
      list_field(f, "init_values", init_values);
      f("drop_path", drop_path)("eps", eps)("init", init)("bias_init", bias_init);
    }
  };

  ViTBlock(std::int64_t dim, std::int64_t num_heads);
  ViTBlock(std::int64_t dim, std::int64_t num_heads, const Config& config);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  Config config;
  LayerNorm norm1, norm2;
  Attention attn;
  Mlp mlp;
  std::optional<LayerScale> ls1, ls2;
};

}  // namespace neurim::nn
