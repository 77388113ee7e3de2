// Modules, layers, initialisers and the zoo.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "neurim/base/environment.h"
#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/graph/trace.h"
#include "neurim/model/cost.h"
#include "neurim/model/state.h"
#include "neurim/model/zoo.h"
#include "neurim/model/zoo/unet.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/batch_norm1d.h"
#include "neurim/nn/conv_transpose.h"
#include "neurim/nn/embedding.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/network.h"
#include "neurim/nn/norm.h"
#include "neurim/nn/pad.h"
#include "neurim/nn/pool.h"
#include "neurim/nn/prelu.h"
#include "neurim/nn/resample.h"
#include "neurim/nn/residual.h"
#include "neurim/nn/transformer.h"
#include "neurim/nn/vit_block.h"
#include "neurim/ops/add.h"
#include "neurim/ops/conv_transpose.h"
#include "neurim/ops/dropout.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/scaled_dot_product_attention.h"
#include "neurim/ops/slice.h"
#include "tests/errors.h"

namespace neurim {
namespace {

std::vector<std::string> names(ModuleRef module) {
  std::vector<std::string> all;
  for (const Parameter& p : named_parameters(module)) all.push_back(p.name);
  return all;
}

Parameter find(ModuleRef module, std::string_view name) {
  for (const Parameter& p : named_parameters(module))
    if (p.name == name) return p;
  ADD_FAILURE() << "no parameter " << name;
  return {};
}

Shape forward_shape(const Model& model, std::int64_t side) {
  Trace trace({});
  return model(trace.input({DType::f32, {2, model.in_chans, side, side}})).shape();
}

struct Moments {
  double mean, std, low, high;
};
Moments moments(const Tensor& tensor) {
  const std::vector<double> v = tensor.values<double>();
  const double n = static_cast<double>(v.size()), mean = std::accumulate(v.begin(), v.end(), 0.0) / n;
  double squares = 0;
  for (const double x : v) squares += (x - mean) * (x - mean);
  return {mean, std::sqrt(squares / n), *std::min_element(v.begin(), v.end()), *std::max_element(v.begin(), v.end())};
}

/// A module with a tied weight, a list, a bare tensor and a layer without parameters.
struct Net {
  nn::Linear first{3, 3, {.bias = false}};
  std::vector<nn::Linear> list{{3, 2}, {2, 1}};
  Tensor scale = Tensor::full({DType::f32, {1}}, 2), tied = first.weight;
  nn::ReLU act;

  void parts(Parts& p) { p("first", first)("list", list)("scale", scale, Role::state)("tied", tied); }
};

TEST(Module, NamesOrderAndRoles) {
  Net net;
  EXPECT_EQ(names(net), (std::vector<std::string>{"first.weight", "list.0.weight", "list.0.bias", "list.1.weight",
                                                  "list.1.bias", "scale", "tied"}));
  EXPECT_EQ(find(net, "scale").role, Role::state);
  EXPECT_EQ(find(net, "tied").role, Role::weight);
  EXPECT_EQ(net.list[1].bias.name(), "list.1.bias");
  EXPECT_EQ(net.tied.name(), "first.weight");  // the first visit names it
  EXPECT_EQ(parameter_count(net), 9 + 6 + 2 + 2 + 1);
}

TEST(Module, EqualNamesAreAnError) {
  struct Twice {
    nn::Linear a{1, 1}, b{1, 1};
    void parts(Parts& p) { p("fc", a)("fc", b); }
  } twice;
  EXPECT_NE(message_of([&] { named_parameters(twice); }).find("fc.weight"), std::string::npos);
}

TEST(Module, CopySharesAndCloneDoesNot) {
  Net net;
  named_parameters(net);
  Net copy = net, own = clone(net);
  const float zeros[9] = {};
  const std::vector<float> before = net.first.weight.values<float>();
  net.first.weight.write(zeros);
  EXPECT_EQ(copy.first.weight.values<float>(), std::vector<float>(9, 0));
  EXPECT_EQ(own.first.weight.values<float>(), before);
  EXPECT_EQ(own.first.weight.name(), "first.weight");
  EXPECT_EQ(own.tied.value(), own.first.weight.value());  // still tied
  EXPECT_EQ(net.list[0].weight.value(), copy.list[0].weight.value());
  EXPECT_NE(net.list[0].weight.value(), own.list[0].weight.value());
}

TEST(Module, ErasedModulesAreValues) {
  nn::Sequential net{nn::Linear(4, 4), nn::ReLU(), [](const Tensor& x) { return x; },
                     nn::Sequential(nn::Linear(4, 2), nn::Dropout(0.5))};
  EXPECT_EQ(names(net), (std::vector<std::string>{"0.weight", "0.bias", "3.0.weight", "3.0.bias"}));
  nn::Sequential copy = net, own = clone(net);
  const Tensor x = Tensor::full({DType::f32, {2, 4}}, 1);
  EXPECT_EQ(net(x).shape(), (Shape{2, 2}));
  EXPECT_EQ(own(x).values<float>(), net(x).values<float>());
  const float zeros[8] = {};
  find(net, "3.0.weight").tensor.write(zeros);
  find(net, "3.0.bias").tensor.write(zeros);
  EXPECT_EQ(copy(x).values<float>(), std::vector<float>(4, 0));
  EXPECT_NE(own(x).values<float>(), copy(x).values<float>());
}

TEST(Module, OneLayerAloneIsASequential) {
  const nn::Linear linear(4, 2);
  nn::Sequential one(linear), braced{nn::Linear(4, 2)};
  const nn::Sequential function([](const Tensor& x) { return x; });
  EXPECT_EQ(names(one), (std::vector<std::string>{"0.weight", "0.bias"}));
  EXPECT_EQ(names(braced), names(one));
  const Tensor x = Tensor::full({DType::f32, {2, 4}}, 1);
  EXPECT_EQ(one(x).values<float>(), linear(x).values<float>());
  EXPECT_EQ(function(x).values<float>(), x.values<float>());
  // Another Sequential is copied or moved, never wrapped.
  nn::Sequential copy(one), moved(nn::Sequential(nn::Linear(4, 2)));
  EXPECT_EQ(copy.size(), 1u);
  EXPECT_EQ(names(copy), names(one));
  EXPECT_EQ(names(moved), names(one));
  EXPECT_FALSE((std::convertible_to<nn::Linear, nn::Sequential>));
}

TEST(Layers, RejectWhatCannotBe) {
  EXPECT_NE(message_of([] { nn::Conv2d(6, 8, {.groups = 4}); }).find("4 groups"), std::string::npos);
  EXPECT_NE(message_of([] { nn::ConvTranspose1d(6, 8, {.groups = 4}); }).find("4 groups"), std::string::npos);
  EXPECT_EQ(message_of([] { nn::Conv3d(6, 8, {.stride = {1, 2, 2}, .pad = "same"}); }),
            "Conv3d: padding \"same\" takes stride 1, not (1,2,2); give the padding as numbers");
  EXPECT_EQ(message_of([] { nn::Conv2d(6, 8, {.pad = "full"}); }),
            "padding is \"full\"; it is \"same\", \"valid\" or the size at both ends of each axis");
  EXPECT_NE(message_of([] { nn::Linear(0, 8); }).find("Linear"), std::string::npos);
}

TEST(Layers, ErrorsNameTheLayer) {
  const Model model = create_model("lenet5");
  const std::string error = message_of([&] { model(Tensor::full({DType::f32, {1, 3, 28, 28}}, 0)); });
  EXPECT_NE(error.find("c1"), std::string::npos) << error;
  struct Decoder {
    nn::ConvTranspose2d up{8, 4};
    void parts(Parts& p) { p("up", up); }
  } decoder;
  named_parameters(decoder);
  EXPECT_EQ(message_of([&] { decoder.up(Tensor::full({DType::f32, {1, 4, 5, 5}}, 0)); }),
            "up: conv_transpose2d: input (1,4,5,5) has 4 channels, weight (8,4,3,3) expects 8");
}

TEST(Layers, ErrorsSayWhereTheyAre) {
  const nn::Sequential net(nn::Conv2d(3, 8, {.kernel = 3}), nn::ReLU(), nn::Flatten(), nn::Linear(10, 2));
  const nn::Sequential nested(nn::ReLU(), net);
  const Tensor x = Tensor::full({DType::f32, {2, 3, 8, 8}}, 0);
  const std::string fault = "linear: input (2,288) has 288 features, weight (2,10) expects 10";
  EXPECT_EQ(message_of([&] { net(x); }), "3: " + fault);
  EXPECT_EQ(message_of([&] { nested(x); }), "1.3: " + fault);
  EXPECT_EQ(message_of([&] { plan([&](const Tensors& in) { return Tensors{nested(in[0])}; }, {x.type()}); }),
            "1.3: " + fault);
  EXPECT_EQ(message_of([&] { nn::Sequential(nn::ReLU(), nn::MaxPool2d(9))(x); }).substr(0, 4), "1: m");
  nn::Network network;
  network.add("flat", nn::Flatten(), 0).add("head", nn::Linear(10, 2), 1);
  EXPECT_EQ(message_of([&] { network(x); }), "head: linear: input (2,192) has 192 features, weight (2,10) expects 10");
  const nn::TransformerEncoder encoder(8, 2, 2, {.dim_feedforward = 8});
  EXPECT_EQ(message_of([&] { encoder(Tensor::full({DType::f32, {2, 3, 6}}, 0)); }).substr(0, 10), "layers.0: ");

  // Tensors that have names know more, and the path is there once.
  struct Net {
    nn::Sequential features;
    void parts(Parts& p) { p("features", features); }
  } named{nested};
  named_parameters(named);
  EXPECT_EQ(message_of([&] { named.features(x); }), "features.1.3: " + fault);
}

TEST(Layers, BatchNormOfOneValueSaysWhere) {
  const nn::Sequential net(nn::ReLU(), nn::BatchNorm2d(3));
  const auto fault = [&] {
    Trace trace({.training = true});
    return message_of([&] { net(trace.input({DType::f32, {1, 3, 1, 1}})); });
  };
  const std::string words = "batch_norm: input (1,3,1,1) has one value per channel";
  EXPECT_EQ(fault().substr(0, words.size() + 3), "1: " + words);
  struct Net {
    nn::Sequential body;
    void parts(Parts& p) { p("body", body); }
  };
  named_parameters(Net{net});
  EXPECT_EQ(fault().substr(0, words.size() + 8), "body.1: " + words);
}

TEST(Layers, OneThatNoPartsNameIsRefusedInTraining) {
  struct Forgetful {
    nn::Linear a{2, 2}, b{2, 3, {.bias = false}}, frozen{2, 2};
    Tensor table = Tensor::full({DType::f32, {2}}, 1);
    bool whole = false;
    void parts(Parts& p) {
      p("a", a)("weight", frozen.weight, Role::state)("bias", frozen.bias, Role::state);
      if (whole) p("b", b);
    }
    Tensor operator()(const Tensor& x) const { return b(frozen(a(x)) + table); }
  } net;
  const auto fault = [&](bool training) {
    const Model model{"forgetful", 1, 2, 3, {0}, {1}, net};
    Trace trace({.training = training});
    return message_of([&] { model(trace.input({DType::f32, {1, 2}})); });
  };
  EXPECT_EQ(fault(true),
            "forgetful: the network reads a parameter f32(3,2) that no parts() names, so that it would be neither "
            "trained nor saved; list its layer there");
  EXPECT_EQ(fault(false), "nothing was thrown");
  net.whole = true;
  EXPECT_EQ(fault(true), "nothing was thrown");
}

TEST(Layers, ShapesOfEach) {
  Trace trace({});
  const Tensor x = trace.input({DType::f32, {2, 4, 9, 9}});
  EXPECT_EQ(nn::Conv2d(4, 6, {.kernel = {3, 5}, .stride = {2, 1}, .pad = {1, 2}})(x).shape(), (Shape{2, 6, 5, 9}));
  EXPECT_EQ(nn::Conv2d(4, 8, {.kernel = 3, .dilation = 2, .groups = 2})(x).shape(), (Shape{2, 8, 5, 5}));
  EXPECT_EQ(nn::Conv2d(4, 8, {.kernel = {3, 4}, .pad = "same", .dilation = 2})(x).shape(), (Shape{2, 8, 9, 9}));
  EXPECT_EQ(nn::Conv2d(4, 8, {.pad = "valid"})(x).shape(), (Shape{2, 8, 7, 7}));
  EXPECT_EQ(nn::ConvTranspose2d(4, 6, {.stride = 2, .pad = 1, .output_padding = 1, .groups = 2})(x).shape(),
            (Shape{2, 6, 18, 18}));
  const Tensor series = trace.input({DType::f32, {2, 4, 9}}), volume = trace.input({DType::f32, {2, 4, 5, 6, 7}});
  EXPECT_EQ(nn::Conv1d(4, 6, {.stride = 2, .pad = 1})(series).shape(), (Shape{2, 6, 5}));
  EXPECT_EQ(nn::Conv3d(4, 6, {.kernel = {1, 2, 3}, .pad = {0, 1, 1}})(volume).shape(), (Shape{2, 6, 5, 7, 7}));
  EXPECT_EQ(nn::ConvTranspose1d(4, 6, {.kernel = 4, .stride = 2, .pad = 1})(series).shape(), (Shape{2, 6, 18}));
  EXPECT_EQ(nn::ConvTranspose3d(4, 6, {.kernel = 2, .stride = 2})(volume).shape(), (Shape{2, 6, 10, 12, 14}));
  EXPECT_EQ(nn::BatchNorm2d(4)(x).shape(), x.shape());
  EXPECT_EQ(nn::MaxPool2d{}(x).shape(), (Shape{2, 4, 4, 4}));
  EXPECT_EQ((nn::MaxPool2d{.kernel = 3, .stride = 2, .pad = 1}(x).shape()), (Shape{2, 4, 5, 5}));
  EXPECT_EQ((nn::AvgPool2d{.kernel = 3, .stride = 1, .pad = 1}(x).shape()), x.shape());
  EXPECT_EQ((nn::LpPool2d{.norm_type = 1, .kernel = {3, 2}}(x).shape()), (Shape{2, 4, 3, 4}));
  EXPECT_EQ(nn::AdaptiveAvgPool2d{}(x).shape(), (Shape{2, 4, 1, 1}));
  EXPECT_EQ((nn::AdaptiveMaxPool2d{{4, 0}}(x).shape()), (Shape{2, 4, 4, 9}));
  EXPECT_EQ(nn::GlobalAvgPool2d{}(x).shape(), (Shape{2, 4, 1, 1}));
  EXPECT_EQ(nn::GlobalMaxPool2d{}(x).shape(), (Shape{2, 4, 1, 1}));
  EXPECT_EQ((nn::MaxPool1d{.kernel = 3, .stride = 2}(series).shape()), (Shape{2, 4, 4}));
  EXPECT_EQ((nn::AvgPool3d{.kernel = {1, 2, 2}, .pad = {0, 1, 0}}(volume).shape()), (Shape{2, 4, 5, 4, 3}));
  EXPECT_EQ(nn::Flatten{}(x).shape(), (Shape{2, 324}));
  EXPECT_EQ((nn::Flatten{1, 2}(x).shape()), (Shape{2, 36, 9}));
  EXPECT_EQ((nn::Unflatten{1, {2, -1}}(x).shape()), (Shape{2, 2, 2, 9, 9}));
  EXPECT_EQ((nn::Upsample{.scale_factor = {2}, .mode = "bilinear"}(x).shape()), (Shape{2, 4, 18, 18}));
  EXPECT_EQ((nn::Upsample{.size = {5, 7}}(x).shape()), (Shape{2, 4, 5, 7}));
  EXPECT_EQ(nn::PixelShuffle{}(x).shape(), (Shape{2, 1, 18, 18}));
  EXPECT_EQ(nn::PixelUnshuffle{3}(x).shape(), (Shape{2, 36, 3, 3}));
  EXPECT_EQ(nn::ChannelShuffle{}(x).shape(), x.shape());
  EXPECT_EQ((nn::ReflectionPad2d{{1, 2, 3, 4}}(x).shape()), (Shape{2, 4, 16, 12}));
  EXPECT_EQ((nn::ConstantPad2d{-1, 2}(x).shape()), (Shape{2, 4, 7, 7}));
  EXPECT_EQ(nn::GLU{1}(x).shape(), (Shape{2, 2, 9, 9}));
  EXPECT_EQ(nn::Bilinear(9, 9, 3)(x, x).shape(), (Shape{2, 4, 9, 3}));
  EXPECT_EQ(nn::BasicBlock(4, 8, 2)(x).shape(), (Shape{2, 8, 5, 5}));
  EXPECT_EQ(nn::Bottleneck(4, 2, 2)(x).shape(), (Shape{2, 8, 5, 5}));
  EXPECT_EQ(nn::Attention(9, {.num_heads = 3})(series).shape(), series.shape());
  EXPECT_EQ(nn::ViTBlock(9, 3)(series).shape(), series.shape());
}

TEST(Layers, PadsStandWherePyTorchPutsThem) {
  const Tensor x = Tensor::from({1, 1, 3}, std::vector<float>{1, 2, 3});
  using Values = std::vector<float>;
  EXPECT_EQ((nn::ReflectionPad1d{{2, 1}}(x).values<float>()), (Values{3, 2, 1, 2, 3, 2}));
  EXPECT_EQ((nn::ReplicationPad1d{{2, 1}}(x).values<float>()), (Values{1, 1, 1, 2, 3, 3}));
  EXPECT_EQ((nn::CircularPad1d{{2, 1}}(x).values<float>()), (Values{2, 3, 1, 2, 3, 1}));
  EXPECT_EQ((nn::ConstantPad1d{{2, -1}, 7}(x).values<float>()), (Values{7, 7, 1, 2}));
  const Tensor image = Tensor::from({1, 1, 2, 2}, Values{1, 2, 3, 4});
  EXPECT_EQ((nn::ReplicationPad2d{{1, 0, 0, 1}}(image).values<float>()), (Values{1, 1, 2, 3, 3, 4, 3, 3, 4}));
  EXPECT_EQ((nn::CircularPad2d{{1, 0, 0, 1}}(image).values<float>()), (Values{2, 1, 2, 4, 3, 4, 2, 1, 2}));
  EXPECT_NE(message_of([&] { nn::ReflectionPad2d{}(x); }).find("(1,1,3)"), std::string::npos);
}

TEST(Layers, NormsHaveTheParametersOfPyTorchs) {
  nn::LayerNorm layer({4, 9}), plain({9}, {.elementwise_affine = false}), scaled({9}, {.bias = false});
  nn::RMSNorm rms({9});
  nn::GroupNorm group(2, 4);
  nn::InstanceNorm2d instance(4, {.affine = true, .track_running_stats = true}), bare(4);
  nn::BatchNorm1d batch(4);
  const std::vector<std::string> both{"weight", "bias"}, all{"weight", "bias", "running_mean", "running_var"};
  EXPECT_EQ(names(layer), both);
  EXPECT_EQ(names(plain), std::vector<std::string>{});
  EXPECT_EQ(names(scaled), std::vector<std::string>{"weight"});
  EXPECT_EQ(names(rms), std::vector<std::string>{"weight"});
  EXPECT_EQ(names(group), both);
  EXPECT_EQ(names(instance), all);
  EXPECT_EQ(names(bare), std::vector<std::string>{});
  EXPECT_EQ(names(batch), all);
  EXPECT_EQ(find(instance, "running_var").role, Role::state);
  EXPECT_EQ(layer.weight.shape(), (Shape{4, 9}));

  const float values[] = {1, 3, 5, 9};
  const Tensor x = Tensor::from(Shape{1, 4, 1, 1}, values), flat = Tensor::from(Shape{1, 4}, values);
  const std::vector<double> grouped = group(x).values<double>(), rows = nn::LayerNorm({4})(flat).values<double>();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(grouped[i], i % 2 == 0 ? -1 : 1, 1e-5);
    EXPECT_NEAR(rows[i], (static_cast<double>(values[i]) - 4.5) / std::sqrt(8.75), 1e-5);
  }
  EXPECT_NEAR(nn::RMSNorm({4})(flat).values<double>()[0], 1 / std::sqrt(29), 1e-6);
  EXPECT_NEAR((nn::LocalResponseNorm{.size = 3, .alpha = 3, .beta = 1}(x).values<double>()[0]), 1.0 / 11, 1e-6);
  EXPECT_NE(message_of([&] { bare(flat); }).find("InstanceNorm2d: takes x(N,C,H,W)"), std::string::npos);
  EXPECT_NE(message_of([&] { batch(x); }).find("BatchNorm1d: takes"), std::string::npos);
  EXPECT_NE(message_of([] { nn::GroupNorm(3, 4); }).find("GroupNorm: 4 channels"), std::string::npos);
  EXPECT_EQ(nn::SyncBatchNorm(4)(x).values<double>(), nn::BatchNorm2d(4)(x).values<double>());
  nn::BatchNorm2d stateless(2, {.affine = false, .track_running_stats = false});
  EXPECT_TRUE(named_parameters(stateless).empty());
  const Tensor planes = Tensor::from(Shape{1, 2, 1, 2}, values);  // of one sample the two norms are the same
  EXPECT_EQ(stateless(planes).values<double>(), nn::InstanceNorm2d(2)(planes).values<double>());
}

TEST(Layers, EmbeddingKeepsItsPaddingRowZero) {
  nn::Embedding table(5, 3, {.padding_idx = -2});
  initialise(table, 4);
  const std::vector<float> weight = table.weight.values<float>();
  for (std::size_t i = 0; i < weight.size(); ++i) EXPECT_EQ(weight[i] == 0, i / 3 == 3) << i;
  const std::int64_t indices[] = {3, 0};
  const Tensor picked = table(Tensor::from(Shape{2, 1}, indices));
  EXPECT_EQ(picked.shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(picked.values<float>()[3], weight[0]);
}

TEST(Layers, PaddingSameIsPyTorchs) {
  const nn::Padding<2> same = "same";
  EXPECT_EQ(same.ends({3, 4}, {2, 3}), (std::array<std::int64_t, 4>{2, 4, 2, 5}));
  EXPECT_EQ(nn::Padding<2>("valid").ends({3, 4}, 1), (std::array<std::int64_t, 4>{}));
}

TEST(Layers, ConvolutionsPadAsPyTorchDoes) {
  const Tensor x = Tensor::from({1, 1, 3}, std::vector<float>{1, 2, 3});
  const auto padded = [&](const char* mode) {
    nn::Conv1d layer(1, 1, {.pad = "same", .padding_mode = mode, .bias = false});
    layer.weight = Tensor::full(layer.weight.type(), 1);
    return layer(x).values<double>();
  };
  EXPECT_EQ(padded("zeros"), (std::vector<double>{3, 6, 5}));
  EXPECT_EQ(padded("reflect"), (std::vector<double>{5, 6, 7}));
  EXPECT_EQ(padded("replicate"), (std::vector<double>{4, 6, 8}));
  EXPECT_EQ(padded("circular"), (std::vector<double>{6, 6, 6}));
  EXPECT_EQ(message_of([&] { padded("edge"); }),
            "Conv1d: padding_mode is \"edge\"; it is \"zeros\", \"reflect\", \"replicate\" or \"circular\"");
}

TEST(Layers, TransposedWeightsAreOfPyTorchsShapeAndBound) {
  nn::ConvTranspose2d layer(64, 8, {.kernel = 2, .groups = 4});
  EXPECT_EQ(layer.weight.shape(), (Shape{64, 2, 2, 2}));
  const Moments weight = moments(layer.weight);
  EXPECT_NEAR(weight.high, 1 / std::sqrt(8.0), 0.01);
  EXPECT_NEAR(weight.low, -1 / std::sqrt(8.0), 0.01);
}

TEST(Layers, ActivationsCallTheirOps) {
  const Tensor x = Tensor::from({2}, std::vector<float>{-1, 8});
  auto at = [&](const nn::Layer& layer) { return layer(x).values<double>(); };
  auto expect = [&](const nn::Layer& layer, double negative, double positive) {
    EXPECT_NEAR(at(layer)[0], negative, 1e-6);
    EXPECT_NEAR(at(layer)[1], positive, 1e-6);
  };
  expect(nn::ReLU{}, 0, 8);
  expect(nn::ReLU6{}, 0, 6);
  expect(nn::LeakyReLU{0.5}, -0.5, 8);
  expect(nn::ELU{2}, 2 * std::expm1(-1), 8);
  expect(nn::GELU{}, -0.5 * std::erfc(std::sqrt(0.5)), 8);
  expect(nn::SiLU{}, -1 / (1 + std::exp(1)), 8 / (1 + std::exp(-8)));
  expect(nn::Sigmoid{}, 1 / (1 + std::exp(1)), 1 / (1 + std::exp(-8)));
  expect(nn::Tanh{}, std::tanh(-1), std::tanh(8));
  expect(nn::Softplus{}, std::log1p(std::exp(-1)), 8 + std::log1p(std::exp(-8)));
  expect(nn::Softplus{2, 10}, std::log1p(std::exp(-2)) / 2, 8);
  expect(nn::Hardswish{}, -1.0 / 3, 8);
  expect(nn::Hardsigmoid{}, 1.0 / 3, 1);
  expect(nn::SELU{}, 1.0507009873554805 * 1.6732632423543772 * std::expm1(-1), 8 * 1.0507009873554805);
  expect(nn::CELU{2}, 2 * std::expm1(-0.5), 8);
  expect(nn::Mish{}, -std::tanh(std::log1p(std::exp(-1))), 8 * std::tanh(std::log1p(std::exp(8))));
  expect(nn::LogSigmoid{}, -1 - std::log1p(std::exp(-1)), -std::log1p(std::exp(-8)));
  expect(nn::Softsign{}, -0.5, 8.0 / 9);
  expect(nn::Hardtanh{-0.5, 3}, -0.5, 3);
  expect(nn::Hardshrink{1}, 0, 8);
  expect(nn::Softshrink{0.25}, -0.75, 7.75);
  expect(nn::Tanhshrink{}, -1 - std::tanh(-1), 8 - std::tanh(8));
  expect(nn::Threshold{0, 5}, 5, 8);
  expect(nn::PReLU(1), -0.25, 8);
  expect(nn::PReLU(2, 0.5), -0.5, 8);
  expect(nn::Softmax{}, 1 / (1 + std::exp(9)), 1 / (1 + std::exp(-9)));
  expect(nn::LogSoftmax{}, -9 - std::log1p(std::exp(-9)), -std::log1p(std::exp(-9)));
}

TEST(Init, Distributions) {
  const Shape shape{64, 32, 3, 3};  // fans: 288 in, 576 out
  auto drawn = [&](const nn::Init& init) {
    const Tensor tensor = Tensor::empty({DType::f32, shape});
    nn::fill(tensor, init, 1, "w");
    return moments(tensor);
  };
  auto near = [](const Moments& m, double std, double bound) {
    EXPECT_NEAR(m.mean, 0, 0.02 * std);
    EXPECT_NEAR(m.std, std, 0.02 * std);
    EXPECT_LE(std::max(-m.low, m.high), bound);
    EXPECT_GT(std::min(-m.low, m.high), 0.9 * std::min(bound, 3 * std));
  };
  constexpr double kNone = 1e9;
  near(drawn(nn::fan_in_uniform(shape)), 1 / std::sqrt(3 * 288.0), 1 / std::sqrt(288.0));
  near(drawn(nn::kaiming_uniform(shape, std::sqrt(5.0))), 1 / std::sqrt(3 * 288.0), 1.0001 / std::sqrt(288.0));
  near(drawn(nn::kaiming_uniform(shape)), std::sqrt(2 / 288.0), std::sqrt(6 / 288.0));
  near(drawn(nn::kaiming_normal(shape)), std::sqrt(2 / 288.0), kNone);
  near(drawn(nn::fan_out_normal(shape)), std::sqrt(2 / 576.0), kNone);
  near(drawn(nn::xavier_uniform(shape)), std::sqrt(2 / 864.0), std::sqrt(6 / 864.0));
  near(drawn(nn::xavier_normal(shape, 2)), 2 * std::sqrt(2 / 864.0), kNone);
  near(drawn(nn::normal(0, 3)), 3, kNone);
  near(drawn(nn::trunc_normal(0, 1, -1, 1)), 0.53956, 1);
  EXPECT_EQ(drawn(nn::constant(4)).std, 0);
  EXPECT_EQ(drawn(nn::constant(4)).mean, 4);
  EXPECT_NE(message_of([] { nn::trunc_normal(0, 1, 9, 10); }).find("widen"), std::string::npos);
  EXPECT_NE(message_of([] { nn::kaiming_normal({5}); }).find("fan"), std::string::npos);
}

TEST(Init, IsAFunctionOfSeedAndName) {
  auto weights = [](const Model& model, const char* name) {
    Model copy = model;
    return find(copy, name).tensor.values<float>();
  };
  const Model a = create_model("lenet5", {.seed = 7});
  EXPECT_EQ(weights(a, "f1.weight"), weights(create_model("lenet5", {.seed = 7}), "f1.weight"));
  EXPECT_NE(weights(a, "f1.weight"), weights(create_model("lenet5", {.seed = 8}), "f1.weight"));
  EXPECT_EQ(weights(a, "f1.weight"), weights(create_model("lenet5", {.num_classes = 3, .seed = 7}), "f1.weight"));
  std::vector<float> c2 = weights(a, "c2.weight");
  c2.resize(weights(a, "c1.weight").size());
  EXPECT_NE(weights(a, "c1.weight"), c2);
  nn::Linear first(8, 8), second(8, 8);  // ready to use, and not alike
  EXPECT_NE(first.weight.values<float>(), second.weight.values<float>());
}

TEST(Init, TheBiasHasARuleOfItsOwn) {
  const nn::Linear linear(64, 32, {.bias_init = nn::zeros});
  const nn::Conv2d conv(4, 32, {.bias_init = [](const Shape& weight) { return nn::constant(weight.numel()); }});
  EXPECT_EQ(linear.bias.values<float>(), std::vector<float>(32, 0));
  EXPECT_GT(moments(linear.weight).std, 0);
  EXPECT_EQ(conv.bias.values<float>(), std::vector<float>(32, 32 * 4 * 9));
  EXPECT_GT(moments(nn::Linear(64, 32).bias).std, 0);
}

TEST(Init, TorchvisionDefaultsOfResNets) {
  Model model = create_model("resnet18");
  const Moments conv = moments(find(model, "layer1.0.conv1.weight").tensor),
                fc = moments(find(model, "fc.weight").tensor);
  EXPECT_NEAR(conv.std, std::sqrt(2 / (64 * 9.0)), 0.002);
  EXPECT_LE(fc.high, 1 / std::sqrt(512.0));
  EXPECT_EQ(moments(find(model, "bn1.weight").tensor).mean, 1);
  EXPECT_EQ(moments(find(model, "bn1.running_var").tensor).mean, 1);
  EXPECT_EQ(moments(find(model, "bn1.bias").tensor).high, 0);
}

TEST(Zoo, CountsNamesAndShapes) {
  struct Row {
    const char* name;
    std::int64_t values;
    std::size_t tensors;
    std::int64_t side, classes;
  };
  for (const Row& row :
       {Row{"lenet5", 61706, 10, 28, 10}, Row{"resnet20", 269722, 97, 32, 10},
        Row{"resnet18", 11689512, 102, 224, 1000}, Row{"resnet50", 25557032, 267, 224, 1000},
        Row{"vit_tiny_patch16_224", 5717416, 152, 224, 1000}, Row{"vit_b_32", 88224232, 152, 224, 1000}}) {
    Model model = create_model(row.name, {.seed = std::nullopt});
    EXPECT_EQ(parameter_count(model), row.values) << row.name;
    EXPECT_EQ(named_parameters(model).size(), row.tensors) << row.name;
    EXPECT_EQ(model.image_size, row.side) << row.name;
    EXPECT_EQ(static_cast<std::int64_t>(model.mean.size()), model.in_chans) << row.name;
    EXPECT_EQ(forward_shape(model, row.side), (Shape{2, row.classes})) << row.name;
  }
}

TEST(Zoo, EveryNameIsAModelForItsImages) {
  const std::vector<std::string> all = model_names();
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  for (const std::string& name : all) {
    SCOPED_TRACE(name);
    const Model model = create_model(name, {.num_classes = 7, .in_chans = 2, .seed = std::nullopt});
    EXPECT_EQ(model.mean.size(), 2u);
    EXPECT_EQ(forward_shape(model, model.image_size), (Shape{2, 7}));
  }
}

TEST(Zoo, Dropout) {
  const auto dropouts = [](const std::string& name, std::optional<double> dropout) {
    const Model model = create_model(name, {.dropout = dropout, .seed = std::nullopt});
    Trace trace({.training = true, .random = Tensor::from({2}, std::vector<std::int64_t>{1, 0})});
    const Graph graph = trace.finish({model(trace.input({DType::f32, {2, 3, model.image_size, model.image_size}}))});
    return std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Graph::Node& node) {
      double p = 0;
      if (const auto* op = dynamic_cast<const Dropout*>(node.op.get())) p = op->p;
      return p == 0.5;
    });
  };
  EXPECT_EQ(dropouts("alexnet", std::nullopt), 2);
  EXPECT_EQ(dropouts("alexnet", 0), 0);
  EXPECT_EQ(dropouts("mobilenet_v2", std::nullopt), 0);  // its rate is another
  EXPECT_EQ(dropouts("mobilenet_v2", 0.5), 1);
  EXPECT_EQ(dropouts("resnet18", 0), 0);
  EXPECT_NE(message_of([] { create_model("resnet18", {.dropout = 0.5}); }).find("resnet18 has no dropout"),
            std::string::npos);
  EXPECT_NE(message_of([] { create_model("alexnet", {.dropout = 50}); }).find("from 0 to 1"), std::string::npos);
}

/// The rates of the factors that leave out whole samples, in a trace of the model for training.
std::vector<double> drop_path_rates(const std::string& name, std::optional<double> drop_path) {
  const Model model = create_model(name, {.drop_path = drop_path, .seed = std::nullopt});
  Trace trace({.training = true, .random = Tensor::from({2}, std::vector<std::int64_t>{1, 0})});
  const Graph graph = trace.finish({model(trace.input({DType::f32, {2, 3, model.image_size, model.image_size}}))});
  std::vector<double> rates;
  for (const Graph::Node& node : graph.nodes)
    if (const auto* op = dynamic_cast<const Dropout*>(node.op.get());
        op && graph.values[node.out[0]].type.shape == Shape{2, 1, 1, 1})
      rates.push_back(op->p);
  return rates;
}

TEST(Zoo, StochasticDepthGrowsFromBlockToBlock) {
  std::vector<double> expected;  // the blocks of EfficientNet-B0 that keep the shape
  for (const int block : {2, 4, 6, 7, 9, 10, 12, 13, 14}) expected.push_back(0.2 * block / 16);
  EXPECT_EQ(drop_path_rates("efficientnet_b0", std::nullopt), expected);
  EXPECT_EQ(drop_path_rates("efficientnet_b0", 0.5).back(), 0.5 * 14 / 16);
  EXPECT_TRUE(drop_path_rates("efficientnet_b0", 0).empty());
  EXPECT_FALSE(drop_path_rates("efficientnet_v2_s", std::nullopt).empty());
  EXPECT_EQ(drop_path_rates("convnext_tiny", std::nullopt).size(), 17u);  // the first block's rate is 0
  EXPECT_EQ(drop_path_rates("convnext_tiny", std::nullopt).back(), 0.1);
  EXPECT_EQ(message_of([] { create_model("resnet18", {.drop_path = 0.5}); }),
            "model: resnet18 has no drop_path; leave drop_path=0.5 out");
}

TEST(Zoo, UNetIsThatOfThePaper) {
  const auto undrawn = [] {
    const nn::Undrawn block;
    return UNet(1, 2);
  };
  Trace trace({});
  UNet net = undrawn(), padded(3, 5, {.channels = 8, .depth = 3, .pad = true});
  EXPECT_EQ(net(trace.input({DType::f32, {1, 1, 572, 572}})).shape(), (Shape{1, 2, 388, 388}));
  EXPECT_EQ(padded(trace.input({DType::f32, {2, 3, 40, 64}})).shape(), (Shape{2, 5, 40, 64}));
  EXPECT_EQ(find(net, "down.4.2.weight").tensor.shape(), (Shape{1024, 1024, 3, 3}));
  EXPECT_EQ(find(net, "rise.0.weight").tensor.shape(), (Shape{1024, 512, 2, 2}));
  EXPECT_EQ(find(net, "up.3.0.weight").tensor.shape(), (Shape{64, 128, 3, 3}));
  EXPECT_NEAR(moments(find(padded, "rise.0.weight").tensor).std, std::sqrt(2.0 / 64), 5e-3);
  EXPECT_NEAR(moments(find(padded, "up.0.0.weight").tensor).std, std::sqrt(2.0 / (64 * 9)), 2e-3);
  EXPECT_EQ(message_of([&] { net(trace.input({DType::f32, {1, 1, 512, 572}})); }),
            "UNet: an image of 512x572 cannot be halved 4 times; 524x572 can");
  EXPECT_EQ(message_of([&] { padded(trace.input({DType::f32, {1, 3, 40, 65}})); }),
            "UNet: an image of 40x65 cannot be halved 3 times; 40x72 can");
}

/// A grouped convolution, a norm, a transposed convolution, products with either side transposed, and a
/// weight that is used twice.
struct Costly {
  nn::Conv2d conv{4, 6, {.kernel = {3, 5}, .stride = 2, .groups = 2}};
  nn::BatchNorm2d bn{6};
  Tensor up = Tensor::full({DType::f32, {6, 3, 2, 2}}, 1);
  nn::Linear fc{48, 48, {.bias = false}};

  void parts(Parts& p) { p("conv", conv)("bn", bn)("up", up)("fc", fc); }
  Tensor operator()(const Tensor& x) const {
    const Tensor features = bn(conv(x));                                          // (1,6,2,2)
    const Tensor image = conv_transpose2d(features, up, {}, {.stride = {2, 2}});  // (1,3,4,4)
    const Tensor rows = fc(fc(flatten(image)));                                   // (1,48)
    return matmul(rows, matmul(rows, rows, true));                                // (48,48) first
  }
};

TEST(Cost, CountsWhatAnImageTakes) {
  const Model model{"costly", 7, 4, 48, {0}, {1}, Costly()};
  const std::vector<LayerCost> layers = layer_costs(model, {4, 6, 7});
  std::vector<std::string> rows;
  for (const LayerCost& layer : layers)
    rows.push_back(text(layer.where, ' ', layer.op, ' ', layer.out, ' ', layer.parameters, ' ', layer.multiply_adds));
  EXPECT_EQ(rows, (std::vector<std::string>{"conv conv2d (1,6,2,2) 186 720", "bn batch_norm (1,6,2,2) 12 0",
                                            "up conv_transpose2d (1,3,4,4) 72 288", " reshape (1,48) 0 0",
                                            "fc linear (1,48) 2304 2304", "fc linear (1,48) 0 2304",
                                            " matmul (48,48) 0 2304", " matmul (1,48) 0 2304"}));
  const ModelCost cost = total(layers);
  EXPECT_EQ(cost.multiply_adds, 720 + 288 + 4 * 2304);
  EXPECT_EQ(cost.activations, 24 + 48 + 48 + 48 + 2304 + 48);
  EXPECT_NE(message_of([&] { layer_costs(model, {6, 7}); }).find("(C,H,W)"), std::string::npos);
}

TEST(Cost, AttentionCountsBothProducts) {
  const Model model{"attention", 4, 3, 6, {0}, {1}, [](const Tensor& x) {  // of 6 positions to 4 others
                      const Tensor rows = reshape(x, {1, 2, 6, 4}), few = slice(rows, {0}, {4}, {2});
                      return scaled_dot_product_attention(rows, few, slice(few, {0}, {3}, {3}));
                    }};
  EXPECT_EQ(total(layer_costs(model, {3, 4, 4})).multiply_adds, 2 * 6 * 4 * (4 + 3));
}

TEST(Zoo, TorchvisionNames) {
  Model eighteen = create_model("resnet18", {.seed = std::nullopt}),
        fifty = create_model("resnet50", {.seed = std::nullopt});
  EXPECT_EQ(find(eighteen, "layer2.0.downsample.0.weight").tensor.shape(), (Shape{128, 64, 1, 1}));
  EXPECT_EQ(find(eighteen, "layer4.1.bn2.running_var").tensor.shape(), (Shape{512}));
  EXPECT_EQ(find(fifty, "layer1.0.downsample.1.running_mean").tensor.shape(), (Shape{256}));
  EXPECT_EQ(find(fifty, "layer4.2.conv3.weight").tensor.shape(), (Shape{2048, 512, 1, 1}));
  EXPECT_EQ(find(fifty, "fc.weight").tensor.shape(), (Shape{1000, 2048}));
}

/// The tensors of a model as a file would hold them.
StateDict weights_of(Model model) {
  StateDict weights{.path = model.name};
  for (const Parameter& p : named_parameters(model))
    weights.entries[p.name] = {p.tensor.type(), [tensor = p.tensor](std::byte* host) { tensor.read(host); }};
  return weights;
}

TEST(Zoo, TimmsNamesAndShapes) {
  struct Row {
    const char *model, *tensor;
    Shape shape;
  };
  for (const Row& row : {Row{"efficientnet_b0", "conv_stem.weight", {32, 3, 3, 3}},
                         Row{"efficientnet_b0", "blocks.0.0.se.conv_reduce.bias", {8}},
                         Row{"efficientnet_b0", "blocks.1.1.conv_pwl.weight", {24, 144, 1, 1}},
                         Row{"efficientnet_b0", "bn2.running_var", {1280}},
                         Row{"efficientnetv2_s", "blocks.0.1.conv.weight", {24, 24, 3, 3}},
                         Row{"efficientnetv2_s", "blocks.1.0.conv_exp.weight", {96, 24, 3, 3}},
                         Row{"efficientnetv2_s", "blocks.1.0.bn2.bias", {48}},
                         Row{"mobilenetv1_100", "blocks.3.5.conv_pw.weight", {512, 512, 1, 1}},
                         Row{"mobilenetv2_100", "blocks.0.0.conv_pw.weight", {16, 32, 1, 1}},
                         Row{"mobilenetv2_100", "blocks.6.0.bn3.weight", {320}},
                         Row{"mobilenetv3_large_100", "blocks.6.0.conv.weight", {960, 160, 1, 1}},
                         Row{"mobilenetv3_large_100", "conv_head.weight", {1280, 960, 1, 1}},
                         Row{"mobilenetv3_small_100", "blocks.2.2.se.conv_expand.weight", {240, 64, 1, 1}},
                         Row{"mnasnet_100", "blocks.5.3.conv_dw.weight", {1152, 1, 5, 5}},
                         Row{"mnasnet_100", "conv_head.weight", {1280, 320, 1, 1}},
                         Row{"regnety_008_tv", "s3.b8.se.fc1.weight", {80, 320, 1, 1}},
                         Row{"regnety_008", "s2.b1.downsample.conv.weight", {128, 64, 1, 1}},
                         Row{"convnext_tiny", "stages.2.blocks.8.gamma", {384}},
                         Row{"convnext_tiny", "stages.1.downsample.1.weight", {192, 96, 2, 2}},
                         Row{"swin_tiny_patch4_window7_224", "layers.1.downsample.reduction.weight", {192, 384}},
                         Row{"swin_tiny_patch4_window7_224", "layers.3.blocks.1.mlp.fc2.weight", {768, 3072}},
                         Row{"vgg11_bn", "pre_logits.fc1.weight", {4096, 512, 7, 7}},
                         Row{"vgg11_bn", "head.fc.bias", {1000}},
                         Row{"densenet121", "features.denseblock1.denselayer6.conv2.weight", {32, 128, 3, 3}},
                         Row{"resnet18", "layer1.0.conv1.weight", {64, 64, 3, 3}},
                         Row{"seresnet50", "layer1.0.se.fc1.weight", {16, 256, 1, 1}}}) {
    Model model = create_model(text("timm/", row.model), {.seed = std::nullopt});
    EXPECT_EQ(find(model, row.tensor).tensor.shape(), row.shape) << row.model;
    EXPECT_EQ(find(model, row.tensor).tensor.name(), row.tensor);
  }
  EXPECT_NE(message_of([] { create_model("timm/efficientnet_b00"); }).find("did you mean 'timm/efficientnet_b0'"),
            std::string::npos);
}

/// Weights go from torchvision's names to timm's and back, and the nets give the same logits.
TEST(Zoo, SlowWeightsOfEitherLibraryFitBoth) {
  struct Row {
    const char *here, *timm;
    std::int64_t side;
  };
  for (const Row& row :
       {Row{"efficientnet_b0", "timm/efficientnet_b0", 32}, Row{"mobilenet_v2", "timm/mobilenetv2_100", 32},
        Row{"mnasnet0_5", "timm/mnasnet_050", 32}, Row{"regnet_y_400mf", "timm/regnety_004", 32},
        Row{"convnext_tiny", "timm/convnext_tiny", 32}, Row{"resnet18", "timm/resnet18", 32},
        Row{"swin_t", "timm/swin_tiny_patch4_window7_224", 28}}) {
    SCOPED_TRACE(row.here);
    const Model ours = create_model(row.here, {.num_classes = 10, .seed = 5}),
                theirs = create_model(row.timm, {.num_classes = 10, .seed = std::nullopt}),
                back = create_model(row.here, {.num_classes = 10, .seed = std::nullopt});
    const LoadReport there = load_model(theirs, weights_of(ours)), here = load_model(back, weights_of(theirs));
    EXPECT_EQ(there.taken, there.all);
    EXPECT_EQ(here.taken, here.all);
    EXPECT_EQ(here.notes.size(), ours.other_names.empty() ? 0u : 1u);
    const Tensor x = Tensor::full({DType::f32, {1, 3, row.side, row.side}}, 0.5);
    const std::vector<float> logits = ours(x).values<float>();
    EXPECT_EQ(theirs(x).values<float>(), logits);
    EXPECT_EQ(back(x).values<float>(), logits);
  }
}

TEST(Zoo, WeightsOfAnotherLibraryFitStrictly) {
  const Model ours = create_model("mobilenet_v3_small", {.num_classes = 10}),
              theirs = create_model("timm/mobilenetv3_small_100", {.num_classes = 7});
  const StateDict weights = weights_of(theirs);
  const std::string classes = message_of([&] { load_model(ours, weights); });
  EXPECT_NE(classes.find("classifier.weight: f32(7,1024) in the file, f32(10,1024) here"), std::string::npos)
      << classes;
  const LoadReport adapted = load_model(ours, weights, Fit::adapt);
  EXPECT_EQ(adapted.all - adapted.taken, 2);
  EXPECT_EQ(find(Model(ours), "classifier.0.weight").tensor.values<float>(),
            find(Model(theirs), "conv_head.weight").tensor.values<float>());

  StateDict other = weights;
  other.entries.erase("conv_stem.weight");
  other.entries["blocks.9.weight"] = other.entries.at("conv_head.weight");
  other.entries.at("conv_head.bias").type.shape = {1023};
  const std::string wrong = message_of([&] { load_model(ours, other, Fit::adapt); });
  EXPECT_NE(wrong.find("1 missing from the file (conv_stem.weight)"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("1 left over in the file (blocks.9.weight)"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("conv_head.bias: f32(1023) in the file, f32(1024) here"), std::string::npos) << wrong;

  StateDict flat = weights_of(create_model("mobilenet_v3_small", {.num_classes = 10}));
  flat.entries.at("features.0.0.weight").type.shape = {16, 27};  // as many, but under the model's own names
  EXPECT_NE(message_of([&] { load_model(ours, flat); }).find("features.0.0.weight: f32(16,27) in the file"),
            std::string::npos);
}

TEST(Zoo, TimmsNetworksOfTheSameTensors) {
  const auto of = [](const char* name) { return timm_models_of(create_model(name, {.num_classes = 3, .seed = {}})); };
  EXPECT_EQ(of("resnet18"), std::vector<std::string>{"timm/resnet18"});
  EXPECT_EQ(of("mobilenet_v2"), std::vector<std::string>{"timm/mobilenetv2_100"});
  EXPECT_EQ(of("timm/vgg11_bn"), std::vector<std::string>{"timm/vgg11_bn"});
  EXPECT_EQ(of("vit_tiny")[0], "vit_tiny_patch16_224");
  EXPECT_TRUE(of("lenet5").empty());
}

TEST(Zoo, ClassesChannelsAndMistakes) {
  Model model = create_model("resnet20", {.num_classes = 4, .in_chans = 1});
  EXPECT_EQ(find(model, "conv1.weight").tensor.shape(), (Shape{16, 1, 3, 3}));
  EXPECT_EQ(find(model, "linear.bias").tensor.shape(), (Shape{4}));
  EXPECT_NEAR(model.mean[0], (0.485 + 0.456 + 0.406) / 3, 1e-12);
  EXPECT_EQ(model.mean.size(), 1u);
  EXPECT_EQ(create_model("vit_tiny", {.seed = std::nullopt}).name, "vit_tiny_patch16_224");
  EXPECT_EQ(create_model("timm/deit_small", {.seed = std::nullopt}).name, "deit_small_patch16_224");
  EXPECT_EQ(message_of([] { forward_shape(create_model("vit_tiny_patch16_224", {.seed = std::nullopt}), 96); }),
            "vision transformer: takes images (N,C,224,224), to which its position embeddings are tied, got "
            "(2,3,96,96)");
  EXPECT_EQ(forward_shape(create_model("vit_tiny", {.num_classes = 5, .image_size = 64, .seed = std::nullopt}), 64),
            (Shape{2, 5}));
  EXPECT_EQ(create_model("resnet18", {.image_size = 64, .seed = std::nullopt}).image_size, 224);  // takes any size
  EXPECT_EQ(message_of([] { create_model("vit_b_32", {.image_size = 65}); }),
            "model: vit_b_32 cuts images into patches of 32x32 pixels, and 65 is no multiple of that; give imgsz=64");
  const std::string error = message_of([] { create_model("resnt18"); });
  EXPECT_NE(error.find("did you mean 'resnet18'"), std::string::npos) << error;
}

/// The published CIFAR-10 weights: same keys, and the logits of an independent forward pass in double
/// precision (NumPy) over x[i] = sin(i / 50), i counting the elements in order.
TEST(Zoo, ResNet20WithPublishedWeights) {
  const char* folder = environment("NEURIM_DATA");
  if (!folder) GTEST_SKIP() << "NEURIM_DATA is not set";
  const fs::path path = fs::path(folder) / "weights" / "resnet20-cifar10.safetensors";
  Model model = create_model("resnet20", {.seed = std::nullopt});
  const std::vector<std::string> file = SafeTensors(path).names(), ours = names(model);
  EXPECT_EQ(std::set<std::string>(ours.begin(), ours.end()), std::set<std::string>(file.begin(), file.end()));
  EXPECT_EQ(load_model(model, path).metadata.count("classes"), 1u);

  std::vector<float> pixels(2 * 3 * 32 * 32);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(std::sin(static_cast<double>(i) / 50));
  const std::vector<double> logits = model(Tensor::from({2, 3, 32, 32}, pixels)).values<double>();
  const std::vector<double> expected{9.810040,  2.000207,  -3.847172, -3.951657, 0.134333, -3.664511, -0.642703,
                                     -1.044062, -0.676455, 1.860586,  6.545961,  2.647519, -2.566709, -3.939685,
                                     -2.450497, -2.309647, 0.619882,  -1.677067, 0.358576, 2.765220};
  ASSERT_EQ(logits.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(logits[i], expected[i], 1e-4) << i;
}

}  // namespace
}  // namespace neurim
