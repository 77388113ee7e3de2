// Howard et al., "Searching for MobileNetV3", ICCV'19, tables 1 and 2, as torchvision has them.
#include "neurim/model/zoo/entry.h"
#include "neurim/model/zoo/layers.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/add.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"

namespace neurim::zoo {

namespace {

constexpr nn::BatchNorm2d::Config kNorm{.momentum = 0.01, .eps = 1e-3};

/// A row of the paper's tables.
struct Row {
  std::int64_t kernel, expanded, out;
  bool squeeze, hardswish;
  std::int64_t stride;
};

struct InvertedResidual {
  InvertedResidual(std::int64_t in, const Row& row) : residual(row.stride == 1 && in == row.out) {
    const nn::Layer act = row.hardswish ? nn::Layer(nn::Hardswish()) : nn::Layer(nn::ReLU());
    const std::int64_t wide = row.expanded;
    if (wide != in) block.add(conv_norm(in, wide, {.kernel = 1, .norm = kNorm}, act));
    block.add(conv_norm(wide, wide,
                        {.kernel = row.kernel, .stride = row.stride, .groups = wide, .norm = kNorm}, act));
    if (row.squeeze)
      block.add(SqueezeExcitation(wide, make_divisible(static_cast<double>(wide / 4), 8), nn::ReLU(),
                                  nn::Hardsigmoid(), nn::zeros));
    block.add(conv_norm(wide, row.out, {.kernel = 1, .norm = kNorm}));
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
  MobileNetV3(const std::vector<Row>& rows, std::int64_t last, const Options& o) {
    features.add(conv_norm(o.in_chans, 16, {.stride = 2, .norm = kNorm}, nn::Hardswish()));
    std::int64_t in = 16;
    for (const Row& row : rows) {
      features.add(InvertedResidual(in, row));
      in = row.out;
    }
    features.add(conv_norm(in, 6 * in, {.kernel = 1, .norm = kNorm}, nn::Hardswish()));
    classifier = {dense(6 * in, last), nn::Hardswish(), nn::Dropout{o.dropout}, dense(last, o.classes)};
  }

  void parts(Parts& p) { p("features", features)("classifier", classifier); }
  Tensor operator()(const Tensor& x) const { return classifier(flatten(global_avg_pool2d(features(x)))); }

  nn::Sequential features, classifier;
};

}  // namespace

Entries mobilenet_v3_models() {
  const std::vector<Row> large{
      {3, 16, 16, false, false, 1}, {3, 64, 24, false, false, 2}, {3, 72, 24, false, false, 1},
      {5, 72, 40, true, false, 2},  {5, 120, 40, true, false, 1}, {5, 120, 40, true, false, 1},
      {3, 240, 80, false, true, 2}, {3, 200, 80, false, true, 1}, {3, 184, 80, false, true, 1},
      {3, 184, 80, false, true, 1}, {3, 480, 112, true, true, 1}, {3, 672, 112, true, true, 1},
      {5, 672, 160, true, true, 2}, {5, 960, 160, true, true, 1}, {5, 960, 160, true, true, 1}};
  const std::vector<Row> small{
      {3, 16, 16, true, false, 2}, {3, 72, 24, false, false, 2}, {3, 88, 24, false, false, 1},
      {5, 96, 40, true, true, 2},  {5, 240, 40, true, true, 1},  {5, 240, 40, true, true, 1},
      {5, 120, 48, true, true, 1}, {5, 144, 48, true, true, 1},  {5, 288, 96, true, true, 2},
      {5, 576, 96, true, true, 1}, {5, 576, 96, true, true, 1}};
  return {{.name = "mobilenet_v3_large",
           .build = [=](const Options& o) { return MobileNetV3(large, 1280, o); },
           .dropout = 0.2},
          {.name = "mobilenet_v3_small",
           .build = [=](const Options& o) { return MobileNetV3(small, 1024, o); },
           .dropout = 0.2}};
}

}  // namespace neurim::zoo
