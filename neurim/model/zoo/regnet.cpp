// Radosavovic et al., "Designing network design spaces", CVPR'20, RegNetX and RegNetY (with squeeze and
// excitation), as torchvision has them.
#include <cmath>

#include "neurim/base/text.h"
#include "neurim/model/zoo/entry.h"
#include "neurim/model/zoo/layers.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/add.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/relu.h"

namespace neurim::zoo {

namespace {

/// A point of the design space: the width of block j is near start + slope * j, on a grid of powers of
/// `step`.
struct Design {
  int depth;
  double start, slope, step;
  std::int64_t group_width;
};

struct Stage {
  std::int64_t width, group_width;
  int depth;
};

/// Sections 3.3 and 3.4 of the paper: widths are quantised to the grid, then to multiples of 8; equal ones
/// make a stage, whose width is then a multiple of its groups'.
std::vector<Stage> stages_of(const Design& d) {
  std::vector<Stage> stages;
  for (int j = 0; j < d.depth; ++j) {
    const double power = std::nearbyint(std::log((d.start + d.slope * j) / d.start) / std::log(d.step));
    const auto width = 8 * static_cast<std::int64_t>(std::nearbyint(d.start * std::pow(d.step, power) / 8));
    if (stages.empty() || stages.back().width != width)
      stages.push_back({width, std::min(d.group_width, width), 0});
    ++stages.back().depth;
  }
  for (Stage& s : stages) s.width = make_divisible(static_cast<double>(s.width), s.group_width);
  return stages;
}

/// A 1x1, a grouped 3x3 and a 1x1 convolution, all of one width.
struct Transform {
  Transform(std::int64_t in, const Stage& s, std::int64_t stride, bool squeeze)
      : a(conv_norm(in, s.width, {.kernel = 1}, nn::ReLU())),
        b(conv_norm(s.width, s.width, {.stride = stride, .groups = s.width / s.group_width}, nn::ReLU())),
        c(conv_norm(s.width, s.width, {.kernel = 1})) {
    if (squeeze) se.emplace(s.width, in / 4, nn::ReLU(), nn::Sigmoid());
  }

  void parts(Parts& p) {
    p("a", a)("b", b);
    if (se) p("se", *se);
    p("c", c);
  }
  Tensor operator()(const Tensor& x) const {
    const Tensor y = b(a(x));
    return c(se ? (*se)(y) : y);
  }

  nn::Sequential a, b, c;
  std::optional<SqueezeExcitation> se;
};

struct Block {
  Block(std::int64_t in, const Stage& s, std::int64_t stride, bool squeeze) : f(in, s, stride, squeeze) {
    if (in != s.width || stride != 1) proj = conv_norm(in, s.width, {.kernel = 1, .stride = stride});
  }

  void parts(Parts& p) { p("proj", proj)("f", f); }
  Tensor operator()(const Tensor& x) const { return relu(proj(x) + f(x)); }

  nn::Sequential proj;
  Transform f;
};

struct RegNet {
  RegNet(const Design& design, bool squeeze, const Options& o)
      : stem(conv_norm(o.in_chans, 32, {.stride = 2}, nn::ReLU())), fc(head(stages_of(design), o.classes)) {
    std::int64_t in = 32;
    for (const Stage& s : stages_of(design)) {
      stages.emplace_back();
      for (int i = 0; i < s.depth; ++i) {
        stages.back().emplace_back(in, s, i == 0 ? 2 : 1, squeeze);
        in = s.width;
      }
    }
  }

  static nn::Linear head(const std::vector<Stage>& stages, std::int64_t classes) {
    return {stages.back().width,
            classes,
            {.init = [](const Shape&) { return nn::normal(0, 0.01); }, .bias_init = nn::zeros}};
  }

  void parts(Parts& p) {
    p("stem", stem);
    for (std::size_t i = 0; i < stages.size(); ++i)
      for (std::size_t j = 0; j < stages[i].size(); ++j)
        p(text("trunk_output.block", i + 1, ".block", i + 1, '-', j), stages[i][j]);
    p("fc", fc);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = stem(x);
    for (const std::vector<Block>& stage : stages)
      for (const Block& block : stage) y = block(y);
    return fc(flatten(global_avg_pool2d(y)));
  }

  nn::Sequential stem;
  std::vector<std::vector<Block>> stages;
  nn::Linear fc;
};

Entry regnet(std::string name, bool squeeze, const Design& design) {
  return {.name = std::move(name), .build = [=](const Options& o) { return RegNet(design, squeeze, o); }};
}

}  // namespace

Entries regnet_models() {
  return {regnet("regnet_x_400mf", false, {22, 24, 24.48, 2.54, 16}),
          regnet("regnet_x_800mf", false, {16, 56, 35.73, 2.28, 16}),
          regnet("regnet_x_1_6gf", false, {18, 80, 34.01, 2.25, 24}),
          regnet("regnet_x_3_2gf", false, {25, 88, 26.31, 2.25, 48}),
          regnet("regnet_x_8gf", false, {23, 80, 49.56, 2.88, 120}),
          regnet("regnet_x_16gf", false, {22, 216, 55.59, 2.1, 128}),
          regnet("regnet_x_32gf", false, {23, 320, 69.86, 2.0, 168}),
          regnet("regnet_y_400mf", true, {16, 48, 27.89, 2.09, 8}),
          regnet("regnet_y_800mf", true, {14, 56, 38.84, 2.4, 16}),
          regnet("regnet_y_1_6gf", true, {27, 48, 20.71, 2.65, 24}),
          regnet("regnet_y_3_2gf", true, {21, 80, 42.63, 2.66, 24}),
          regnet("regnet_y_8gf", true, {17, 192, 76.82, 2.19, 56}),
          regnet("regnet_y_16gf", true, {18, 200, 106.23, 2.48, 112}),
          regnet("regnet_y_32gf", true, {20, 232, 115.89, 2.53, 232}),
          regnet("regnet_y_128gf", true, {27, 456, 160.83, 2.52, 264})};
}

}  // namespace neurim::zoo
