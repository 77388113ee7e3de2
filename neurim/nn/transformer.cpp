#include "neurim/nn/transformer.h"

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/dropout.h"
#include "neurim/ops/gelu.h"
#include "neurim/ops/relu.h"

namespace neurim::nn {

namespace {

MultiheadAttention attention_of(std::int64_t d_model, std::int64_t nhead, const TransformerConfig& c) {
  return {d_model, nhead, {.dropout = c.dropout, .bias = c.bias}};
}

LayerNorm norm_of(std::int64_t d_model, const TransformerConfig& c) {
  return {{d_model}, {.eps = c.layer_norm_eps, .bias = c.bias}};
}

void check_activation(std::string_view who, const TransformerConfig& c) {
  require(c.activation == "relu" || c.activation == "gelu", who, ": activation is \"", c.activation,
          "\", has to be relu or gelu");
}

/// x + branch(x), its norm before the branch or after the sum.
template <class Branch>
Tensor residual(const Tensor& x, const LayerNorm& norm, const TransformerConfig& c, const Branch& branch) {
  if (c.norm_first) return x + dropout(branch(norm(x)), c.dropout);
  return norm(x + dropout(branch(x), c.dropout));
}

Tensor feed_forward(const Tensor& x, const Linear& linear1, const Linear& linear2, const TransformerConfig& c) {
  const Tensor inner = linear1(x);
  return linear2(dropout(c.activation == "gelu" ? gelu(inner) : relu(inner), c.dropout));
}

template <class Module>
std::vector<Module> stack_of(std::string_view who, std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                             const TransformerConfig& c) {
  require(num_layers > 0, who, ": layers (", num_layers, ") must be 1 or more");
  std::vector<Module> layers;
  for (std::int64_t i = 0; i < num_layers; ++i) layers.emplace_back(d_model, nhead, c);
  return layers;
}

/// What the layers of a stack and its last norm make of x; `call` calls one of them.
template <class Module, class Call>
Tensor through(const std::vector<Module>& layers, const std::optional<LayerNorm>& norm, const Tensor& x,
               const Call& call) {
  Tensor y = x;
  for (std::size_t i = 0; i < layers.size(); ++i) y = in_part(text("layers.", i), [&] { return call(layers[i], y); });
  return norm ? in_part("norm", [&] { return (*norm)(y); }) : y;
}

std::optional<LayerNorm> final_norm_of(bool wanted, std::int64_t d_model, const TransformerConfig& c) {
  if (!wanted) return std::nullopt;
  return norm_of(d_model, c);
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerConfig& c)
    : config(c),
      self_attn(attention_of(d_model, nhead, c)),
      linear1(d_model, c.dim_feedforward, {.bias = c.bias}),
      linear2(c.dim_feedforward, d_model, {.bias = c.bias}),
      norm1(norm_of(d_model, c)),
      norm2(norm_of(d_model, c)) {
  check_activation("TransformerEncoderLayer", c);
}

void TransformerEncoderLayer::parts(Parts& p) {
  p("self_attn", self_attn)("linear1", linear1)("linear2", linear2)("norm1", norm1)("norm2", norm2);
}

Tensor TransformerEncoderLayer::operator()(const Tensor& x, const AttentionMask& mask) const {
  const Tensor y = residual(x, norm1, config, [&](const Tensor& t) { return self_attn(t, mask); });
  return residual(y, norm2, config, [&](const Tensor& t) { return feed_forward(t, linear1, linear2, config); });
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerConfig& c)
    : config(c),
      self_attn(attention_of(d_model, nhead, c)),
      multihead_attn(attention_of(d_model, nhead, c)),
      linear1(d_model, c.dim_feedforward, {.bias = c.bias}),
      linear2(c.dim_feedforward, d_model, {.bias = c.bias}),
      norm1(norm_of(d_model, c)),
      norm2(norm_of(d_model, c)),
      norm3(norm_of(d_model, c)) {
  check_activation("TransformerDecoderLayer", c);
}

void TransformerDecoderLayer::parts(Parts& p) {
  p("self_attn", self_attn)("multihead_attn", multihead_attn)("linear1", linear1)("linear2", linear2);
  p("norm1", norm1)("norm2", norm2)("norm3", norm3);
}

Tensor TransformerDecoderLayer::operator()(const Tensor& target, const Tensor& memory, const AttentionMask& target_mask,
                                           const AttentionMask& memory_mask) const {
  Tensor y = residual(target, norm1, config, [&](const Tensor& t) { return self_attn(t, target_mask); });
  y = residual(y, norm2, config, [&](const Tensor& t) { return multihead_attn(t, memory, memory, memory_mask); });
  return residual(y, norm3, config, [&](const Tensor& t) { return feed_forward(t, linear1, linear2, config); });
}

TransformerEncoder::TransformerEncoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                                       const TransformerConfig& c, bool final_norm)
    : layers(stack_of<TransformerEncoderLayer>("TransformerEncoder", d_model, nhead, num_layers, c)),
      norm(final_norm_of(final_norm, d_model, c)) {}

void TransformerEncoder::parts(Parts& p) {
  p("layers", layers);
  if (norm) p("norm", *norm);
}

Tensor TransformerEncoder::operator()(const Tensor& x, const AttentionMask& mask) const {
  return through(layers, norm, x,
                 [&](const TransformerEncoderLayer& layer, const Tensor& y) { return layer(y, mask); });
}

TransformerDecoder::TransformerDecoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                                       const TransformerConfig& c, bool final_norm)
    : layers(stack_of<TransformerDecoderLayer>("TransformerDecoder", d_model, nhead, num_layers, c)),
      norm(final_norm_of(final_norm, d_model, c)) {}

void TransformerDecoder::parts(Parts& p) {
  p("layers", layers);
  if (norm) p("norm", *norm);
}

Tensor TransformerDecoder::operator()(const Tensor& target, const Tensor& memory, const AttentionMask& target_mask,
                                      const AttentionMask& memory_mask) const {
  return through(layers, norm, target, [&](const TransformerDecoderLayer& layer, const Tensor& y) {
    return layer(y, memory, target_mask, memory_mask);
  });
}

}  // namespace neurim::nn
