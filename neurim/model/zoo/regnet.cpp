// Radosavovic et al., "Designing network design spaces", CVPR'20, RegNetX and RegNetY (with squeeze and
// excitation), as torchvision has them, and as timm has them.
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
/// `step`. `nearest`: a multiple of its groups' is the nearest one, as in timm and in the authors' code.
struct Design {
  int depth;
  double start, slope, step;
  std::int64_t group_width;
  bool nearest = false;
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
    if (stages.empty() || stages.back().width != width) stages.push_back({width, std::min(d.group_width, width), 0});
    ++stages.back().depth;
  }
  for (Stage& s : stages) {
    const auto width = static_cast<double>(s.width), group = static_cast<double>(s.group_width);
    s.width = d.nearest ? s.group_width * static_cast<std::int64_t>(std::nearbyint(width / group))
                        : make_divisible(width, s.group_width);
  }
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

Renames timm_names(const Design& design) {
  Renames names{{"stem.0", "stem.conv"}, {"stem.1", "stem.bn"}, {"fc", "head.fc"}};
  const std::vector<Stage> stages = stages_of(design);
  for (std::size_t s = 1; s <= stages.size(); ++s)
    for (int i = 0; i < stages[s - 1].depth; ++i) {
      const std::string block = text("trunk_output.block", s, ".block", s, '-', i), there = text('s', s, ".b", i + 1);
      names[block + ".f.se"] = there + ".se";
      const auto add = [&](const char* here, const char* timm) {
        names[text(block, here, ".0")] = text(there, timm, ".conv");
        names[text(block, here, ".1")] = text(there, timm, ".bn");
      };
      add(".proj", ".downsample");
      add(".f.a", ".conv1");
      add(".f.b", ".conv2");
      add(".f.c", ".conv3");
    }
  return names;
}

Entry regnet(std::string name, bool squeeze, const Design& design) {
  return {.name = std::move(name),
          .build = [=](const Options& o) { return RegNet(design, squeeze, o); },
          .other_names = [=] { return timm_names(design); }};
}

}  // namespace

Entries regnet_models() {
  struct Row {
    const char *name, *timm;
    bool squeeze;
    Design design;
  };
  Entries entries;
  for (const auto& [name, timm_name, squeeze, design] :
       {Row{"regnet_x_400mf", "regnetx_004_tv", false, {22, 24, 24.48, 2.54, 16}},
        Row{"regnet_x_800mf", "regnetx_008", false, {16, 56, 35.73, 2.28, 16}},
        Row{"regnet_x_1_6gf", "regnetx_016", false, {18, 80, 34.01, 2.25, 24}},
        Row{"regnet_x_3_2gf", "regnetx_032", false, {25, 88, 26.31, 2.25, 48}},
        Row{"regnet_x_8gf", "regnetx_080", false, {23, 80, 49.56, 2.88, 120}},
        Row{"regnet_x_16gf", "regnetx_160", false, {22, 216, 55.59, 2.1, 128}},
        Row{"regnet_x_32gf", "regnetx_320", false, {23, 320, 69.86, 2.0, 168}},
        Row{"regnet_y_400mf", "regnety_004", true, {16, 48, 27.89, 2.09, 8}},
        Row{"regnet_y_800mf", "regnety_008_tv", true, {14, 56, 38.84, 2.4, 16}},
        Row{"regnet_y_1_6gf", "regnety_016", true, {27, 48, 20.71, 2.65, 24}},
        Row{"regnet_y_3_2gf", "regnety_032", true, {21, 80, 42.63, 2.66, 24}},
        Row{"regnet_y_8gf", "regnety_080_tv", true, {17, 192, 76.82, 2.19, 56}},
        Row{"regnet_y_16gf", "regnety_160", true, {18, 200, 106.23, 2.48, 112}},
        Row{"regnet_y_32gf", "regnety_320", true, {20, 232, 115.89, 2.53, 232}},
        Row{"regnet_y_128gf", "regnety_1280", true, {27, 456, 160.83, 2.52, 264}}}) {
    entries.push_back(regnet(name, squeeze, design));
    entries.push_back(timm(entries.back(), timm_name));
  }
  entries.back().image_size = 384;
  entries.push_back(timm(regnet("", false, {22, 24, 24.48, 2.54, 16, true}), "regnetx_004"));
  entries.push_back(timm(regnet("", true, {14, 56, 38.84, 2.4, 16, true}), "regnety_008"));
  entries.push_back(timm(regnet("", true, {17, 192, 76.82, 2.19, 56, true}), "regnety_080"));
  return entries;
}

}  // namespace neurim::zoo
