// Dosovitskiy et al., "An image is worth 16x16 words", ICLR'21, the vision transformers as timm and as
// torchvision have them; and Touvron et al., "Training data-efficient image transformers", ICML'21 (DeiT
// without distillation), whose networks are timm's of the same sizes.
//
// Their position embeddings are learnt for one image size, which may be chosen when the model is built.
#include <cmath>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/model/zoo/entry.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/sequential.h"
#include "neurim/nn/vit_block.h"
#include "neurim/ops/add.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"

namespace neurim::zoo {

namespace {

constexpr double kEps = 1e-6;  // of all norms

struct Design {
  std::int64_t patch, width, depth, heads;
};

/// The patches of an image and the class token.
std::int64_t tokens_of(const Design& d, const Options& o) {
  const std::int64_t side = o.image_size / d.patch;
  return side * side + 1;
}

/// x(N,C,side,side) -> (N,tokens,width): the class token, then the patches row by row, with their positions.
Tensor embedded(const Tensor& x, const nn::Conv2d& patches, const Tensor& class_token, const Tensor& positions,
                std::int64_t side) {
  require(x.rank() == 4 && x.size(2) == side && x.size(3) == side, "vision transformer: takes images (N,C,", side, ",",
          side, "), to which its position embeddings are tied, got ", x.shape());
  const Tensor rows = transpose(flatten(patches(x), 2), {0, 2, 1});
  const Tensor first = broadcast_to(class_token, {x.size(0), 1, rows.size(2)});
  return concat({first, rows}, 1) + positions;
}

/// (N,tokens,width) -> (N,width): the class token's.
Tensor class_row(const Tensor& x) { return flatten(slice(x, {0}, {1}, {1})); }

nn::Init narrow_normal(const Shape&) { return nn::trunc_normal(0, 0.02); }

// --- timm ---

struct TimmViT {
  TimmViT(const Design& d, const Options& o)
      : cls_token(nn::parameter({1, 1, d.width}, class_init())),
        pos_embed(nn::parameter({1, tokens_of(d, o), d.width}, narrow_normal({}))),
        side(o.image_size),
        proj(o.in_chans, d.width, {.kernel = d.patch, .stride = d.patch}),
        norm({d.width}, {.eps = kEps}),
        head(d.width, o.classes, {.init = narrow_normal, .bias_init = nn::zeros}) {
    for (std::int64_t i = 0; i < d.depth; ++i)
      blocks.emplace_back(d.width, d.heads,
                          nn::ViTBlock::Config{.eps = kEps, .init = narrow_normal, .bias_init = nn::zeros});
  }

  static nn::Init class_init() { return nn::normal(0, 1e-6); }
  void parts(Parts& p) {
    p("cls_token", cls_token, class_init())("pos_embed", pos_embed, narrow_normal({}));
    p("patch_embed.proj", proj)("blocks", blocks)("norm", norm)("head", head);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = embedded(x, proj, cls_token, pos_embed, side);
    for (const nn::ViTBlock& block : blocks) y = block(y);
    return head(norm(class_row(y)));
  }

  Tensor cls_token, pos_embed;
  std::int64_t side;  // of images
  nn::Conv2d proj;
  std::vector<nn::ViTBlock> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
};

// --- torchvision ---

nn::Linear mlp_layer(std::int64_t in, std::int64_t out) {
  return {in,
          out,
          {.init = [](const Shape& weight) { return nn::xavier_uniform(weight); },
           .bias_init = [](const Shape&) { return nn::normal(0, 1e-6); }}};
}

/// The mlp keeps a place for dropout, which it was published without, so that its layers are "0" and "3".
struct EncoderBlock {
  explicit EncoderBlock(const Design& d)
      : ln_1({d.width}, {.eps = kEps}),
        ln_2({d.width}, {.eps = kEps}),
        self_attention(d.width, d.heads),
        mlp(mlp_layer(d.width, 4 * d.width), nn::GELU(), nn::Dropout{0}, mlp_layer(4 * d.width, d.width)) {}

  void parts(Parts& p) { p("ln_1", ln_1)("self_attention", self_attention)("ln_2", ln_2)("mlp", mlp); }
  Tensor operator()(const Tensor& x) const {
    const Tensor y = x + self_attention(ln_1(x));
    return y + mlp(ln_2(y));
  }

  nn::LayerNorm ln_1, ln_2;
  nn::MultiheadAttention self_attention;
  nn::Sequential mlp;
};

struct Encoder {
  Encoder(const Design& d, const Options& o)
      : pos_embedding(nn::parameter({1, tokens_of(d, o), d.width}, positions_init())), ln({d.width}, {.eps = kEps}) {
    for (std::int64_t i = 0; i < d.depth; ++i) layers.emplace_back(d);
  }

  static nn::Init positions_init() { return nn::normal(0, 0.02); }
  void parts(Parts& p) {
    p("pos_embedding", pos_embedding, positions_init());
    for (std::size_t i = 0; i < layers.size(); ++i) p(text("layers.encoder_layer_", i), layers[i]);
    p("ln", ln);
  }

  Tensor pos_embedding;
  std::vector<EncoderBlock> layers;
  nn::LayerNorm ln;
};

struct TorchvisionViT {
  TorchvisionViT(const Design& d, const Options& o)
      : class_token(nn::parameter({1, 1, d.width}, nn::constant(0))),
        conv_proj(o.in_chans, d.width,
                  {.kernel = d.patch, .stride = d.patch, .init = patches_init, .bias_init = nn::zeros}),
        encoder(d, o),
        side(o.image_size),
        head(d.width, o.classes, {.init = nn::zeros, .bias_init = nn::zeros}) {}

  static nn::Init patches_init(const Shape& weight) {
    return nn::trunc_normal(0, 1 / std::sqrt(static_cast<double>(weight[1] * weight[2] * weight[3])));
  }
  void parts(Parts& p) {
    p("class_token", class_token, nn::constant(0))("conv_proj", conv_proj)("encoder", encoder);
    p("heads.head", head);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = embedded(x, conv_proj, class_token, encoder.pos_embedding, side);
    for (const EncoderBlock& layer : encoder.layers) y = layer(y);
    return head(encoder.ln(class_row(y)));
  }

  Tensor class_token;
  nn::Conv2d conv_proj;
  Encoder encoder;
  std::int64_t side;  // of images
  nn::Linear head;
};

/// torchvision's names of tensors and timm's for them.
Renames timm_names(const Design& d) {
  Renames names{{"class_token", "cls_token"},
                {"conv_proj", "patch_embed.proj"},
                {"encoder.pos_embedding", "pos_embed"},
                {"encoder.ln", "norm"},
                {"heads.head", "head"}};
  for (std::int64_t i = 0; i < d.depth; ++i)
    for (const auto& [here, there] : std::initializer_list<std::pair<const char*, const char*>>{
             {"ln_1", "norm1"},
             {"self_attention.in_proj_weight", "attn.qkv.weight"},
             {"self_attention.in_proj_bias", "attn.qkv.bias"},
             {"self_attention.out_proj", "attn.proj"},
             {"ln_2", "norm2"},
             {"mlp.0", "mlp.fc1"},
             {"mlp.3", "mlp.fc2"}})
      names[text("encoder.layers.encoder_layer_", i, '.', here)] = text("blocks.", i, '.', there);
  return names;
}

/// What torchvision called them when it published its weights.
Renames older_names(const Design& d) {
  Renames names;
  for (std::int64_t i = 0; i < d.depth; ++i) {
    const std::string mlp = text("encoder.layers.encoder_layer_", i, ".mlp.");
    names[mlp + '0'] = mlp + "linear_1";
    names[mlp + '3'] = mlp + "linear_2";
  }
  return names;
}

Entry torchvision_vit(std::string name, const Design& design) {
  return {.name = std::move(name),
          .build = [=](const Options& o) { return TorchvisionViT(design, o); },
          .patch = design.patch,
          .other_names = [=] { return timm_names(design); },
          .older_names = [=] { return older_names(design); }};
}

/// `other_names` are those of torchvision, which has the base size.
Entry timm_vit(std::string name, const Design& design) {
  return {.name = std::move(name),
          .build = [=](const Options& o) { return TimmViT(design, o); },
          .patch = design.patch,
          .of_timm = true,
          .other_names = [=] { return reversed(timm_names(design)); }};
}

}  // namespace

Entries vit_models() {
  Entries entries{torchvision_vit("vit_b_16", {16, 768, 12, 12}), torchvision_vit("vit_b_32", {32, 768, 12, 12})};
  for (const auto& [size, design] : {std::pair<std::string, Design>{"tiny", {16, 192, 12, 3}},
                                     {"small", {16, 384, 12, 6}},
                                     {"base", {16, 768, 12, 12}}}) {
    entries.push_back(timm_vit(text("deit_", size, "_patch16_224"), design));
    entries.push_back(timm_vit(text("vit_", size, "_patch16_224"), design));
    entries.back().mean = entries.back().std = {0.5, 0.5, 0.5};
  }
  return entries;
}

}  // namespace neurim::zoo
