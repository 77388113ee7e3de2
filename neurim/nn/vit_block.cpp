#include "neurim/nn/vit_block.h"

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/dropout.h"
#include "neurim/ops/gelu.h"
#include "neurim/ops/mul.h"

namespace neurim::nn {

Mlp::Mlp(std::int64_t dim, std::int64_t hidden) : Mlp(dim, hidden, Config{}) {}

Mlp::Mlp(std::int64_t dim, std::int64_t hidden, const Config& c)
    : config(c),
      fc1(dim, hidden, {.init = c.init, .bias_init = c.bias_init}),
      fc2(hidden, dim, {.init = c.init, .bias_init = c.bias_init}) {}

void Mlp::parts(Parts& p) { p("fc1", fc1)("fc2", fc2); }

Tensor Mlp::operator()(const Tensor& x) const { return dropout(fc2(dropout(gelu(fc1(x)), config.drop)), config.drop); }

LayerScale::LayerScale(std::int64_t dim, double first) : init_values(first) {
  require(dim > 0, "LayerScale: features (", dim, ") must be 1 or more");
  gamma = parameter({dim}, constant(init_values));
}

void LayerScale::parts(Parts& p) { p("gamma", gamma, constant(init_values)); }

Tensor LayerScale::operator()(const Tensor& x) const { return x * gamma; }

ViTBlock::ViTBlock(std::int64_t dim, std::int64_t num_heads) : ViTBlock(dim, num_heads, Config{}) {}

ViTBlock::ViTBlock(std::int64_t dim, std::int64_t num_heads, const Config& c)
    : config(c),
      norm1({dim}, {.eps = c.eps}),
      norm2({dim}, {.eps = c.eps}),
      attn(dim, {.num_heads = num_heads,
                 .qkv_bias = c.qkv_bias,
                 .attn_drop = c.attn_drop,
                 .proj_drop = c.proj_drop,
                 .init = c.init,
                 .bias_init = c.bias_init}),
      mlp(dim, static_cast<std::int64_t>(static_cast<double>(dim) * c.mlp_ratio),
          {.drop = c.proj_drop, .init = c.init, .bias_init = c.bias_init}) {
  if (!c.init_values) return;
  ls1.emplace(dim, *c.init_values);
  ls2.emplace(dim, *c.init_values);
}

void ViTBlock::parts(Parts& p) {
  p("norm1", norm1)("attn", attn);
  if (ls1) p("ls1", *ls1);
  p("norm2", norm2)("mlp", mlp);
  if (ls2) p("ls2", *ls2);
}

Tensor ViTBlock::operator()(const Tensor& x) const {
  const auto added = [&](const Tensor& to, const Tensor& branch, const std::optional<LayerScale>& scale) {
    return to + drop_path(scale ? (*scale)(branch) : branch, config.drop_path);
  };
  const Tensor y = added(x, attn(norm1(x)), ls1);
  return added(y, mlp(norm2(y)), ls2);
}

}  // namespace neurim::nn
