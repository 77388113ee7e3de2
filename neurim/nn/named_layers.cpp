#include "neurim/nn/named_layers.h"

#include <map>

#include "neurim/base/error.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/attention.h"
#include "neurim/nn/batch_norm1d.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/conv_transpose.h"
#include "neurim/nn/embedding.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/norm.h"
#include "neurim/nn/pad.h"
#include "neurim/nn/pool.h"
#include "neurim/nn/positions.h"
#include "neurim/nn/prelu.h"
#include "neurim/nn/recurrent.h"
#include "neurim/nn/resample.h"
#include "neurim/nn/residual.h"
#include "neurim/nn/transformer.h"
#include "neurim/nn/vit_block.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"

namespace neurim::nn {

namespace {

std::int64_t channels(const Type& x) {
  require(x.shape.rank() >= 2, "takes x(N,C,…), got ", x.shape);
  return x.shape[1];
}

std::int64_t features(const Type& x) {
  require(x.shape.rank() >= 1, "takes x(…,features), got ", x.shape);
  return x.shape[-1];
}

/// An option that has no default: 0 says that it is missing.
std::int64_t given(std::string_view option, std::int64_t value) {
  require(value != 0, option, " is missing; give it: ", option, " = …, not 0");
  return value;
}

/// A layer of (in, out, config), where `in` follows from x.
template <class L, std::int64_t (*in)(const Type&)>
struct InOut {
  std::int64_t out = 0;
  typename L::Config config = {};
  void fields(Fields& f) {
    f("out", out);
    config.fields(f);
  }
  Layer build(const Type& x) const { return L(in(x), given("out", out), config); }
};

/// A layer of (in, config), where `in` follows from x.
template <class L, std::int64_t (*in)(const Type&)>
struct Of {
  typename L::Config config = {};
  void fields(Fields& f) { config.fields(f); }
  Layer build(const Type& x) const { return L(in(x), config); }
};

/// A norm over the last axes, by default the last one.
template <class L>
struct OverLastAxes {
  std::vector<std::int64_t> normalized_shape;
  typename L::Config config = {};
  void fields(Fields& f) {
    f("normalized_shape", normalized_shape);
    config.fields(f);
  }
  Layer build(const Type& x) const {
    return L(normalized_shape.empty() ? Shape{features(x)} : Shape(normalized_shape), config);
  }
};

struct GroupNormOptions {
  std::int64_t num_groups = 0;
  GroupNorm::Config config = {};
  void fields(Fields& f) {
    f("num_groups", num_groups);
    config.fields(f);
  }
  Layer build(const Type& x) const { return GroupNorm(given("num_groups", num_groups), channels(x), config); }
};

struct PReLUOptions {
  std::int64_t num_parameters = 1;
  double init = 0.25;
  void fields(Fields& f) { f("num_parameters", num_parameters)("init", init); }
  Layer build(const Type&) const { return PReLU(num_parameters, init); }
};

struct EmbeddingOptions {
  std::int64_t num = 0, dim = 0;
  Embedding::Config config = {};
  void fields(Fields& f) {
    f("num", num)("dim", dim);
    config.fields(f);
  }
  Layer build(const Type&) const { return Embedding(given("num", num), given("dim", dim), config); }
};

/// A recurrent network of one input: all outputs, or the states h after the last step of the last layer,
/// (N,directions*P).
template <class L>
struct OutputsOf {
  L net;
  std::int64_t directions;
  bool last;
  void parts(Parts& p) { net.parts(p); }
  Tensor operator()(const Tensor& x) const {
    const RecurrentOutput out = net(x);
    if (!last) return out.y;
    const std::int64_t all = out.last.h.size(0);
    return flatten(transpose(slice(out.last.h, {all - directions}, {all}), {1, 0, 2}));
  }
};

/// Throws where a stack is deeper than any that can be of use.
void check_layers(std::int64_t num_layers) {
  constexpr std::int64_t kMost = 100;
  require(num_layers <= kMost, "num_layers is ", num_layers, "; it is at most ", kMost);
}

template <class L>
struct RecurrentOptions {
  std::int64_t hidden = 0;
  bool last = false;
  typename L::Config config = {.batch_first = true};  // here as everywhere the first axis is the batch
  void fields(Fields& f) {
    f("hidden", hidden)("last", last);
    config.fields(f);
  }
  Layer build(const Type& x) const {
    check_layers(config.num_layers);
    return OutputsOf<L>{L(features(x), given("hidden", hidden), config), 1 + config.bidirectional, last};
  }
};

/// A layer of (features, num_heads, config).
template <class L>
struct OfHeads {
  std::int64_t num_heads = 0;
  typename L::Config config = {};
  void fields(Fields& f) {
    f("num_heads", num_heads);
    config.fields(f);
  }
  Layer build(const Type& x) const { return L(features(x), given("num_heads", num_heads), config); }
};

struct TransformerEncoderLayerOptions {
  std::int64_t nhead = 0;
  TransformerConfig config = {};
  void fields(Fields& f) {
    f("nhead", nhead);
    config.fields(f);
  }
  Layer build(const Type& x) const { return TransformerEncoderLayer(features(x), given("nhead", nhead), config); }
};

struct TransformerEncoderOptions {
  std::int64_t nhead = 0, num_layers = 0;
  bool final_norm = false;
  TransformerConfig config = {};
  void fields(Fields& f) {
    f("nhead", nhead)("num_layers", num_layers)("final_norm", final_norm);
    config.fields(f);
  }
  Layer build(const Type& x) const {
    check_layers(given("num_layers", num_layers));
    return TransformerEncoder(features(x), given("nhead", nhead), num_layers, config, final_norm);
  }
};

struct MlpOptions {
  std::int64_t hidden = 0;
  Mlp::Config config = {};
  void fields(Fields& f) {
    f("hidden", hidden);
    config.fields(f);
  }
  Layer build(const Type& x) const { return Mlp(features(x), given("hidden", hidden), config); }
};

struct LayerScaleOptions {
  double init_values = 1e-5;
  void fields(Fields& f) { f("init_values", init_values); }
  Layer build(const Type& x) const { return LayerScale(features(x), init_values); }
};

/// Of sequences of one length: images of another size have other patches at the same places.
struct PositionsOfOneLength {
  LearnedPositions positions;
  void parts(Parts& p) { positions.parts(p); }
  Tensor operator()(const Tensor& x) const {
    const std::int64_t length = positions.weight.size(0);
    require(x.rank() == 3 && x.size(1) == length, "LearnedPositions: was built for x(N,", length, ",features), got ",
            x.shape(), "; give the image size that it was built for");
    return positions(x);
  }
};

struct LearnedPositionsOptions {
  Layer build(const Type& x) const {
    require(x.shape.rank() == 3, "takes x(N,L,features), got ", x.shape);
    return PositionsOfOneLength{{x.shape[1], x.shape[2]}};
  }
};

struct SinusoidalPositionsOptions {
  Layer build(const Type& x) const {
    constexpr std::int64_t kMost = 1 << 24;  // tracing makes the table, the size of one sequence
    require(x.shape.numel() <= kMost, "takes sequences of at most ", kMost, " values, got ", x.shape);
    return SinusoidalPositions();
  }
};

struct BasicBlockOptions {
  std::int64_t out = 0, stride = 1;
  void fields(Fields& f) { f("out", out)("stride", stride); }
  Layer build(const Type& x) const { return BasicBlock(channels(x), given("out", out), stride); }
};

/// The result has four times `channels`.
struct BottleneckOptions {
  std::int64_t channels = 0, stride = 1;
  Bottleneck::Config config = {};
  void fields(Fields& f) {
    f("channels", channels)("stride", stride);
    config.fields(f);
  }
  Layer build(const Type& x) const {
    constexpr std::int64_t kMost = 1 << 16;  // of each: their product is the width
    require(given("channels", channels) <= kMost && config.base_width <= kMost && config.groups <= kMost, "channels (",
            channels, "), base_width (", config.base_width, ") and groups (", config.groups, ") are at most ", kMost);
    return Bottleneck(nn::channels(x), channels, stride, config);
  }
};

using Factories = std::map<std::string, LayerFactory, std::less<>>;

Factories built_in() {
  return {
      {"AdaptiveAvgPool1d", layer_factory<AdaptiveAvgPool1d>()},
      {"AdaptiveAvgPool2d", layer_factory<AdaptiveAvgPool2d>()},
      {"AdaptiveAvgPool3d", layer_factory<AdaptiveAvgPool3d>()},
      {"AdaptiveMaxPool1d", layer_factory<AdaptiveMaxPool1d>()},
      {"AdaptiveMaxPool2d", layer_factory<AdaptiveMaxPool2d>()},
      {"AdaptiveMaxPool3d", layer_factory<AdaptiveMaxPool3d>()},
      {"AlphaDropout", layer_factory<AlphaDropout>()},
      {"Attention", layer_factory<Of<Attention, features>>()},
      {"AvgPool1d", layer_factory<AvgPool1d>()},
      {"AvgPool2d", layer_factory<AvgPool2d>()},
      {"AvgPool3d", layer_factory<AvgPool3d>()},
      {"BasicBlock", layer_factory<BasicBlockOptions>()},
      {"BatchNorm1d", layer_factory<Of<BatchNorm1d, channels>>()},
      {"BatchNorm2d", layer_factory<Of<BatchNorm2d, channels>>()},
      {"Bottleneck", layer_factory<BottleneckOptions>()},
      {"CELU", layer_factory<CELU>()},
      {"ChannelShuffle", layer_factory<ChannelShuffle>()},
      {"CircularPad1d", layer_factory<CircularPad1d>()},
      {"CircularPad2d", layer_factory<CircularPad2d>()},
      {"ConstantPad1d", layer_factory<ConstantPad1d>()},
      {"ConstantPad2d", layer_factory<ConstantPad2d>()},
      {"Conv1d", layer_factory<InOut<Conv1d, channels>>()},
      {"Conv2d", layer_factory<InOut<Conv2d, channels>>()},
      {"Conv3d", layer_factory<InOut<Conv3d, channels>>()},
      {"ConvTranspose1d", layer_factory<InOut<ConvTranspose1d, channels>>()},
      {"ConvTranspose2d", layer_factory<InOut<ConvTranspose2d, channels>>()},
      {"ConvTranspose3d", layer_factory<InOut<ConvTranspose3d, channels>>()},
      {"DropPath", layer_factory<DropPath>()},
      {"Dropout", layer_factory<Dropout>()},
      {"Dropout2d", layer_factory<Dropout2d>()},
      {"ELU", layer_factory<ELU>()},
      {"Embedding", layer_factory<EmbeddingOptions>()},
      {"Flatten", layer_factory<Flatten>()},
      {"GELU", layer_factory<GELU>()},
      {"GLU", layer_factory<GLU>()},
      {"GRU", layer_factory<RecurrentOptions<GRU>>()},
      {"GlobalAvgPool2d", layer_factory<GlobalAvgPool2d>()},
      {"GlobalMaxPool2d", layer_factory<GlobalMaxPool2d>()},
      {"GroupNorm", layer_factory<GroupNormOptions>()},
      {"Hardshrink", layer_factory<Hardshrink>()},
      {"Hardsigmoid", layer_factory<Hardsigmoid>()},
      {"Hardswish", layer_factory<Hardswish>()},
      {"Hardtanh", layer_factory<Hardtanh>()},
      {"InstanceNorm1d", layer_factory<Of<InstanceNorm1d, channels>>()},
      {"InstanceNorm2d", layer_factory<Of<InstanceNorm2d, channels>>()},
      {"LSTM", layer_factory<RecurrentOptions<LSTM>>()},
      {"LayerNorm", layer_factory<OverLastAxes<LayerNorm>>()},
      {"LayerScale", layer_factory<LayerScaleOptions>()},
      {"LeakyReLU", layer_factory<LeakyReLU>()},
      {"LearnedPositions", layer_factory<LearnedPositionsOptions>()},
      {"Linear", layer_factory<InOut<Linear, features>>()},
      {"LocalResponseNorm", layer_factory<LocalResponseNorm>()},
      {"LogSigmoid", layer_factory<LogSigmoid>()},
      {"LogSoftmax", layer_factory<LogSoftmax>()},
      {"LpPool1d", layer_factory<LpPool1d>()},
      {"LpPool2d", layer_factory<LpPool2d>()},
      {"LpPool3d", layer_factory<LpPool3d>()},
      {"MaxPool1d", layer_factory<MaxPool1d>()},
      {"MaxPool2d", layer_factory<MaxPool2d>()},
      {"MaxPool3d", layer_factory<MaxPool3d>()},
      {"Mish", layer_factory<Mish>()},
      {"Mlp", layer_factory<MlpOptions>()},
      {"MultiheadAttention", layer_factory<OfHeads<MultiheadAttention>>()},
      {"PReLU", layer_factory<PReLUOptions>()},
      {"Permute", layer_factory<Permute>()},
      {"PixelShuffle", layer_factory<PixelShuffle>()},
      {"PixelUnshuffle", layer_factory<PixelUnshuffle>()},
      {"RMSNorm", layer_factory<OverLastAxes<RMSNorm>>()},
      {"RNN", layer_factory<RecurrentOptions<RNN>>()},
      {"ReLU", layer_factory<ReLU>()},
      {"ReLU6", layer_factory<ReLU6>()},
      {"ReflectionPad1d", layer_factory<ReflectionPad1d>()},
      {"ReflectionPad2d", layer_factory<ReflectionPad2d>()},
      {"ReplicationPad1d", layer_factory<ReplicationPad1d>()},
      {"ReplicationPad2d", layer_factory<ReplicationPad2d>()},
      {"SELU", layer_factory<SELU>()},
      {"SiLU", layer_factory<SiLU>()},
      {"Sigmoid", layer_factory<Sigmoid>()},
      {"SinusoidalPositions", layer_factory<SinusoidalPositionsOptions>()},
      {"Softmax", layer_factory<Softmax>()},
      {"Softplus", layer_factory<Softplus>()},
      {"Softshrink", layer_factory<Softshrink>()},
      {"Softsign", layer_factory<Softsign>()},
      {"SyncBatchNorm", layer_factory<Of<SyncBatchNorm, channels>>()},
      {"Tanh", layer_factory<Tanh>()},
      {"Tanhshrink", layer_factory<Tanhshrink>()},
      {"Threshold", layer_factory<Threshold>()},
      {"TransformerEncoder", layer_factory<TransformerEncoderOptions>()},
      {"TransformerEncoderLayer", layer_factory<TransformerEncoderLayerOptions>()},
      {"Unflatten", layer_factory<Unflatten>()},
      {"Upsample", layer_factory<Upsample>()},
      {"ViTBlock", layer_factory<OfHeads<ViTBlock>>()},
  };
}

Factories& factories() {
  static Factories& all = *new Factories(built_in());
  return all;
}

}  // namespace

void define_layer(std::string name, LayerFactory factory) {
  const auto [at, is_new] = factories().emplace(std::move(name), factory);
  require(is_new, "there is a layer '", at->first, "' already; give yours another name");
}

std::unique_ptr<NamedLayer> make_layer(std::string_view name) {
  const auto at = factories().find(name);
  return at == factories().end() ? nullptr : at->second();
}

std::vector<std::string> layer_names() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : factories()) names.push_back(name);
  return names;
}

}  // namespace neurim::nn
