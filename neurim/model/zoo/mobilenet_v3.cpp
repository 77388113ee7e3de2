// Howard et al., "Searching for MobileNetV3", ICCV'19, tables 1 and 2, as torchvision has them, and as timm
// has them: with other batch norms and a convolution in the head, or ("tf_…") padded as in the authors' code.
#include "neurim/model/zoo/entry.h"
#include "neurim/model/zoo/layers.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/add.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"

namespace neurim::zoo {

namespace {

/// A row of the paper's tables.
struct Row {
  std::int64_t kernel, expanded, out;
  bool squeeze, hardswish;
  std::int64_t stride;
};

struct Config {
  std::vector<Row> rows;
  std::int64_t last;  ///< features before the classes
  nn::BatchNorm2d::Config norm;
  bool timm = false, same = false;  ///< `same`: how convolutions are padded, see ConvNormOptions
};

struct InvertedResidual {
  InvertedResidual(std::int64_t in, const Row& row, const Config& config) : residual(row.stride == 1 && in == row.out) {
    const nn::Layer act = row.hardswish ? nn::Layer(nn::Hardswish()) : nn::Layer(nn::ReLU());
    const nn::BatchNorm2d::Config& norm = config.norm;
    const std::int64_t wide = row.expanded;
    if (wide != in) block.add(conv_norm(in, wide, {.kernel = 1, .norm = norm}, act));
    const ConvNormOptions depthwise{
        .kernel = row.kernel, .stride = row.stride, .groups = wide, .norm = norm, .same = config.same};
    block.add(conv_norm(wide, wide, depthwise, act));
    if (row.squeeze)
      block.add(SqueezeExcitation(wide, make_divisible(static_cast<double>(wide / 4), 8), nn::ReLU(), nn::Hardsigmoid(),
                                  nn::zeros));
    block.add(conv_norm(wide, row.out, {.kernel = 1, .norm = norm}));
  }

  void parts(Parts& p) { p("block", block); }
  Tensor operator()(const Tensor& x) const { return residual ? block(x) + x : block(x); }

  bool residual;
  nn::Sequential block;
};

nn::Linear dense(std::int64_t in, std::int64_t out) {
  return {in, out, {.init = [](const Shape&) { return nn::normal(0, 0.01); }, .bias_init = nn::zeros}};
}

struct MobileNetV3 {
  MobileNetV3(const Config& config, const Options& o) : timm(config.timm) {
    features.add(conv_norm(o.in_chans, 16, {.stride = 2, .norm = config.norm, .same = config.same}, nn::Hardswish()));
    std::int64_t in = 16;
    for (const Row& row : config.rows) {
      features.add(InvertedResidual(in, row, config));
      in = row.out;
    }
    features.add(conv_norm(in, 6 * in, {.kernel = 1, .norm = config.norm}, nn::Hardswish()));
    const nn::Dropout dropout{o.dropout};
    const nn::Linear logits = dense(config.last, o.classes);
    if (timm) {
      const nn::Conv2d conv(6 * in, config.last, {.kernel = 1, .init = nn::fan_out_normal, .bias_init = nn::zeros});
      classifier = {conv, nn::Hardswish(), nn::Sequential(nn::Flatten(), dropout), logits};
    } else {
      classifier = {dense(6 * in, config.last), nn::Hardswish(), dropout, logits};
    }
  }

  void parts(Parts& p) { p("features", features)("classifier", classifier); }
  Tensor operator()(const Tensor& x) const {
    const Tensor means = global_avg_pool2d(features(x));
    return classifier(timm ? means : flatten(means));
  }

  bool timm;
  nn::Sequential features, classifier;
};

/// A stage ends where the number of channels changes.
Renames timm_names(const Config& config) {
  Renames names{{"features.0.0", "conv_stem"},
                {"features.0.1", "bn1"},
                {"classifier.0", "conv_head"},
                {"classifier.3", "classifier"}};
  int layer = 1, stage = 0, in_stage = 0;
  std::int64_t in = 16;
  for (const Row& row : config.rows) {
    if (layer > 1 && row.out != in) {
      ++stage;
      in_stage = 0;
    }
    std::vector<std::string> layers;
    std::string squeeze;
    int part = 0;
    const auto add = [&] {
      layers.push_back(text(part, ".0"));
      layers.push_back(text(part++, ".1"));
    };
    if (row.expanded != in) add();
    add();
    if (row.squeeze) squeeze = text(part++);
    add();
    add_inverted_residual(names, text("features.", layer++, ".block"), text("blocks.", stage, '.', in_stage++), layers,
                          squeeze);
    in = row.out;
  }
  names[text("features.", layer, ".0")] = text("blocks.", stage + 1, ".0.conv");
  names[text("features.", layer, ".1")] = text("blocks.", stage + 1, ".0.bn1");
  return names;
}

Entry mobilenet(std::string name, const Config& config) {
  return {.name = std::move(name),
          .build = [=](const Options& o) { return MobileNetV3(config, o); },
          .dropout = 0.2,
          .other_names = [=] { return timm_names(config); }};
}

}  // namespace

Entries mobilenet_v3_models() {
  const std::vector<Row> large{
      {3, 16, 16, false, false, 1}, {3, 64, 24, false, false, 2}, {3, 72, 24, false, false, 1},
      {5, 72, 40, true, false, 2},  {5, 120, 40, true, false, 1}, {5, 120, 40, true, false, 1},
      {3, 240, 80, false, true, 2}, {3, 200, 80, false, true, 1}, {3, 184, 80, false, true, 1},
      {3, 184, 80, false, true, 1}, {3, 480, 112, true, true, 1}, {3, 672, 112, true, true, 1},
      {5, 672, 160, true, true, 2}, {5, 960, 160, true, true, 1}, {5, 960, 160, true, true, 1}};
  const std::vector<Row> small{{3, 16, 16, true, false, 2}, {3, 72, 24, false, false, 2}, {3, 88, 24, false, false, 1},
                               {5, 96, 40, true, true, 2},  {5, 240, 40, true, true, 1},  {5, 240, 40, true, true, 1},
                               {5, 120, 48, true, true, 1}, {5, 144, 48, true, true, 1},  {5, 288, 96, true, true, 2},
                               {5, 576, 96, true, true, 1}, {5, 576, 96, true, true, 1}};
  const nn::BatchNorm2d::Config slow{.momentum = 0.01, .eps = 1e-3}, usual, tensorflow{.eps = 1e-3};
  Entries entries{mobilenet("mobilenet_v3_large", {large, 1280, slow}),
                  mobilenet("mobilenet_v3_small", {small, 1024, slow}),
                  timm(mobilenet("", {large, 1280, usual, true}), "mobilenetv3_large_100"),
                  timm(mobilenet("", {small, 1024, usual, true}), "mobilenetv3_small_100"),
                  timm(mobilenet("", {large, 1280, tensorflow, true, true}), "tf_mobilenetv3_large_100"),
                  timm(mobilenet("", {small, 1024, tensorflow, true, true}), "tf_mobilenetv3_small_100")};
  for (std::size_t i = 4; i < 6; ++i) entries[i].mean = entries[i].std = {0.5, 0.5, 0.5};
  return entries;
}

}  // namespace neurim::zoo
