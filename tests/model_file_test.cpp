// Networks that are written in files.
#include "neurim/model/model_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "neurim/graph/trace.h"
#include "neurim/model/cost.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/attention.h"
#include "neurim/nn/batch_norm2d.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/named_layers.h"
#include "neurim/nn/network.h"
#include "neurim/nn/norm.h"
#include "neurim/nn/pool.h"
#include "neurim/nn/positions.h"
#include "neurim/nn/recurrent.h"
#include "neurim/nn/sequential.h"
#include "neurim/nn/transformer.h"
#include "neurim/nn/vit_block.h"
#include "neurim/ops/add.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"
#include "tests/damage.h"
#include "tests/errors.h"

namespace neurim {
namespace {

const ModelFileOptions kSmall{.num_classes = 5, .in_chans = 4, .height = 8, .width = 8};

Model built(const std::string& text, const ModelFileOptions& options = kSmall) {
  return ModelFile(text, "net.toml").build(options);
}

/// A network of these entries, which Flatten and Linear make a classifier.
Model built_of(const std::string& entries) {
  return built("layers = [\n" + entries + ",\n{ layer = \"Flatten\" }, { layer = \"Linear\", out = \"$classes\" } ]");
}

/// What building it says; lines count from the one behind `layers = [`, which is 2.
std::string refused(const std::string& entries) {
  return error_of([&] { built_of(entries); });
}

std::vector<std::string> parameters(const Model& model) {
  std::vector<std::string> all;
  for (const Parameter& p : named_parameters(Model(model))) all.push_back(text(p.name, ' ', p.tensor.shape()));
  return all;
}

Tensor image(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) / 8 - 1;
  return Tensor::from(shape, values);
}

TEST(ModelFile, IsTheNetworkThatTheSameLayersAreInCpp) {
  const Model model = built(R"(
mean = [0.5, 0.4, 0.3, 0.2]
std = 0.25
layers = [
  { layer = "Conv2d", out = 6, kernel = [3, 1], stride = 2, pad = [1, 0], padding_mode = "reflect", bias = false, init = "kaiming_normal" },
  { layer = "BatchNorm2d", momentum = 0.2 }, # a comment
  { layer = "LeakyReLU", slope = 0.1 },
  { layer = "AvgPool2d", kernel = 2 },
  { layer = "Flatten" },
  { layer = "Linear", out = 5 },
])");
  nn::Sequential same{nn::Conv2d(4, 6,
                                 {.kernel = {3, 1},
                                  .stride = 2,
                                  .pad = {1, 0},
                                  .padding_mode = "reflect",
                                  .bias = false,
                                  .init = [](const Shape& w) { return nn::kaiming_normal(w); }}),
                      nn::BatchNorm2d(6, {.momentum = 0.2}),
                      nn::LeakyReLU{0.1},
                      nn::AvgPool2d{.kernel = 2},
                      nn::Flatten(),
                      nn::Linear(24, 5)};
  initialise(same, 0);
  const Tensor x = image({2, 4, 8, 8});
  EXPECT_EQ(model(x).values<float>(), same(x).values<float>());
  EXPECT_EQ(model.name, "net");
  EXPECT_EQ(model.num_classes, 5);
  EXPECT_EQ(model.mean, (std::vector<double>{0.5, 0.4, 0.3, 0.2}));
  EXPECT_EQ(model.std, (std::vector<double>{0.25, 0.25, 0.25, 0.25}));
  EXPECT_NE(model.source.find("# a comment"), std::string::npos);
}

TEST(ModelFile, BlocksTakeArgumentsAndResultsHaveNames) {
  const Model model = built(R"(
args = { width = 8 }
layers = [
  { layer = "ConvNorm", out = "$width", name = "stem" },
  { layer = "Residual", repeat = 2, name = "stage1" },
  { layer = "Residual", width = "$width * 2 + 1", act = "SiLU", name = "stage2" },
  { name = "squeeze", layers = [
    { layer = "GlobalAvgPool2d" },
    { layer = "Conv2d", out = "$in / 4", kernel = 1 },
    { layer = "ReLU" },
    { layer = "Conv2d", out = "$in", kernel = 1 },
    { layer = "Sigmoid" },
  ] },
  { layer = "Mul", from = ["stage2", -1] },
  { layer = "MaxPool2d", kernel = 3, stride = 1, pad = 1, from = "stage2", name = "pooled" },
  { layer = "Concat", from = [4, "pooled", "input"] },
  { layer = "GlobalAvgPool2d" },
  { layer = "Flatten" },
  { layer = "Linear", out = "$classes", name = "head" },
]

[blocks.ConvNorm]
args = { out = 0, act = "ReLU" }
layers = [
  { layer = "Conv2d", out = "$out", pad = "same", bias = false, name = "conv" },
  { layer = "BatchNorm2d", name = "bn" },
  { layer = "$act" },
]

[blocks.Residual]
args = { width = 4, act = "GELU" }
layers = [
  { layer = "ConvNorm", out = "$width", act = "$act", name = "a" },
  { layer = "ConvNorm", out = "$in", act = "$act", name = "b" },
  { layer = "Add", from = ["b", "input"] },
]
)");
  const auto norm = [](const std::string& path, const std::string& channels) {
    std::vector<std::string> all;
    for (const char* part : {"weight", "bias", "running_mean", "running_var"})
      all.push_back(text(path, ".bn.", part, " (", channels, ')'));
    return all;
  };
  std::vector<std::string> expected;
  const auto conv_norm = [&](const std::string& path, const std::string& out, const std::string& in) {
    expected.push_back(text(path, ".conv.weight (", out, ',', in, ",3,3)"));
    for (std::string& each : norm(path, out)) expected.push_back(std::move(each));
  };
  conv_norm("stem", "8", "4");
  for (const char* block : {"stage1.0", "stage1.1"}) {
    conv_norm(text(block, ".a"), "4", "8");
    conv_norm(text(block, ".b"), "8", "4");
  }
  conv_norm("stage2.a", "17", "8");
  conv_norm("stage2.b", "8", "17");
  for (const char* each : {"squeeze.1.weight (2,8,1,1)", "squeeze.1.bias (2)", "squeeze.3.weight (8,2,1,1)",
                           "squeeze.3.bias (8)", "head.weight (5,20)", "head.bias (5)"})
    expected.emplace_back(each);
  EXPECT_EQ(parameters(model), expected);

  // 4 is the Mul; silu is the activation of stage2 alone, gelu of the others' blocks.
  std::vector<std::string> ops;
  for (const LayerCost& layer : layer_costs(model, {4, 8, 8})) ops.push_back(layer.op);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "silu"), 2);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "gelu"), 4);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "relu"), 2);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "add"), 3);
}

TEST(ModelFile, WhatIsAskedForComesBeforeWhatTheFileSays) {
  const std::string text = R"(
imgsz = [6, 10]
in_chans = 2
num_classes = 3
layers = [ { layer = "Flatten" }, { layer = "Linear", out = "$classes" } ])";
  const ModelFile file(text, "folder/own.toml");
  EXPECT_TRUE(file.says("imgsz"));
  EXPECT_FALSE(file.says("mean"));
  EXPECT_EQ(file.size(), (std::pair<std::int64_t, std::int64_t>(6, 10)));
  EXPECT_EQ(parameters(file.build())[0], "1.weight (3,120)");
  EXPECT_EQ(parameters(file.build({.num_classes = 7, .in_chans = 1, .height = 4, .width = 5}))[0], "1.weight (7,20)");
  const Model usual = built(
      "layers = [ { layer = \"GlobalAvgPool2d\" }, { layer = \"Flatten\" },"
      "{ layer = \"Linear\", out = \"$classes\" } ]",
      {});
  EXPECT_EQ(parameters(usual)[0], "2.weight (1000,3)");
  EXPECT_EQ(usual.image_size, 224);
  EXPECT_EQ(usual.mean, (std::vector<double>{0.485, 0.456, 0.406}));
  EXPECT_TRUE(is_model_file("own.toml"));
  EXPECT_FALSE(is_model_file("resnet18"));
}

TEST(ModelFile, ArraysOfTablesAreListsToo) {
  const Model model = built("[[layers]]\nlayer = \"Flatten\"\n[[layers]]\nlayer = \"Linear\"\nout = 5\n");
  EXPECT_EQ(parameters(model), (std::vector<std::string>{"1.weight (5,256)", "1.bias (5)"}));
}

TEST(ModelFile, ModelsOfTheZooAreLayers) {
  const Model model = built(R"(layers = [
  { model = "resnet20", num_classes = 12, name = "backbone" },
  { layer = "ReLU" },
  { layer = "Linear", out = 5 } ])",
                            {.num_classes = 5, .in_chans = 3, .height = 32, .width = 32});
  const std::vector<std::string> all = parameters(model);
  EXPECT_EQ(all.front().substr(0, 9), "backbone.");
  EXPECT_EQ(all.back(), "2.bias (5)");
  EXPECT_EQ(layer_costs(model, {3, 32, 32})[0].where.substr(0, 9), "backbone.");
}

/// Images of four channels of 8x8 as sequences of 32 rows with 8 features.
const std::string kRows = "{ layer = \"Flatten\", start_axis = 1, end_axis = 2 },\n";

/// The output at the last step, and of the reverse direction at the first, which is its last.
struct LastOutputs {
  nn::GRU gru;
  bool both;
  void parts(Parts& p) { gru.parts(p); }
  Tensor operator()(const Tensor& x) const {
    const Tensor y = gru(x).y, last = slice(y, {-1, 0}, {std::numeric_limits<std::int64_t>::max(), 5}, {1, 2});
    if (!both) return flatten(last);
    return concat({flatten(last), flatten(slice(y, {0, 5}, {1, 10}, {1, 2}))}, 1);
  }
};

TEST(ModelFile, RecurrentNetworksReadRows) {
  const Model last = built_of(kRows + "{ layer = \"GRU\", hidden = 3, bidirectional = true, last = true }"),
              all = built_of(kRows + "{ layer = \"LSTM\", hidden = 3, num_layers = 2 }");
  EXPECT_EQ(parameters(last)[0], "1.weight_ih_l0 (9,8)");
  EXPECT_EQ(parameters(last)[8], "3.weight (5,6)");
  EXPECT_EQ(parameters(all)[8], "3.weight (5,96)");  // 32 steps of 3

  for (const bool both : {false, true}) {
    const Model model = built(
        "layers = [ { layer = \"Flatten\", start_axis = 1, end_axis = 2 },"
        "{ layer = \"GRU\", hidden = 5, last = true, bidirectional = " +
            text(both) + " } ]",
        {.num_classes = both ? 10 : 5, .in_chans = 4, .height = 8, .width = 8});
    nn::Sequential same{nn::Flatten{1, 2}, LastOutputs{{8, 5, {.batch_first = true, .bidirectional = both}}, both}};
    initialise(same, 0);
    const Tensor x = image({2, 4, 8, 8});
    EXPECT_EQ(model(x).values<float>(), same(x).values<float>());
  }
}

TEST(ModelFile, LayersOfTransformersAreThoseOfCpp) {
  const auto expect_same = [](const std::string& entry, const nn::Layer& layer) {
    const Model model = built_of(kRows + entry);
    nn::Sequential same{nn::Flatten{1, 2}, layer, nn::Flatten(), nn::Linear(32 * 8, 5)};
    initialise(same, 0);
    const Tensor x = image({2, 4, 8, 8});
    EXPECT_EQ(model(x).values<float>(), same(x).values<float>()) << entry;
  };
  expect_same("{ layer = \"MultiheadAttention\", num_heads = 2 }", nn::MultiheadAttention(8, 2));
  expect_same("{ layer = \"MultiheadAttention\", num_heads = 4, bias = false }",
              nn::MultiheadAttention(8, 4, {.bias = false}));
  expect_same("{ layer = \"Attention\" }", nn::Attention(8));
  expect_same("{ layer = \"Attention\", num_heads = 2, qkv_bias = true, init = \"xavier_uniform\" }",
              nn::Attention(8, {.num_heads = 2, .qkv_bias = true, .init = [](const Shape& weight) {
                                  return nn::xavier_uniform(weight);
                                }}));
  expect_same("{ layer = \"Mlp\", hidden = 12, bias_init = \"zeros\" }", nn::Mlp(8, 12, {.bias_init = nn::zeros}));
  expect_same("{ layer = \"LayerScale\", init_values = 0.5 }", nn::LayerScale(8, 0.5));
  expect_same("{ layer = \"ViTBlock\", num_heads = 2 }", nn::ViTBlock(8, 2));
  expect_same(
      "{ layer = \"ViTBlock\", num_heads = 4, mlp_ratio = 1.5, qkv_bias = false, init_values = 0.5, eps = 0.1 }",
      nn::ViTBlock(8, 4, {.mlp_ratio = 1.5, .qkv_bias = false, .init_values = 0.5, .eps = 0.1}));
  expect_same("{ layer = \"TransformerEncoderLayer\", nhead = 2 }", nn::TransformerEncoderLayer(8, 2));
  expect_same(
      "{ layer = \"TransformerEncoder\", nhead = 4, num_layers = 2, final_norm = true, dim_feedforward = 6, "
      "activation = \"gelu\", layer_norm_eps = 0.1, norm_first = true, bias = false }",
      nn::TransformerEncoder(
          8, 4, 2,
          {.dim_feedforward = 6, .activation = "gelu", .layer_norm_eps = 0.1, .norm_first = true, .bias = false},
          true));
  expect_same("{ layer = \"SinusoidalPositions\" }", nn::SinusoidalPositions());
  expect_same("{ layer = \"LearnedPositions\" }", nn::LearnedPositions(32, 8));
}

TEST(ModelFile, PatchesAreSequencesOfOneLength) {
  const Model model = built(R"(layers = [
  { layer = "Conv2d", out = 6, kernel = 4, stride = 4 },
  { layer = "Flatten", start_axis = 2 },
  { layer = "Permute", axes = [0, 2, 1] },
  { layer = "LearnedPositions" },
  { layer = "ViTBlock", num_heads = 3, drop_path = 0.1 },
  { layer = "LayerNorm" },
  { layer = "Permute", axes = [0, 2, 1] },
  { layer = "AdaptiveAvgPool1d" },
  { layer = "Flatten" },
  { layer = "Linear", out = "$classes" },
])");
  const auto turned = [](const Tensor& x) { return transpose(x, {0, 2, 1}); };
  nn::Sequential same{nn::Conv2d(4, 6, {.kernel = 4, .stride = 4}),
                      nn::Flatten{2},
                      turned,
                      nn::LearnedPositions(4, 6),
                      nn::ViTBlock(6, 3),
                      nn::LayerNorm(Shape{6}),
                      turned,
                      nn::AdaptiveAvgPool1d(),
                      nn::Flatten(),
                      nn::Linear(6, 5)};
  initialise(same, 0);
  const Tensor x = image({2, 4, 8, 8});
  EXPECT_EQ(model(x).values<float>(), same(x).values<float>());
  EXPECT_EQ(parameters(model)[2], "3.weight (4,6)");
  // Fewer patches would lie elsewhere in the image than those that the positions were learnt for.
  expect_words(error_of([&] { model(image({2, 4, 8, 4})); }, Fault::usage),
               {"LearnedPositions: was built for x(N,4,features), got (2,2,6)"});
}

/// The options that a layer cannot do without.
std::string needed(const std::string& layer) {
  for (const char* start : {"Conv", "Linear", "BasicBlock"})
    if (layer.starts_with(start)) return ", out = 8";
  for (const char* start : {"LSTM", "GRU", "RNN"})
    if (layer == start) return ", hidden = 8";
  for (const char* start : {"MultiheadAttention", "ViTBlock"})
    if (layer == start) return ", num_heads = 2";
  if (layer == "TransformerEncoderLayer") return ", nhead = 2";
  if (layer == "TransformerEncoder") return ", nhead = 2, num_layers = 2";
  if (layer == "Mlp") return ", hidden = 8";
  if (layer == "Permute") return ", axes = [0, 2, 3, 1]";
  if (layer == "GroupNorm") return ", num_groups = 2";
  if (layer == "Bottleneck") return ", channels = 2";
  if (layer == "PixelShuffle") return ", upscale_factor = 2";
  if (layer == "Unflatten") return ", sizes = [2, -1]";
  if (layer == "Upsample") return ", scale_factor = 2";
  return "";
}

bool takes_sequences(const std::string& layer) {
  for (const char* end : {"1d", "Attention", "Positions"})
    if (layer.ends_with(end)) return true;
  return layer.starts_with("Transformer") || layer == "ViTBlock" || layer == "LSTM" || layer == "GRU" || layer == "RNN";
}

TEST(ModelFile, EveryLayerCanBeNamedAndRefusesUnknownOptions) {
  for (const std::string& layer : nn::layer_names()) {
    if (layer == "Embedding") continue;  // takes numbers of words, which no image has
    std::string before;
    if (takes_sequences(layer)) before = "{ layer = \"Flatten\", start_axis = 2 },\n";
    if (layer.ends_with("3d"))
      before = "{ layer = \"Unflatten\", sizes = [1, 4] },\n{ layer = \"Conv3d\", out = 4, pad = 1 },\n";
    const std::string entry = "{ layer = \"" + layer + "\"" + needed(layer);
    EXPECT_NO_THROW(built_of(before + entry + " }")) << layer;
    expect_words(refused(before + entry + ", nonsense = 1 }"), {"net.toml:", layer, "there is no option 'nonsense'"});
  }
}

TEST(ModelFile, OptionsReachTheirLayers) {
  // Each option of each layer, printed after it was read from its own default, is as it was.
  for (const std::string& name : nn::layer_names()) {
    const auto layer = nn::make_layer(name);
    const std::string before = attributes([&](Fields& f) { layer->fields(f); });
    EXPECT_EQ(attributes([&](Fields& f) { layer->fields(f); }), before) << name;
  }
  expect_words(refused("{ layer = \"Conv2d\", out = 8, kernel = 9 }"), {"kernel", "9"});
  expect_words(refused("{ layer = \"Conv2d\", out = 9, groups = 4 }"), {"4 groups"});
  expect_words(refused("{ layer = \"MaxPool2d\", pad = 2 }"), {"padding 2"});
  expect_words(refused("{ layer = \"ReflectionPad2d\", pad = [8, 0, 0, 0] }"), {"up to 7", "8"});
}

TEST(ModelFile, ErrorsNameFileLineLayerAndTheFix) {
  const auto says = [](const std::string& entries, const std::vector<std::string>& words) {
    expect_words(refused(entries), words);
  };
  says("{ layer = \"ReLU\" },\n{ layer = \"Conv2\", out = 3 }",
       {"net.toml:3: layer 1 (Conv2): there is no layer 'Conv2'; did you mean 'Conv2d'?", "neurim layers"});
  says("{ layer = \"Conv2d\", out = 3, kernal = 5, name = \"stem\" }",
       {"net.toml:2: layer stem (Conv2d): there is no option 'kernal'; did you mean 'kernel'?"});
  says("{ layer = \"Conv2d\" }", {"layer 0 (Conv2d): out is missing; give it: out = …"});
  says("{ layer = \"Conv2d\", out = 3.5 }", {"out is 3.5; it is a whole number"});
  says("{ layer = \"Conv2d\", out = \"many\" }", {"out is \"many\"; it is a whole number"});
  says("{ layer = \"Conv2d\", out = 3, kernel = [1, 2, 3] }", {"kernel: takes one number or 2, got 3"});
  says("{ layer = \"Conv2d\", out = 3, bias = 1 }", {"bias is 1; it is true or false"});
  says("{ layer = \"Conv2d\", out = 3, pad = \"full\" }", {"\"full\"", "\"same\""});
  says("{ layer = \"Conv2d\", out = 3, init = \"he\" }", {"init: there is no 'he'", "kaiming_normal"});
  says("{ layer = \"Flatten\" },\n{ layer = \"Conv2d\", out = 3 }", {"net.toml:3", "(1,256)"});
  says("{ layer = \"MaxPool2d\", repeat = 4 }", {"net.toml:2: layer 0 (MaxPool2d)", "does not fit", "(1,4,1,1)"});
  says("{ layer = \"Conv2d\", out = 8, name = \"a\" },\n{ layer = \"Add\", from = [\"a\", \"input\"] }",
       {"net.toml:3: layer 1 (Add): adds (1,8,6,6) and (1,4,8,8)", "Conv2d of kernel 1"});
  says("{ layer = \"Conv2d\", out = 8, name = \"a\" },\n{ layer = \"Concat\", from = [\"a\", \"input\"] }",
       {"(1,8,6,6) and (1,4,8,8)"});
  says("{ layer = \"Add\" }", {"takes two results or more"});
  says("{ layer = \"ReLU\", from = [0, 1] }", {"from is 0", "0 layers before"});
  says("{ layer = \"ReLU\", name = \"a\" },\n{ layer = \"ReLU\", from = [0, \"a\"] }", {"takes one result", "names 2"});
  says("{ layer = \"ReLU\", name = \"stem\" },\n{ layer = \"ReLU\", from = \"sten\" }",
       {"there is no 'sten' before; did you mean 'stem'?"});
  says("{ layer = \"ReLU\", name = \"a\" },\n{ layer = \"ReLU\", name = \"a\" }",
       {"net.toml:3", "of this name before"});
  says("{ layer = \"ReLU\", name = \"a.b\" }", {"name is \"a.b\"", "letters, digits"});
  says("{ layer = \"ReLU\", name = \"12\" }", {"not of digits alone"});
  says("{ layer = \"ReLU\", model = \"resnet18\" }", {"layer and model; give one"});
  says("{ name = \"x\" }", {"names no layer"});
  says("{ model = \"resnte18\" }", {"did you mean 'resnet18'?"});
  says("3", {"net.toml:2: layer 0: this is 3; it is a table"});
  says("{ layer = \"Linear\", out = \"$clases\" }", {"there is no $clases; did you mean 'classes'?"});
  says("{ layer = \"Linear\", out = \"$in +\" }", {"a number or a $name is missing"});
  says("{ layer = \"Linear\", out = \"$in / 3\" }", {"it is a whole number"});
  says("{ layer = \"Linear\", out = \"$in / 0\" }", {"it is a whole number"});
  says("{ layers = [] }", {"layers is a list"});
  says("{ layer = \"Permute\", axes = [0, 1] }", {"(0,1) does not name each axis of (1,4,8,8) once"});
  says("{ layer = \"ViTBlock\", num_heads = 2 }", {"takes x(N,L,features), got (1,4,8,8)"});
  for (const char* norm : {"BatchNorm2d", "InstanceNorm2d", "LayerNorm", "RMSNorm", "GroupNorm"})
    says(text("{ name = \"a\", layers = [ { layer = \"", norm, "\"", needed(norm), ", eps = -1, name = \"norm\" } ] }"),
         {text("net.toml:2: layer a.norm (", norm), "eps (-1) must be 0 or more"});
  for (const char* norm : {"BatchNorm2d", "InstanceNorm2d"})
    says(text("{ layer = \"", norm, "\", momentum = 5 }"), {text("layer 0 (", norm), "momentum (5) must be a share"});
  says("{ layer = \"LearnedPositions\" }", {"takes x(N,L,features), got (1,4,8,8)"});
  says(kRows + "{ layer = \"MultiheadAttention\" }", {"num_heads is missing"});
  says(kRows + "{ layer = \"MultiheadAttention\", num_heads = 3 }",
       {"net.toml:3", "8 features do not divide into 3 heads"});
  says(kRows + "{ layer = \"ViTBlock\", num_heads = 2, init_values = [1, 2] }",
       {"init_values: takes one number, got 2"});
  says(kRows + "{ layer = \"TransformerEncoderLayer\", nhead = 2, activation = \"tanh\" }",
       {"activation is \"tanh\", has to be relu or gelu"});

  const auto whole = [](const std::string& text) { return error_of([&] { built(text); }); };
  expect_words(whole("layers = [ { layer = \"ReLU\" } ]"),
               {"net.toml:1: the last layer gives (1,4,8,8)", "(1,5)", "Flatten", "out = \"$classes\""});
  expect_words(whole("layers = [ { layer = \"Flatten\" }, { layer = \"Linear\", out = 9 } ]"), {"(1,9)", "5 classes"});
  expect_words(whole("layer = []"), {"net.toml:1: there is no 'layer'; did you mean 'layers'?"});
  expect_words(whole("imgsz = 3"), {"has no layers"});
  expect_words(whole("layers = 3"), {"layers is 3"});
  const std::string end = "\nlayers = [ { layer = \"Flatten\" }, { layer = \"Linear\", out = 5 } ]";
  expect_words(whole("mean = []" + end), {"net.toml:1: mean has 0 values for 3 channels; give one, or one for each"});
  expect_words(whole("mean = [0.5]\nstd = [0.5, 0.1]" + end), {"net.toml:2: std has 2 values for 3 channels"});
  expect_words(whole("in_chans = 6\nstd = [1, 1, 1]" + end), {"net.toml:2: std has 3 values for 6 channels"});
  EXPECT_EQ(built("mean = [0, 0.5, 1]" + end).mean, std::vector<double>(4, 0.5));  // of its own 3, for the 4 asked for
  expect_words(whole("mean = [123.675, 116.28, 103.53]" + end),
               {"net.toml:1: mean is 123.675; pixels are scaled to 0 to 1", "divided by 255"});
  expect_words(whole("\nstd = 58.4" + end), {"net.toml:2: std is 58.4; ", "(0, 4]", "divided by 255"});
  expect_words(whole("std = [0, 1, 1]" + end), {"net.toml:1: std is 0; "});
  expect_words(whole("layers = []"), {"net.toml:1: layers is a list without items"});
  const std::string real =
      "imgsz = 8.0\nin_chans = 4.0\nlayers = [ { layer = \"Conv2d\", out = 3.0, kernel = [3.0, 1], pad = 1.0 }, { "
      "layer = \"Flatten\" }, ";
  built(real + "{ layer = \"Linear\", out = 5.0 } ]");  // are whole numbers
  expect_words(whole(real + "{ layer = \"Linear\", out = 5.5 } ]"),
               {"net.toml:3: layer 2 (Linear): out is 5.5; it is a whole number"});
  expect_words(error_of([] { built("in_chans = 0\nlayers = [ { layer = \"Flatten\" } ]", {}); }),
               {"net.toml:1: in_chans is 0"});
  expect_words(error_of([] { built("imgsz = [1, 2, 3]\nlayers = [ { layer = \"Flatten\" } ]", {}); }),
               {"net.toml:1: imgsz"});
  expect_words(whole("layers = [\n  { layer = \"Conv2d\", out = 3\n"), {"net.toml:"});
  expect_words(whole("layers = 2026-01-01"), {"dates and times"});
  expect_words(whole("layers = [ { layer = \"A\" } ]\n[blocks.A]\nargs = { out = 3 }"),
               {"net.toml:2: block A: this has no layers"});
  expect_words(whole("layers = [ { layer = \"A\", uot = 4 } ]\n[blocks.A]\nargs = { out = 3 }\nlayers = [ { "
                     "layer = \"ReLU\" } ]"),
               {"net.toml:1: layer 0 (A): block A has no argument 'uot'; did you mean 'out'?"});
  expect_words(whole("layers = [ { layer = \"A\", name = \"a\" } ]\n[blocks.A]\nlayers = [\n{ layer = \"Linear\" } ]"),
               {"net.toml:4: layer a.0 (Linear): out is missing"});
  expect_words(whole("layers = [ { layer = \"A\" } ]\n[blocks.A]\nargs = { from = 3 }\nlayers = [ { layer = "
                     "\"ReLU\" } ]"),
               {"'from' has a meaning already"});
  expect_words(error_of([] { create_model_file("/nowhere/net.toml"); }), {"/nowhere/net.toml"});
  expect_words(error_of([] { ModelFile("layers:\n- Flatten\n", "net.yaml"); }), {"net.yaml: is YAML", "TOML"});
}

TEST(ModelFile, WhatWouldTakeAllMemoryOrTimeIsRefused) {
  const auto refused_within = [](const std::string& text, const std::vector<std::string>& words) {
    ModelFileOptions options = kSmall;
    options.most_values = 1 << 20;
    expect_words(error_of([&] { built(text, options); }), words);
  };
  const std::string end = ", { layer = \"Flatten\" }, { layer = \"Linear\", out = 5 } ]\n";
  refused_within("layers = [ { layer = \"Linear\", out = 16000000 }" + end,
                 {"more values than may be", "(16000000,8)"});
  refused_within("layers = [ { layer = \"Linear\", out = 99999999999 }" + end, {"whole number from"});
  refused_within("layers = [ { layer = \"LSTM\", hidden = 1, num_layers = 1000000 }" + end, {"num_layers is 1000000"});
  refused_within(
      "layers = [ { layer = \"Flatten\", start_axis = 2 }, { layer = \"TransformerEncoder\", nhead = 1, "
      "num_layers = 1000000 }" +
          end,
      {"num_layers is 1000000"});
  refused_within(
      "layers = [ { layer = \"ConstantPad2d\", pad = 2000 }, { layer = \"Flatten\", start_axis = 2 }, "
      "{ layer = \"SinusoidalPositions\" }" +
          end,
      {"sequences of at most 16777216 values", "(1,4,16064064)"});
  refused_within("layers = [ { layer = \"ReLU\", repeat = 100000 }" + end, {"repeat is 100000"});
  refused_within("layers = [ { layer = \"ConstantPad2d\", pad = 9000000 }" + end,
                 {"more than", "values for one image"});
  refused_within("layers = [ { layer = \"Unflatten\", sizes = [9000000, 9000000, 9000000, 1] }" + end,
                 {"does not divide"});
  refused_within("layers = [ { layer = \"A\" }" + end + "[blocks.A]\nlayers = [ { layer = \"A\" } ]",
                 {"does one use itself?"});
  std::string blocks = "layers = [ { layer = \"B0\" }" + end;
  for (int i = 0; i < 8; ++i)
    blocks += text("[blocks.B", i, "]\nlayers = [ { layer = \"", i < 7 ? text('B', i + 1) : "ReLU",
                   "\", repeat = 9 } ]\n");
  refused_within(blocks, {"more than 10000 layers"});
  std::string deep = "x";
  for (int i = 0; i < 30000; ++i) deep += ".x";
  refused_within(deep + " = 1", {"dots"});
  refused_within("x = " + std::string(10000, '[') + std::string(10000, ']'), {"net.toml:1", "depth"});
  refused_within(std::string(1 << 20, '#'), {"bytes"});
}

TEST(ModelFile, DamagedFilesAreRefusedOrBuilt) {
  ModelFileOptions options = kSmall;
  options.most_values = 1 << 20;
  damage_everywhere(R"(imgsz = 8
args = { w = 4 }
layers = [
 { layer = "B", out = "$w*2", repeat = 2, name = "s" },
 { layer = "Add", from = [-1, "s"] },
 { layer = "Flatten" },
 { layer = "Linear", out = "$classes" } ]
[blocks.B]
args = { out = 1 }
layers = [ { layer = "Conv2d", out = "$out", pad = 1 } ]
)",
                    [&](const std::string& bytes) {
                      try {
                        built(bytes, options);
                      } catch (const Error& error) {
                        EXPECT_EQ(error.fault(), Fault::data) << error.what() << '\n' << bytes;
                      }
                    });
}

TEST(Network, TakesResultsByNumber) {
  nn::Network net;
  net.add(
         "double", [](const Tensor& x) { return x + x; }, 0)
      .join([](const Tensors& x) { return x[0] + x[1]; }, {0, 1});
  EXPECT_EQ(net(Tensor::scalar(2)).item(), 6);
  EXPECT_EQ(nn::Network()(Tensor::scalar(2)).item(), 2);
  expect_words(error_of([&] { net.add("late", nn::ReLU(), 4); }, Fault::usage), {"'late' takes result 4 of 3"});
}

TEST(NamedLayers, AreDefinedOnce) {
  struct Twice {
    double by = 2;
    void fields(Fields& f) { f("by", by); }
    Tensor operator()(const Tensor& x) const { return x + x; }
  };
  nn::define_layer<Twice>("Twice");
  EXPECT_EQ(nn::make_layer("Twice")->build({})(Tensor::scalar(3)).item(), 6);
  expect_words(error_of([] { nn::define_layer<Twice>("Twice"); }, Fault::usage), {"a layer 'Twice' already"});
  expect_words(error_of([] { nn::define_layer<Twice>("ReLU"); }, Fault::usage), {"'ReLU' already"});
  EXPECT_FALSE(nn::make_layer("Twise"));
}

}  // namespace
}  // namespace neurim
