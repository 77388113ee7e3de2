// Liu et al., "Swin Transformer: hierarchical vision transformer using shifted windows", ICCV'21, as
// torchvision and as timm have it. Between the first layer and the last norm, images are (N,H,W,C).
#include <cmath>

#include "neurim/model/zoo/entry.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/norm.h"
#include "neurim/nn/sequential.h"
#include "neurim/ops/add.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/dropout.h"
#include "neurim/ops/embedding.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/pad.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/softmax.h"
#include "neurim/ops/transpose.h"

namespace neurim::zoo {

namespace {

constexpr std::int64_t kWindow = 7, kTokens = kWindow * kWindow;

nn::Init fiftieth(const Shape&) { return nn::trunc_normal(0, 0.02); }

nn::Linear dense(std::int64_t in, std::int64_t out, bool bias = true) {
  return {in, out, {.bias = bias, .init = fiftieth, .bias_init = nn::zeros}};
}

/// x(N,H,W,C) with zeros below and to the right, or without its last rows and columns.
Tensor fitted(const Tensor& x, std::int64_t height, std::int64_t width) {
  const std::int64_t below = height - x.size(1), right = width - x.size(2);
  return below || right ? pad(x, {0, 0, 0, 0, 0, below, right, 0}) : x;
}

/// x with its first `count` slices along the axis after the others.
Tensor rolled(const Tensor& x, int axis, std::int64_t count) {
  const std::int64_t size = x.size(axis);
  if (count == 0) return x;
  return concat({slice(x, {count}, {size}, {axis}), slice(x, {0}, {count}, {axis})}, axis);
}

/// How an image (height, width), multiples of the window, lies in windows that are shifted on each axis.
struct Windows {
  std::int64_t height, width, shift_y, shift_x;

  std::int64_t rows() const { return height / kWindow; }
  std::int64_t columns() const { return width / kWindow; }
  bool shifted() const { return shift_y || shift_x; }

  /// x(N,H,W,C) with its first pixels, which the windows leave out by their shift, after the others.
  Tensor shift(const Tensor& x) const { return rolled(rolled(x, 1, shift_y), 2, shift_x); }
  /// The inverse of shift.
  Tensor unshift(const Tensor& x) const {
    const auto back = [](std::int64_t size, std::int64_t count) { return (size - count) % size; };
    return rolled(rolled(x, 1, back(x.size(1), shift_y)), 2, back(x.size(2), shift_x));
  }

  /// (N,height,width,C) -> (N*rows*columns,kTokens,C)
  Tensor cut(const Tensor& x) const {
    const Dim n = x.size(0), c = x.size(3);
    const Tensor windows = transpose(reshape(x, {n, rows(), kWindow, columns(), kWindow, c}), {0, 1, 3, 2, 4, 5});
    return reshape(windows, {n * rows() * columns(), kTokens, c});
  }
  /// The inverse of cut.
  Tensor join(const Tensor& x) const {
    const Dim n = x.size(0) / (rows() * columns()), c = x.size(2);
    const Tensor y = transpose(reshape(x, {n, rows(), columns(), kWindow, kWindow, c}), {0, 1, 3, 2, 4, 5});
    return reshape(y, {n, height, width, c});
  }

  /// (rows*columns,1,kTokens,kTokens), for logits of attention: -100 between pixels that only the shift has
  /// brought into one window.
  Tensor mask(Device device) const {
    // The parts of an axis that were apart: what the shift left in whole windows, and the two in the last
    // one.
    const auto part = [](std::int64_t place, std::int64_t size, std::int64_t shift) {
      return shift == 0 || place < size - kWindow ? 0 : place < size - shift ? 1 : 2;
    };
    std::vector<float> values;
    values.reserve(rows() * columns() * kTokens * kTokens);
    for (std::int64_t window = 0; window < rows() * columns(); ++window) {
      const std::int64_t top = window / columns() * kWindow, left = window % columns() * kWindow;
      const auto region = [&](std::int64_t token) {
        return 3 * part(top + token / kWindow, height, shift_y) + part(left + token % kWindow, width, shift_x);
      };
      for (std::int64_t i = 0; i < kTokens; ++i)
        for (std::int64_t j = 0; j < kTokens; ++j) values.push_back(region(i) == region(j) ? 0.f : -100.f);
    }
    return Tensor::from({rows() * columns(), 1, kTokens, kTokens}, values, device);
  }
};

/// Of pixels to those of their window, by content and by place. `shift`: how far the windows are moved, where
/// there is more than one. timm's files have no index, and timm pads the shifted image where torchvision shifts
/// the padded one: those of 224x224 need no padding.
struct Attention {
  Attention(std::int64_t channels, std::int64_t heads_, std::int64_t shift_, bool of_timm)
      : relative_position_bias_table(nn::parameter({kPlaces * kPlaces, heads_}, nn::trunc_normal(0, 0.02))),
        relative_position_index(of_timm ? Tensor() : index()),
        qkv(dense(channels, 3 * channels)),
        proj(dense(channels, channels)),
        heads(heads_),
        shift(shift_),
        shift_first(of_timm) {}

  /// Which row of the table each pair of pixels of a window has.
  static Tensor index(Device device = {}) {
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < kTokens; ++i)
      for (std::int64_t j = 0; j < kTokens; ++j)
        rows.push_back((i / kWindow - j / kWindow + kWindow - 1) * kPlaces + i % kWindow - j % kWindow + kWindow - 1);
    return Tensor::from(Shape{kTokens * kTokens}, rows, device);
  }

  void parts(Parts& p) {
    p("relative_position_bias_table", relative_position_bias_table, nn::trunc_normal(0, 0.02));
    p("relative_position_index", relative_position_index, Role::state);
    p("qkv", qkv)("proj", proj);
  }

  Tensor operator()(const Tensor& x) const {
    const auto whole = [](std::int64_t size) { return (size + kWindow - 1) / kWindow * kWindow; };
    const std::int64_t height = whole(x.size(1)), width = whole(x.size(2)), c = x.size(3);
    const Windows windows{height, width, height > kWindow ? shift : 0, width > kWindow ? shift : 0};
    const Tensor image = shift_first ? fitted(windows.shift(x), height, width)
                                     : windows.shift(fitted(x, height, width));
    const Tensor pixels = windows.cut(image), all = qkv(pixels);
    const Dim count = pixels.size(0);
    const auto of_heads = [&](std::int64_t which) {  // (count,heads,kTokens,c/heads)
      const Tensor part = slice(all, {which * c}, {(which + 1) * c}, {2});
      return transpose(reshape(part, {count, kTokens, heads, c / heads}), {0, 2, 1, 3});
    };
    const std::int64_t features = c / heads;
    const Tensor query = of_heads(0) * (1 / std::sqrt(static_cast<double>(features)));
    Tensor logits = matmul(query, of_heads(1), false, true) + bias(x.device());
    if (windows.shifted()) {
      const Dim n = count / (windows.rows() * windows.columns());
      const Tensor by_window = reshape(logits, {n, count / n, heads, kTokens, kTokens});
      logits = reshape(by_window + windows.mask(x.device()), logits.shape());
    }
    const Tensor seen = transpose(matmul(softmax(logits), of_heads(2)), {0, 2, 1, 3});
    const Tensor y = windows.join(proj(reshape(seen, {count, kTokens, c})));
    return shift_first ? windows.unshift(fitted(y, x.size(1), x.size(2)))
                       : fitted(windows.unshift(y), x.size(1), x.size(2));
  }

  /// (heads,kTokens,kTokens)
  Tensor bias(Device device) const {
    const Tensor places = relative_position_index ? relative_position_index : index(device);
    const Tensor rows = embedding(places, relative_position_bias_table);
    return transpose(reshape(rows, {kTokens, kTokens, heads}), {2, 0, 1});
  }

  static constexpr std::int64_t kPlaces = 2 * kWindow - 1;
  Tensor relative_position_bias_table, relative_position_index;
  nn::Linear qkv, proj;
  std::int64_t heads, shift;
  bool shift_first;
};

struct Block {
  Block(std::int64_t channels, Attention attention, double drop_rate)
      : norm1({channels}),
        norm2({channels}),
        attn(std::move(attention)),
        mlp(dense(channels, 4 * channels), nn::GELU(), nn::Dropout{0}, dense(4 * channels, channels)),
        rate(drop_rate) {}

  void parts(Parts& p) { p("norm1", norm1)("attn", attn)("norm2", norm2)("mlp", mlp); }
  Tensor operator()(const Tensor& x) const {
    const Tensor y = x + drop_path(attn(norm1(x)), rate);
    return y + drop_path(mlp(norm2(y)), rate);
  }

  nn::LayerNorm norm1, norm2;
  Attention attn;
  nn::Sequential mlp;
  double rate;
};

/// Halves the image: x(N,H,W,C) -> (N,ceil(H/2),ceil(W/2),2C).
struct PatchMerging {
  explicit PatchMerging(std::int64_t channels)
      : reduction(dense(4 * channels, 2 * channels, false)), norm({4 * channels}) {}

  void parts(Parts& p) { p("reduction", reduction)("norm", norm); }
  Tensor operator()(const Tensor& x) const {
    const std::int64_t height = (x.size(1) + 1) / 2 * 2, width = (x.size(2) + 1) / 2 * 2;
    const Tensor even = fitted(x, height, width);
    const auto pixels = [&](std::int64_t top, std::int64_t left) {
      return slice(even, {top, left}, {height, width}, {1, 2}, {2, 2});
    };
    return reduction(norm(concat({pixels(0, 0), pixels(1, 0), pixels(0, 1), pixels(1, 1)}, 3)));
  }

  nn::Linear reduction;
  nn::LayerNorm norm;
};

struct Config {
  std::int64_t channels, heads;  ///< of the first stage; each one doubles them
  std::array<int, 4> depths;
  bool of_timm = false;  ///< see Attention
};

nn::Sequential features_of(const Config& config, const Options& o) {
  int blocks = 0, before = 0;
  for (const int depth : config.depths) blocks += depth;
  std::int64_t channels = config.channels, heads = config.heads;
  nn::Sequential layers;
  layers.add(nn::Sequential(
      nn::Conv2d(o.in_chans, channels, {.kernel = 4, .stride = 4}),
      [](const Tensor& x) { return transpose(x, {0, 2, 3, 1}); }, nn::LayerNorm({channels})));
  for (const int depth : config.depths) {
    if (before > 0) {
      layers.add(PatchMerging(channels));
      channels *= 2;
      heads *= 2;
    }
    nn::Sequential stage;
    for (int i = 0; i < depth; ++i) {
      const double rate = o.drop_path * before++ / (blocks - 1);
      stage.add(Block(channels, {channels, heads, i % 2 == 0 ? 0 : kWindow / 2, config.of_timm}, rate));
    }
    layers.add(std::move(stage));
  }
  return layers;
}

struct Swin {
  Swin(const Config& config, const Options& o)
      : features(features_of(config, o)), norm({8 * config.channels}), head(dense(8 * config.channels, o.classes)) {}

  void parts(Parts& p) { p("features", features)("norm", norm)("head", head); }
  Tensor operator()(const Tensor& x) const {
    const Tensor image = transpose(norm(features(x)), {0, 3, 1, 2});
    return head(flatten(global_avg_pool2d(image)));
  }

  nn::Sequential features;
  nn::LayerNorm norm;
  nn::Linear head;
};

/// timm merges patches at the beginning of a stage, torchvision between two.
Renames timm_names(const Config& config) {
  Renames names{{"features.0.0", "patch_embed.proj"}, {"features.0.2", "patch_embed.norm"}, {"head", "head.fc"}};
  for (std::size_t s = 0; s < config.depths.size(); ++s) {
    const std::string stage = text("layers.", s);
    if (s > 0) names[text("features.", 2 * s)] = stage + ".downsample";
    for (int i = 0; i < config.depths[s]; ++i) {
      const std::string block = text("features.", 2 * s + 1, '.', i), there = text(stage, ".blocks.", i);
      names[block] = there;
      names[block + ".mlp.0"] = there + ".mlp.fc1";
      names[block + ".mlp.3"] = there + ".mlp.fc2";
    }
  }
  return names;
}

/// The index, which torchvision's files have, and older ones of timm beside the masks for images of 224x224.
std::map<std::string, Tensor> computed(const Config& config) {
  std::map<std::string, Tensor> tensors{{".relative_position_index", Attention::index()}};
  std::int64_t side = 224 / 4;
  for (std::size_t s = 0; side > kWindow; ++s, side /= 2) {
    const Tensor mask = Windows{side, side, kWindow / 2, kWindow / 2}.mask({});
    for (int i = 1; i < config.depths[s]; i += 2) tensors[text("layers.", s, ".blocks.", i, ".attn_mask")] = mask;
  }
  return tensors;
}

Entry swin(std::string name, const Config& config, double drop_path) {
  return {.name = std::move(name),
          .build = [=](const Options& o) { return Swin(config, o); },
          .drop_path = drop_path,
          .other_names = [=] { return timm_names(config); },
          .computed = [=] { return computed(config); }};
}

}  // namespace

Entries swin_models() {
  Entries entries;
  const auto add = [&](const char* name, const char* timm_name, Config config, double drop_path) {
    entries.push_back(swin(name, config, drop_path));
    config.of_timm = true;
    entries.push_back(timm(swin(name, config, drop_path), timm_name));
  };
  add("swin_t", "swin_tiny_patch4_window7_224", {96, 3, {2, 2, 6, 2}}, 0.2);
  add("swin_s", "swin_small_patch4_window7_224", {96, 3, {2, 2, 18, 2}}, 0.3);
  add("swin_b", "swin_base_patch4_window7_224", {128, 4, {2, 2, 18, 2}}, 0.5);
  return entries;
}

}  // namespace neurim::zoo
