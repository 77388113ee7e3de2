// Runs the modules of attention for attention_layers_test.py to compare with PyTorch's:
// attention_layers FILE.safetensors
// Prints a JSON list of the options of each case and the names of its inputs and weights. The file holds, for
// case i, the inputs "i.in.<name>", the masks "i.mask.<name>", the weights "i.weight.<name>", the result
// "i.out", the gradient "i.dout" that it is given, and the gradients "i.d.<name of an input or a weight>"
// that follow.
#include <iostream>
#include <nlohmann/json.hpp>

#include "neurim/neurim.h"
#include "tests/op_table.h"

namespace neurim {
namespace {

using Json = nlohmann::json;
using Named = std::vector<std::pair<std::string, Tensor>>;

constexpr std::int64_t kBatch = 2, kLength = 5, kPositions = 7, kWidth = 12, kHeads = 3, kInner = 16;

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  Random random(seed);
  const Type type{DType::f32, shape};
  return op_table::from_doubles(type, op_table::numbers(type, {}, random));
}

/// Hides by a rule of (sequence and head, query, key), but never the first key.
Tensor hidden(const Shape& shape, const std::function<bool(std::int64_t, std::int64_t, std::int64_t)>& rule) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    const std::int64_t key = i % shape[-1], query = i / shape[-1] % shape[-2];
    values.push_back(key > 0 && rule(i / shape[-1] / shape[-2], query, key));
  }
  return op_table::from_doubles({DType::boolean, shape}, values);
}

/// The masks of one kind, for queries and keys of these lengths.
nn::AttentionMask mask_of(const std::string& kind, std::int64_t length, std::int64_t positions) {
  const auto is = [&](std::string_view word) { return kind.find(word) != kind.npos; };
  nn::AttentionMask mask{.is_causal = is("causal")};
  if (is("padding"))  // the second sequence ends three keys earlier
    mask.key_padding_mask = hidden({kBatch, positions}, [=](auto, std::int64_t sequence, std::int64_t key) {
      return sequence == 1 && key >= positions - 3;
    });
  if (is("hidden"))
    mask.attn_mask = hidden({length, positions},
                            [](auto, std::int64_t query, std::int64_t key) { return (query + 2 * key) % 3 == 1; });
  if (is("each"))
    mask.attn_mask = hidden(
        {kBatch * kHeads, length, positions},
        [](std::int64_t head, std::int64_t query, std::int64_t key) { return (head + query + 2 * key) % 3 == 1; });
  if (is("added")) mask.attn_mask = random_tensor({length, positions}, 77);
  return mask;
}

class Cases {
 public:
  /// forward(module, inputs) gives the result. Weights of one axis are drawn anew, so that none is 0 or 1.
  template <class Module, class Forward>
  void add(Json row, Module module, const Named& in, const nn::AttentionMask& mask, const Forward& forward) {
    initialise(module, rows_.size());
    const Parameters weights = named_parameters(module);
    for (const Parameter& weight : weights)
      if (weight.tensor.rank() == 1) nn::fill(weight.tensor, nn::uniform(0.5, 1.5), rows_.size(), weight.name);
    Tensors given;
    for (const auto& [name, tensor] : in) {
      given.push_back(tensor);
      keep("in." + name, tensor);
      row["inputs"].push_back(name);
    }
    if (mask.key_padding_mask) keep("mask.key_padding_mask", mask.key_padding_mask);
    if (mask.attn_mask) keep("mask.attn_mask", mask.attn_mask);
    row["causal"] = mask.is_causal;
    const auto function = [&](const Tensors& x) -> Tensors { return {forward(module, x)}; };
    const Tensor out = plan(function, op_table::types_of(given))(given)[0];
    keep("out", out);
    given.push_back(random_tensor(out.shape(), 1000 + rows_.size()));
    keep("dout", given.back());

    const auto backward = [&](const Tensors& all) {
      const Tensors x(all.begin(), all.end() - 1);
      Tensors wrt = x;
      for (const Parameter& weight : weights) wrt.push_back(weight.tensor);
      return gradients(function(x), wrt, std::span(&all.back(), 1));
    };
    const Tensors d = plan(backward, op_table::types_of(given), {.training = true})(given);
    for (std::size_t i = 0; i < in.size(); ++i) keep("d." + in[i].first, d[i]);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      row["weights"].push_back(weights[i].name);
      keep("weight." + weights[i].name, weights[i].tensor);
      keep("d." + weights[i].name, d[in.size() + i]);
    }
    rows_.push_back(row);
  }

  void write(const fs::path& path) const {
    write_safetensors(path, tensors_);
    std::cout << rows_ << '\n';
  }

 private:
  void keep(const std::string& what, const Tensor& tensor) {
    tensors_.emplace_back(text(rows_.size(), '.', what), tensor);
  }
  Json rows_ = Json::array();
  Named tensors_;
};

void add_multihead_attention(Cases& cases) {
  const Tensor x = random_tensor({kBatch, kLength, kWidth}, 1);
  for (const std::string kind :
       {"", "padding", "hidden", "each", "added", "causal", "padding hidden", "padding causal"}) {
    const nn::AttentionMask own = mask_of(kind, kLength, kLength), other = mask_of(kind, kLength, kPositions);
    for (const bool bias : {false, true})
      cases.add({{"module", "MultiheadAttention"}, {"bias", bias}, {"masks", kind}},
                nn::MultiheadAttention(kWidth, kHeads, {.bias = bias}), {{"x", x}}, own,
                [&](const auto& module, const Tensors& in) { return module(in[0], own); });
    for (const std::int64_t kdim : {std::int64_t{6}, kWidth})
      for (const std::int64_t vdim : {std::int64_t{8}, kWidth})
        cases.add({{"module", "MultiheadAttention"}, {"bias", true}, {"masks", kind}, {"kdim", kdim}, {"vdim", vdim}},
                  nn::MultiheadAttention(kWidth, kHeads, {.kdim = kdim, .vdim = vdim}),
                  {{"x", x},
                   {"key", random_tensor({kBatch, kPositions, kdim}, 2)},
                   {"value", random_tensor({kBatch, kPositions, vdim}, 3)}},
                  other, [&](const auto& module, const Tensors& in) { return module(in[0], in[1], in[2], other); });
  }
}

void add_transformers(Cases& cases) {
  const Tensor x = random_tensor({kBatch, kLength, kWidth}, 1), memory = random_tensor({kBatch, kPositions, kWidth}, 2);
  for (const bool norm_first : {false, true})
    for (const std::string activation : {"relu", "gelu"}) {
      const nn::TransformerConfig config{.dim_feedforward = kInner,
                                         .dropout = 0,
                                         .activation = activation,
                                         .layer_norm_eps = 1e-3,
                                         .norm_first = norm_first};
      const auto row = [&](const std::string& module, std::int64_t layers) {
        return Json{{"module", module}, {"layers", layers}, {"activation", activation}, {"norm_first", norm_first}};
      };
      for (const std::string kind : {"", "padding", "causal", "padding hidden"}) {
        const nn::AttentionMask mask = mask_of(kind, kLength, kLength);
        const auto encoded = [&](const auto& module, const Tensors& in) { return module(in[0], mask); };
        cases.add(row("TransformerEncoderLayer", 1), nn::TransformerEncoderLayer(kWidth, kHeads, config), {{"x", x}},
                  mask, encoded);
        if (kind == "causal")
          cases.add(row("TransformerEncoder", 2), nn::TransformerEncoder(kWidth, kHeads, 2, config, true), {{"x", x}},
                    mask, encoded);
      }
      // The target is causal, the memory padded.
      const nn::AttentionMask own{.is_causal = true},
          padded = mask_of("padding", kLength, kPositions),
          both{.key_padding_mask = padded.key_padding_mask, .is_causal = true};
      const auto decoded = [&](const auto& module, const Tensors& in) { return module(in[0], in[1], own, padded); };
      cases.add(row("TransformerDecoderLayer", 1), nn::TransformerDecoderLayer(kWidth, kHeads, config),
                {{"x", x}, {"memory", memory}}, both, decoded);
      cases.add(row("TransformerDecoder", 2), nn::TransformerDecoder(kWidth, kHeads, 2, config, true),
                {{"x", x}, {"memory", memory}}, both, decoded);
    }
}

void add_blocks(Cases& cases) {
  for (const bool scaled : {false, true}) {
    nn::ViTBlock::Config config;
    if (scaled) config.init_values = 1e-5;
    cases.add({{"module", "ViTBlock"}, {"scaled", scaled}}, nn::ViTBlock(kWidth, kHeads, config),
              {{"x", random_tensor({kBatch, kLength, kWidth}, 1)}}, {},
              [](const auto& module, const Tensors& in) { return module(in[0]); });
  }
}

}  // namespace
}  // namespace neurim

int main(int argc, char** argv) {
  using namespace neurim;
  try {
    require(argc == 2, "usage: attention_layers FILE.safetensors");
    initialize();
    Cases cases;
    add_multihead_attention(cases);
    add_transformers(cases);
    add_blocks(cases);
    cases.write(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "attention_layers: " << error.what() << '\n';
    return 1;
  }
}
