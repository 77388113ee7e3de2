// Convolutions and fully connected layers of numbers of 8 bits: the activation and the weights come through a dequantize each,
// alone, and a residual may; what follows, a sum with the residual, a relu, and quantize, is one product with a scale for each
// channel (Jacob et al., see ops/quantize.h). Sums are whole and exact: the zero point of x, times the sum of a channel's
// weights, is where they begin.
//
// Three ways to x: convolutions of 1x1 kernels, and layers of features, read runs of pixels where they lie; other convolutions
// keep rows of it, padded (see ConvRows), pictures of few channels too; depthwise ones keep rows of words (see ChannelRows). Where words
// hold numbers of 16 bits (see bytes_together()), runs of pixels are copied too, and all are less the zero point.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "neurim/backend/cpu/block_product.h"
#include "neurim/backend/cpu/conv_rows.h"
#include "neurim/backend/cpu/conv_steps.h"
#include "neurim/backend/cpu/depthwise.h"
#include "neurim/backend/cpu/pair_weights.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/quantize.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kBand = 1 << 13,
                       kPictureBand = 1 << 15;               // words of x that are kept, where a row of the result needs no more
constexpr std::int64_t kTile = 1 << 14;                      // bytes of x that are read where they lie
constexpr std::int64_t kTerms = 1 << 16;                     // of a sum that i32 has
constexpr std::int64_t kPlane = 1 << 12;                     // words of a depthwise plane that are kept together

/// A value that stands for another: whole numbers and their scale, numbers of the site's values.
struct Whole {
  int value = -1, scale = -1;
  std::int64_t zero_point = 0;
};

/// The rows of x that a depthwise convolution keeps: [row mod kept()][column][16 channels], the words that neighbouring columns of the
/// kernel read, one of each channel. A kernel's row is cut in such runs, of which the last may be padded by weights of zero.
struct ChannelRows : ConvSizes {
  std::int64_t together = bytes_together();  ///< columns of a word
  std::int64_t runs() const { return (kernel[1] + together - 1) / together; }
  std::int64_t tap_count() const { return kernel[0] * runs(); }
  std::int64_t pixels_of_run() const { return together * options.dilation[1]; }
  /// Runs begin where windows do, so that a column is kept once; else each run keeps its own.
  bool shared() const { return pixels_of_run() % options.stride[1] == 0; }
  std::int64_t columns_of_run() const { return shared() ? pixels_of_run() / options.stride[1] : out_width; }
  std::int64_t columns() const { return out_width + (runs() - 1) * columns_of_run(); }
  std::int64_t row_size() const { return columns() * kLanes; }  ///< in words
  std::int64_t window() const { return (kernel[0] - 1) * options.dilation[0] + 1; }  ///< rows that one of the result reads
  /// Whether all rows of a plane are kept, and those of the result follow each other like columns.
  bool whole() const {
    return runs() == 1 && options.stride[0] == 1 && (out_height - 1 + window()) * row_size() <= kPlane;
  }
  std::int64_t kept() const { return whole() ? out_height - 1 + window() : window(); }
  /// Pixels of a padded row of x.
  std::int64_t line() const { return (out_width - 1) * options.stride[1] + (runs() * together - 1) * options.dilation[1] + 1; }

  /// Where the words of each tap lie for a window whose first row is kept at `first`.
  std::vector<std::int64_t> taps(std::int64_t first) const {
    std::vector<std::int64_t> all;
    for (std::int64_t row = 0; row < kernel[0]; ++row)
      for (std::int64_t run = 0; run < runs(); ++run)
        all.push_back((first + row * options.dilation[0]) % kept() * row_size() + run * columns_of_run() * kLanes);
    return all;
  }

  /// The weights of all blocks: [block][row][run][16 channels], in words.
  std::vector<std::uint32_t> pack(const std::int8_t* weights) const {
    std::vector<std::uint32_t> all(static_cast<std::size_t>(blocks_of(out_channels) * tap_count() * kLanes));
    const std::int64_t bits = 32 / together;
    for (std::int64_t channel = 0; channel < out_channels; ++channel)
      for (std::int64_t row = 0; row < kernel[0]; ++row)
        for (std::int64_t column = 0; column < kernel[1]; ++column, ++weights)
          all[static_cast<std::size_t>(((channel / kLanes * kernel[0] + row) * runs() + column / together) * kLanes + channel % kLanes)] |=
              (static_cast<std::uint32_t>(*weights) & ((1u << bits) - 1)) << (column % together * bits);
    return all;
  }
};

/// The site, as far as its types tell.
struct Chain {
  Whole x, weight, residual, y;  ///< y: where there is no quantize, the value alone
  int bias = -1;
  Relu relu;
  bool linear = false, depthwise = false;
  ConvSizes sizes;  ///< of a fully connected layer: a 1x1 convolution of rows of features

  bool plain = false;  ///< the features of a row stand together
  bool picture() const { return sizes.picture(); }
  bool in_place() const { return linear || (sizes.pixelwise() && !depthwise && !picture()); }
};

const Spec& spec(const Site& site, int value) { return site.values[static_cast<std::size_t>(value)]; }
/// One constant number.
bool is_number(const Spec& spec) { return spec.constant && spec.type.dtype == DType::f32 && spec.type.shape.numel() == 1; }

/// What stands for a value before `last`; nothing: the value is none that a dequantize makes of bytes for this site.
bool read_whole(const Site& site, int value, std::size_t last, Whole& whole) {
  for (std::size_t s = 0; s < last; ++s) {
    const Step& step = site.steps[s];
    if (step.out[0] != value || step.op->name() != "dequantize") continue;
    whole = {step.in[0], step.in[1], static_cast<const Dequantize&>(*step.op).zero_point};
    return is_byte(spec(site, whole.value).type.dtype) && spec(site, whole.scale).type.dtype == DType::f32;
  }
  return false;
}

/// Null, or why not. What stands behind the anchor.
const char* read_behind(const Site& site, Chain& chain) {
  int value = site.steps[static_cast<std::size_t>(site.anchor)].out[0];
  bool done = false;
  for (std::size_t s = static_cast<std::size_t>(site.anchor) + 1; s < site.steps.size(); ++s) {
    const Step& step = site.steps[s];
    if (step.op->name() == "dequantize") continue;  // of the residual
    if (done || site.place_out(value) >= 0) return "takes quantize at the end";
    if (std::find(step.in.begin(), step.in.end(), value) == step.in.end()) return "takes steps one behind the other";
    if (step.op->name() == "add" && chain.residual.value < 0 && !chain.relu.on && !chain.plain) {
      const int other = step.in[0] == value ? step.in[1] : step.in[0];
      if (other == value || !read_whole(site, other, s, chain.residual) || chain.residual.value == chain.weight.value ||
          !is_number(spec(site, chain.residual.scale)) ||
          spec(site, chain.residual.value).type.shape != spec(site, value).type.shape)
        return "adds a residual of bytes of the same shape";
    } else if (step.op->name() == "quantize" && step.in[0] == value) {
      if (!is_number(spec(site, step.in[1]))) return "takes one constant scale of the result";
      chain.y = {step.out[0], step.in[1], static_cast<const Quantize&>(*step.op).zero_point};
      done = true;
    } else if (chain.relu.on || !read_relu(*step.op, chain.relu)) {
      return "takes a sum with a residual, a relu and quantize behind it";
    }
    value = step.out[0];
  }
  if (!done) chain.y = {value};
  return nullptr;
}

/// The same of the whole site.
const char* read_chain(const Site& site, Chain& chain) {
  const auto anchor = static_cast<std::size_t>(site.anchor);
  const Step& step = site.steps[anchor];
  chain.linear = site.op().name() == "linear";
  if (anchor != 2 || !read_whole(site, step.in[0], anchor, chain.x) || !read_whole(site, step.in[1], anchor, chain.weight))
    return "takes an activation and weights that dequantize makes of bytes";
  if (chain.x.value == chain.weight.value) return "takes two operands";
  const Spec &x = spec(site, chain.x.value), &weight = spec(site, chain.weight.value), &scale = spec(site, chain.weight.scale);
  const Shape &in = x.type.shape, &of = weight.type.shape, &out = spec(site, step.out[0]).type.shape;
  if (!is_number(spec(site, chain.x.scale))) return "takes one constant scale of the activation";
  if (weight.type.dtype != DType::i8 || chain.weight.zero_point != 0 || !weight.constant)
    return "takes constant weights of i8 around 0";
  const bool per_channel =
      scale.type.shape.rank() == of.rank() && scale.type.shape[0] == of[0] && scale.type.shape.numel() == of[0];
  if (!scale.constant || !(per_channel || is_number(scale)))
    return "takes a constant scale of the weights, one or one an output channel";
  if (step.in.size() == 3) {
    chain.bias = step.in[2];
    if (!spec(site, chain.bias).constant || spec(site, chain.bias).type.dtype != DType::f32)
      return "takes a constant bias of f32";
  }
  if (in.numel() == 0 || out.numel() == 0) return "takes no empty tensors";
  if (chain.linear) {
    if (in.rank() > 3) return "takes rows of features, or such of images";
    chain.plain = in.rank() < 3;
    const std::int64_t images = chain.plain ? 1 : in[0], rows = in.numel() / of[1] / images;
    chain.sizes = {images, of[1], of[0], 1, rows, 1, rows, {}, {1, 1}};
  } else {
    chain.sizes = sizes_of(site);
  }
  const ConvSizes& g = chain.sizes;
  chain.depthwise = g.options.groups > 1 && of[0] == g.options.groups && of[1] == 1;
  if (g.options.groups != 1 && !chain.depthwise) return "takes no groups but one filter a channel";
  if (!fills_blocks(g.out_channels) || !(chain.picture() || fills_blocks(g.in_channels)))
    return "takes 8 channels and more or pictures";
  if (chain.picture() && g.options.dilation[1] != 1) return "takes kernels without holes over pictures";
  if (of.numel() / of[0] > kTerms) return "takes sums that 32 bits have";
  return read_behind(site, chain);
}

Layout layout_of(const Site& site, const Chain& chain, int value) {
  const Type& type = spec(site, value).type;
  if (value == chain.weight.value) return chain.depthwise ? Layout{} : byte_weights(type, chain.picture());
  const bool activation = (value == chain.x.value && !chain.picture()) || value == chain.residual.value || value == chain.y.value;
  return !activation || chain.plain ? Layout{} : chain.linear ? kFeatures : kBlocked;
}

bool wants(Site& site) {
  Chain chain;
  if (const char* why = read_chain(site, chain)) return decline(site, why), false;
  ask_layouts(site, layout_of, chain);
  return true;
}

struct ByteConv {
  ConvRows g;
  enum Way : std::uint8_t { rows_of_x, in_place, by_channels } way;
  bool plain;                       ///< see Chain
  int x, weight, residual, y;       ///< arguments; residual: or -1
  std::uint8_t flip;                ///< makes u8 of the bits of x
  std::uint8_t zero;                ///< of x, then
  std::int64_t words = kLanes / bytes_together();  ///< of a pixel in a block, as products read x
  std::vector<std::int32_t> start;  ///< of each channel, as are the next two: see ByteEpilogue
  std::vector<float> scale, bias;
  ByteEpilogue epilogue;
  std::int64_t rows;  ///< of the result in a band
  std::vector<std::int64_t> taps;  ///< of a depthwise convolution for each place of a window's first row
  std::vector<std::uint32_t> filters;  ///< ChannelRows::pack()
  struct Part {
    Run run;
    std::vector<Tile> tiles;
  };
  std::vector<Part> parts;
  std::size_t own;  ///< bytes of a part's scratch

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& all = *static_cast<const ByteConv*>(self);
    auto* const room = static_cast<std::uint8_t*>(args.scratch) + static_cast<std::size_t>(part) * all.own;
    const Part& what = all.parts[static_cast<std::size_t>(part)];
    switch (all.way) {
      case rows_of_x:
        return all.run_rows(args, what, room);
      case in_place:
        return all.run_in_place(args, what, room);
      case by_channels:
        return all.run_depthwise(args, what, room);
    }
  }

  const std::uint8_t* in(const Args& args, int argument) const {
    return static_cast<const std::uint8_t*>(args.in[static_cast<std::size_t>(argument)]);
  }
  std::uint8_t* out(const Args& args, std::int64_t at) const {
    return static_cast<std::uint8_t*>(args.out[static_cast<std::size_t>(y)]) + (epilogue.floats ? at * 4 : at);
  }

  /// The epilogue of blocks from `block` on, whose results lie from element `at` on.
  ByteEpilogue after(const Args& args, std::int64_t block, std::int64_t at) const {
    ByteEpilogue result = epilogue;
    const std::int64_t channel = block * kLanes;
    result.start = start.data() + channel, result.scale = scale.data() + channel, result.bias = bias.data() + channel;
    result.channels = g.out_channels - channel;
    if (residual >= 0) result.add = in(args, residual) + at;
    return result;
  }

  /// Copies pixels that lie `apart` bytes from each other in x, as u8.
  void copy(const std::uint8_t* from, std::int64_t apart, std::int64_t pixels, std::uint8_t* to) const {
    if (apart == kLanes && flip == 0) {
      std::memcpy(to, from, static_cast<std::size_t>(pixels * kLanes));
      return;
    }
    const std::uint64_t flips = flip * 0x0101010101010101u;
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel, from += apart, to += kLanes) {
      std::uint64_t half[2];
      std::memcpy(half, from, sizeof half);
      half[0] ^= flips, half[1] ^= flips;
      std::memcpy(to, half, sizeof half);
    }
  }

  bool widens() const { return words != kLanes / 4; }
  /// What stands for the zero point in products.
  int padding() const { return widens() ? 0 : zero; }
  /// Copies such pixels as products read them.
  void copy_words(const std::uint8_t* from, std::int64_t apart, std::int64_t pixels, std::uint8_t* to) const {
    if (widens())
      NEURIM_DISPATCH(widen_bytes)(from, apart, pixels, flip, zero, reinterpret_cast<std::int16_t*>(to));
    else
      copy(from, apart, pixels, to);
  }

  // --- runs of pixels ---

  void run_in_place(const Args& args, const Part& part, std::uint8_t* room) const {
    const std::int64_t pixels = g.out_width * g.out_height, weight_block = g.in_blocks() * kLanes * words;
    for (const Tile& tile : part.tiles)
      for (std::int64_t i = 0; i < tile.images; ++i) {
        const std::int64_t image = tile.image + i;
        const std::uint8_t* from = in(args, x) + (image * g.in_blocks() * pixels + tile.unit) * kLanes;
        std::int64_t x_block = pixels * words;
        if (copies()) from = made(args, image, tile, room), x_block = tile.units * words;
        const std::int64_t block_size = plain ? kLanes : pixels * kLanes;
        const BlockProduct product{.rows = tile.units,
                                   .in_channels = g.in_channels,
                                   .x_block = x_block,
                                   .weight_block = weight_block,
                                   .y_block = block_size,
                                   .y_row = plain ? g.out_channels : kLanes};
        for (std::int64_t block = part.run.first_block; block < part.run.last_block; block += g.together()) {
          const std::int64_t blocks = std::min(g.together(), part.run.last_block - block),
                             at = plain ? tile.unit * g.out_channels + block * kLanes
                                        : (image * g.out_blocks() * pixels + tile.unit) * kLanes + block * block_size;
          NEURIM_DISPATCH(byte_product)
          (product, blocks, from, in(args, weight) + block * weight_block * 4, after(args, block, at), out(args, at));
        }
      }
  }

  /// Whether x is not read where it lies.
  bool copies() const { return flip || plain || widens(); }

  /// The pixels of a tile in blocks, as products read them.
  const std::uint8_t* made(const Args& args, std::int64_t image, const Tile& tile, std::uint8_t* room) const {
    const std::int64_t pixels = g.out_width * g.out_height;
    std::uint8_t* to = room;
    for (std::int64_t block = 0; block < g.in_blocks(); ++block, to += tile.units * words * 4) {
      if (!plain) {
        copy_words(in(args, x) + ((image * g.in_blocks() + block) * pixels + tile.unit) * kLanes, kLanes, tile.units, to);
        continue;
      }
      const std::int64_t channels = std::min(kLanes, g.in_channels - block * kLanes);
      for (std::int64_t row = 0; row < tile.units; ++row) {
        std::uint8_t pixel[kLanes] = {};
        std::memcpy(pixel, in(args, x) + (tile.unit + row) * g.in_channels + block * kLanes, static_cast<std::size_t>(channels));
        copy_words(pixel, kLanes, 1, to + row * words * 4);
      }
    }
    return room;
  }

  // --- rows ---

  void run_rows(const Args& args, const Part& part, std::uint8_t* band) const {
    for (std::int64_t at = part.run.first; at < part.run.last;) {
      const std::int64_t image = at / g.out_height, row = at % g.out_height,
                         count = std::min({rows, g.out_height - row, part.run.last - at}), kept = g.rows(count),
                         weight_block = g.in_blocks() * g.tap_count() * kLanes * words,
                         plane = g.out_height * g.out_width * kLanes;
      g.picture() ? fill_of_picture(args, image, row, kept, band) : fill(args, image, row, kept, band);
      const BlockProduct product{.rows = g.out_width,
                                 .in_channels = g.depth(),
                                 .x_block = kept * g.row_size(),
                                 .weight_block = weight_block,
                                 .y_block = plane,
                                 .taps = taps.data(),
                                 .tap_count = g.tap_count()};
      for (std::int64_t block = part.run.first_block; block < part.run.last_block; block += g.together())
        for (std::int64_t r = 0; r < count; ++r) {
          const std::int64_t to = (image * g.out_blocks() + block) * plane + (row + r) * g.out_width * kLanes;
          NEURIM_DISPATCH(byte_product)
          (product, std::min(g.together(), part.run.last_block - block), band + r * g.row_step() * g.row_size() * 4,
           in(args, weight) + block * weight_block * 4, after(args, block, to), out(args, to));
        }
      at += count;
    }
  }

  /// The rows of x that are read from row `row` of the result on.
  void fill(const Args& args, std::int64_t image, std::int64_t row, std::int64_t count, std::uint8_t* to) const {
    for (std::int64_t block = 0; block < g.in_blocks(); ++block) {
      const std::uint8_t* const plane = in(args, x) + (image * g.in_blocks() + block) * g.height * g.width * kLanes;
      to = g.fill_block(row, count, padding(), to, [&](std::int64_t pixel, std::int64_t apart, std::int64_t pixels, std::uint8_t* at) {
        copy_words(plane + pixel * kLanes, apart * kLanes, pixels, at);
      });
    }
  }

  /// The same of a picture, plain planes.
  void fill_of_picture(const Args& args, std::int64_t image, std::int64_t row, std::int64_t count, std::uint8_t* to) const {
    const std::int64_t plane = g.height * g.width, row_bytes = g.row_size() * 4;
    const auto [all, first, last] = g.windows();
    std::uint8_t* const line = to + g.band_size(rows) * 4;
    for (std::int64_t r = 0; r < count; ++r, to += row_bytes) {
      const std::int64_t in_row = row * g.options.stride[0] - g.options.pad[0] + r * g.row_distance();
      std::memset(line, zero ^ flip, line_size());
      if (in_row >= 0 && in_row < g.height)
        for (std::int64_t channel = 0; channel < g.in_channels; ++channel) {
          const std::uint8_t* const from = in(args, x) + (image * g.in_channels + channel) * plane + in_row * g.width;
          for (std::int64_t pixel = first; pixel < last; ++pixel)
            line[pixel * g.in_channels + channel] = from[pixel - first];
        }
      for (std::int64_t block = 0; block < g.in_blocks(); ++block)
        copy_words(line + block * kLanes, g.options.stride[1] * g.in_channels, g.columns(), to + block * count * row_bytes);
    }
  }
  /// A padded row of a picture, pixel by pixel, and what a block reads behind it; the weights of those bytes are zero.
  std::size_t line_size() const { return static_cast<std::size_t>(g.windows().all * g.in_channels + 2 * kLanes); }

  // --- depthwise ---

  void run_depthwise(const Args& args, const Part& part, std::uint8_t* room) const {
    const ChannelRows of_x{g};
    const std::int64_t kept = of_x.kept(), window = of_x.window(), tap_count = of_x.tap_count();
    const bool whole = of_x.whole();
    std::uint8_t* const line = room + kept * of_x.row_size() * 4;
    std::memset(line, zero, static_cast<std::size_t>(of_x.line() * kLanes));
    std::int64_t made = 0;  // rows of the plane before this one are kept, those that are still read
    for (std::int64_t at = part.run.first; at < part.run.last;) {
      const std::int64_t plane = at / g.out_height, row = at % g.out_height, block = plane % g.out_blocks(),
                         count = whole ? std::min(g.out_height - row, part.run.last - at) : 1, top = row * g.options.stride[0],
                         to = (plane * g.out_height + row) * g.out_width * kLanes;
      if (row == 0) made = 0;
      for (made = std::max(made, top); made < top + count - 1 + window; ++made)
        make_row(args, plane, made, line, room + made % kept * of_x.row_size() * 4);
      const BlockProduct product{.rows = count * g.out_width, .taps = taps.data() + top % kept * tap_count, .tap_count = tap_count};
      NEURIM_DISPATCH(channel_product)(product, room, filters.data() + block * tap_count * kLanes, after(args, block, to), out(args, to));
      at += count;
    }
  }

  /// The words of a row, counted from the first one of padding; `line` is padded.
  void make_row(const Args& args, std::int64_t plane, std::int64_t row, std::uint8_t* line, std::uint8_t* to) const {
    const ChannelRows of_x{g};
    const std::int64_t in_row = row - g.options.pad[0], pixels = of_x.line(), first = std::min(g.options.pad[1], pixels),
                       last = std::min(g.options.pad[1] + g.width, pixels);
    if (in_row < 0 || in_row >= g.height) {
      std::memset(to, padding(), static_cast<std::size_t>(of_x.row_size() * 4));
      return;
    }
    copy(in(args, x) + (plane * g.height + in_row) * g.width * kLanes, kLanes, last - first, line + first * kLanes);
    const std::int64_t runs = of_x.shared() ? 1 : of_x.runs(), columns = of_x.columns() / runs;
    for (std::int64_t run = 0; run < runs; ++run)
      NEURIM_DISPATCH(words_of_channels)
      (line + run * of_x.pixels_of_run() * kLanes, columns, g.options.stride[1], g.options.dilation[1], zero, to + run * columns * kLanes * 4);
  }
};

/// Of each channel what the sums begin with and are multiplied by; false: a number is not finite, or too large.
bool set_channels(const Site& site, const Chain& chain, ByteConv& own) {
  const auto number = [&](int value, std::int64_t i) {
    const Spec& of = spec(site, value);
    return double{static_cast<const float*>(of.known)[of.type.shape.numel() == 1 ? 0 : i]};
  };
  const std::int64_t channels = chain.sizes.out_channels, lanes = blocks_of(channels) * kLanes;
  const bool bytes = chain.y.scale >= 0;
  const double y_scale = bytes ? number(chain.y.scale, 0) : 1, x_scale = number(chain.x.scale, 0);
  bool finite = y_scale > 0;
  const auto narrow = [&](double value) {  // times any sum it is finite
    finite = finite && std::abs(value) < std::exp2(96);
    return static_cast<float>(value);
  };
  if (chain.residual.value >= 0) {
    const bool of_i8 = spec(site, chain.residual.value).type.dtype == DType::i8;
    own.epilogue.add_flip = of_i8 ? 0x80 : 0;
    own.epilogue.add_zero = static_cast<float>(chain.residual.zero_point + (of_i8 ? 128 : 0));
    own.epilogue.add_scale = narrow(number(chain.residual.scale, 0) / y_scale);
  }
  own.start.assign(static_cast<std::size_t>(lanes), 0);
  own.scale.assign(static_cast<std::size_t>(lanes), 0), own.bias.assign(static_cast<std::size_t>(lanes), 0);
  for (std::int64_t c = 0; c < channels; ++c) {
    own.scale[static_cast<std::size_t>(c)] = narrow(x_scale * number(chain.weight.scale, c) / y_scale);
    own.bias[static_cast<std::size_t>(c)] = narrow(chain.bias < 0 ? 0 : number(chain.bias, c) / y_scale);
  }
  const auto* const weights = static_cast<const std::int8_t*>(spec(site, chain.weight.value).known);
  if (chain.depthwise) own.filters = ChannelRows{own.g}.pack(weights);
  if (!own.widens()) {
    const std::int64_t quads = chain.depthwise ? ChannelRows{own.g}.tap_count()
                                               : own.g.in_blocks() * own.g.tap_count() * own.words;  // of a channel: [block][quad][16 channels][4]
    const auto* weight = chain.depthwise ? reinterpret_cast<const std::int8_t*>(own.filters.data()) : weights;
    for (std::int64_t block = 0; block < lanes; block += kLanes)
      for (std::int64_t quad = 0; quad < quads; ++quad)
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
          for (int i = 0; i < 4; ++i) own.start[static_cast<std::size_t>(block + lane)] -= own.zero * *weight++;
  }
  // Within u8, less the zero point that is added to them.
  const bool of_i8 = spec(site, chain.y.value).type.dtype == DType::i8;
  own.epilogue.zero = static_cast<std::int32_t>(chain.y.zero_point + (of_i8 ? 128 : 0)), own.epilogue.flip = of_i8 ? 0x80 : 0;
  const float low = bytes ? static_cast<float>(-own.epilogue.zero) : -std::numeric_limits<float>::infinity(), high = bytes ? low + 255 : kNoLimit;
  own.epilogue.least = chain.relu.on ? std::max(low, 0.0f) : low;
  own.epilogue.most = chain.relu.most == chain.relu.most ? static_cast<float>(std::fmin(high, chain.relu.most / y_scale)) : high;
  own.epilogue.floats = !bytes;
  return finite;
}

Launch prepare(Site& site) {
  Chain chain;
  if (const char* why = read_chain(site, chain)) return decline(site, why);
  if (!has_layouts(site, layout_of, chain)) return decline(site, "takes blocks of 16 channels");
  auto all = std::make_shared<ByteConv>();
  ConvRows& g = all->g = {chain.sizes, all->words};
  all->way = chain.depthwise    ? ByteConv::by_channels
             : chain.in_place() ? ByteConv::in_place
                                : ByteConv::rows_of_x,
  all->plain = chain.plain;
  all->x = site.place_in(chain.x.value), all->weight = site.place_in(chain.weight.value), all->y = site.place_out(chain.y.value);
  for (const Whole& whole : {chain.x, chain.weight, chain.residual, chain.y})
    if (whole.scale >= 0 && !spec(site, whole.scale).known) return decline(site, "takes known weights and scales");
  all->residual = chain.residual.value < 0 ? -1 : site.place_in(chain.residual.value);
  const bool of_i8 = spec(site, chain.x.value).type.dtype == DType::i8;
  all->flip = of_i8 ? 0x80 : 0, all->zero = static_cast<std::uint8_t>(chain.x.zero_point + (of_i8 ? 128 : 0));
  if (!set_channels(site, chain, *all))
    return decline(site, "takes scales and biases below 2^96, and a positive scale of the result");
  all->epilogue.cut = chain.plain;

  Behind nothing;  // is left behind the product
  std::size_t room = 0;
  if (all->way == ByteConv::by_channels) {
    const ChannelRows of_x{g};
    for (std::int64_t first = 0; first < of_x.kept(); ++first)
      for (const std::int64_t tap : of_x.taps(first)) all->taps.push_back(tap);
    room = static_cast<std::size_t>(of_x.kept() * of_x.row_size() * 4 + of_x.line() * kLanes);
    const std::int64_t units = g.images * g.out_blocks() * g.out_height;
    const int parts = parts_of(site, depthwise_work(depthwise_shape(g)), units);
    for (int i = 0; i < parts; ++i)
      all->parts.push_back({{part_begin(units, parts, i), part_begin(units, parts, i + 1), 0, 0}, {}});
  } else if (all->way == ByteConv::in_place) {
    const std::int64_t pixels = g.out_height * g.out_width,
                       together = std::max<std::int64_t>(kTile / (g.in_blocks() * kLanes), 56);
    std::int64_t most = 0;
    for (const Run& run : nothing.cut(site, g.images, pixels, 1, g.out_channels)) {
      all->parts.push_back({run, cut_tiles(run.first, run.last, pixels, together)});
      for (const Tile& tile : all->parts.back().tiles) most = std::max(most, tile.units);
    }
    if (all->copies()) room = static_cast<std::size_t>(most * g.in_blocks() * all->words) * 4;
  } else {
    for (const Run& run : nothing.cut(site, g.images, g.out_height, g.out_width, g.out_channels)) all->parts.push_back({run, {}});
    all->taps = g.taps(), all->rows = g.band_rows(g.picture() ? kPictureBand : kBand);
    room = static_cast<std::size_t>(g.band_size(all->rows)) * 4 + (g.picture() ? all->line_size() : 0);
  }
  all->own = whole_lines(room);
  site.scratch = all->own * all->parts.size();
  site.rounds = DType::i8;
  return {ByteConv::run, all, static_cast<int>(all->parts.size())};
}

}  // namespace

void cpu_byte_conv() {
  for (const char* op : {"conv2d", "linear"})
    add({.op = op, .name = "cpu int8", .rank = 40, .prepare = prepare, .wants = wants, .chains = true, .prologues = true});
}

}  // namespace neurim
