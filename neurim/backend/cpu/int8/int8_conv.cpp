// Convolutions and fully connected layers of 8-bit values (see int8_group.h). Sums are exact i32 and start from the
// zero point of x times the sum of a channel's weights.
//
// x is read in one of three ways: 1x1 convolutions and layers of features read runs of pixels in place; other
// convolutions, also of images with few channels, keep padded rows of it (see ConvRows); depthwise ones keep rows of
// words (see ChannelRows). Where words hold 16-bit values (see bytes_together()), runs of pixels are copied too, less
// the zero point.
#include <algorithm>
#include <cstring>
#include <vector>

#include "neurim/backend/cpu/common/conv_rows.h"
#include "neurim/backend/cpu/common/conv_steps.h"
#include "neurim/backend/cpu/common/int8_group.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/conv/depthwise.h"
#include "neurim/backend/cpu/packing/vnni_weights.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kBand = 1 << 13,
                       kImageBand = 1 << 15;  // words of x that are kept, unless a row of the result needs more
constexpr std::int64_t kTile = 1 << 14;       // bytes of x that are read in place
constexpr std::int64_t kPlane = 1 << 12;      // words of a depthwise plane that are kept together

/// The rows of x that a depthwise convolution keeps: [row mod kept_rows()][column][16 channels], words of neighbouring
/// kernel columns, one word for each channel. A kernel row is cut into runs of such columns; the last may be padded
/// with weights of zero.
struct ChannelRows : ConvSizes {
  std::int64_t together = bytes_together();  ///< columns of a word
  std::int64_t runs() const { return (kernel[1] + together - 1) / together; }
  std::int64_t tap_count() const { return kernel[0] * runs(); }
  std::int64_t pixels_of_run() const { return together * options.dilation[1]; }
  /// Runs begin where windows do, so that each column is kept once; else each run keeps its own.
  bool shared() const { return pixels_of_run() % options.stride[1] == 0; }
  std::int64_t columns_of_run() const { return shared() ? pixels_of_run() / options.stride[1] : out_width; }
  std::int64_t columns() const { return out_width + (runs() - 1) * columns_of_run(); }
  std::int64_t row_size() const { return columns() * kLanes; }  ///< in words
  std::int64_t window() const {
    return (kernel[0] - 1) * options.dilation[0] + 1;
  }  ///< rows of x for one row of the result
  /// Whether all rows of a plane are kept and rows of the result follow each other like columns.
  bool whole() const {
    return runs() == 1 && options.stride[0] == 1 && (out_height - 1 + window()) * row_size() <= kPlane;
  }
  std::int64_t kept_rows() const { return whole() ? out_height - 1 + window() : window(); }
  /// Pixels of a padded row of x.
  std::int64_t line() const {
    return (out_width - 1) * options.stride[1] + (runs() * together - 1) * options.dilation[1] + 1;
  }

  /// The offset of each tap's words for a window whose first row is kept at `first`.
  std::vector<std::int64_t> taps(std::int64_t first) const {
    std::vector<std::int64_t> all;
    for (std::int64_t row = 0; row < kernel[0]; ++row)
      for (std::int64_t run = 0; run < runs(); ++run)
        all.push_back((first + row * options.dilation[0]) % kept_rows() * row_size() + run * columns_of_run() * kLanes);
    return all;
  }

  /// The weights of all blocks: [block][row][run][16 channels], in words.
  std::vector<std::uint32_t> pack(const std::int8_t* weights) const {
    std::vector<std::uint32_t> all(blocks_of(out_channels) * tap_count() * kLanes);
    const std::int64_t bits = 32 / together;
    for (std::int64_t channel = 0; channel < out_channels; ++channel)
      for (std::int64_t row = 0; row < kernel[0]; ++row)
        for (std::int64_t column = 0; column < kernel[1]; ++column, ++weights)
          all[((channel / kLanes * kernel[0] + row) * runs() + column / together) * kLanes +
              channel % kLanes] |= (static_cast<std::uint32_t>(*weights) & ((1u << bits) - 1))
                                   << (column % together * bits);
    return all;
  }
};

Layout layout_of(const KernelRequest& request, const Int8Group& group, int value) {
  if (value != group.weight.value) return activation_layout(group, value);
  return group.depthwise ? Layout{} : byte_weights(desc_of(request, value).type, group.image());
}

bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  Int8Group group;
  if (const char* why = read_group(request, pattern, group)) return decline(request, why), false;
  ask_layouts(request, layout_of, group);
  return true;
}

struct ByteConv : ByteOperands {
  ConvRows g;
  enum Way : std::uint8_t { rows_of_x, in_place, by_channels } way;
  bool plain;                                      ///< see Int8Group
  std::int64_t words = kLanes / bytes_together();  ///< of a pixel in a block, as products read x
  std::int64_t rows;                               ///< rows of the result in a band
  std::vector<std::int64_t> taps;      ///< of a depthwise convolution, for each position of a window's first row
  std::vector<std::uint32_t> filters;  ///< ChannelRows::pack()
  struct Task {
    Run run;
    std::vector<Tile> tiles;
  };
  std::vector<Task> tasks;

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& all = *static_cast<const ByteConv*>(self);
    auto* const room = static_cast<std::uint8_t*>(args.workspace);
    const Task& what = all.tasks[task];
    switch (all.way) {
      case rows_of_x: return all.run_rows(args, what, room);
      case in_place: return all.run_in_place(args, what, room);
      case by_channels: return all.run_depthwise(args, what, room);
    }
  }

  /// Copies pixels that are `apart` bytes from each other in x, as u8.
  void copy(const std::uint8_t* from, std::int64_t apart, std::int64_t pixels, std::uint8_t* to) const {
    if (apart == kLanes && flip == 0) {
      std::memcpy(to, from, pixels * kLanes);
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
  /// The padding value in products: the zero point.
  int padding() const { return widens() ? 0 : zero; }
  /// Copies such pixels as words of the products.
  void copy_words(const std::uint8_t* from, std::int64_t apart, std::int64_t pixels, std::uint8_t* to) const {
    if (widens())
      NEURIM_DISPATCH(widen_bytes)(from, apart, pixels, flip, zero, reinterpret_cast<std::int16_t*>(to));
    else
      copy(from, apart, pixels, to);
  }

  // --- runs of pixels ---

  void run_in_place(const Args& args, const Task& task, std::uint8_t* room) const {
    const std::int64_t pixels = g.out_width * g.out_height, weight_block = g.in_blocks() * kLanes * words;
    for (const Tile& tile : task.tiles)
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
        for (std::int64_t block = task.run.first_block; block < task.run.last_block; block += g.together()) {
          const std::int64_t blocks = std::min(g.together(), task.run.last_block - block),
                             at = plain ? tile.unit * g.out_channels + block * kLanes
                                        : (image * g.out_blocks() * pixels + tile.unit) * kLanes + block * block_size;
          NEURIM_DISPATCH(byte_product)
          (product, blocks, from, in(args, weight) + block * weight_block * 4, after(args, block, at), out(args, at));
        }
      }
  }

  /// Whether x is copied rather than read in place.
  bool copies() const { return flip || plain || widens(); }

  /// The pixels of a tile in blocks, as words of the products.
  const std::uint8_t* made(const Args& args, std::int64_t image, const Tile& tile, std::uint8_t* room) const {
    const std::int64_t pixels = g.out_width * g.out_height;
    std::uint8_t* to = room;
    for (std::int64_t block = 0; block < g.in_blocks(); ++block, to += tile.units * words * 4) {
      if (!plain) {
        copy_words(in(args, x) + ((image * g.in_blocks() + block) * pixels + tile.unit) * kLanes, kLanes, tile.units,
                   to);
        continue;
      }
      const std::int64_t channels = std::min(kLanes, g.in_channels - block * kLanes);
      for (std::int64_t row = 0; row < tile.units; ++row) {
        std::uint8_t pixel[kLanes] = {};
        std::memcpy(pixel, in(args, x) + (tile.unit + row) * g.in_channels + block * kLanes, channels);
        copy_words(pixel, kLanes, 1, to + row * words * 4);
      }
    }
    return room;
  }

  // --- rows ---

  void run_rows(const Args& args, const Task& task, std::uint8_t* band) const {
    for (std::int64_t at = task.run.first; at < task.run.last;) {
      const std::int64_t image = at / g.out_height, row = at % g.out_height,
                         count = std::min({rows, g.out_height - row, task.run.last - at}), kept = g.rows(count),
                         plane = g.out_height * g.out_width * kLanes;
      g.image() ? fill_of_image(args, image, row, kept, band) : fill(args, image, row, kept, band);
      const BlockProduct product = g.product(taps, kept, plane);
      for (std::int64_t block = task.run.first_block; block < task.run.last_block; block += g.together())
        for (std::int64_t r = 0; r < count; ++r) {
          const std::int64_t to = (image * g.out_blocks() + block) * plane + (row + r) * g.out_width * kLanes;
          NEURIM_DISPATCH(byte_product)
          (product, std::min(g.together(), task.run.last_block - block), band + r * g.row_step() * g.row_size() * 4,
           in(args, weight) + block * product.weight_block * 4, after(args, block, to), out(args, to));
        }
      at += count;
    }
  }

  /// Fills the kept rows of x that row `row` of the result reads.
  void fill(const Args& args, std::int64_t image, std::int64_t row, std::int64_t count, std::uint8_t* to) const {
    for (std::int64_t block = 0; block < g.in_blocks(); ++block) {
      const std::uint8_t* const plane = in(args, x) + (image * g.in_blocks() + block) * g.height * g.width * kLanes;
      to = g.fill_block(row, count, padding(), to,
                        [&](std::int64_t pixel, std::int64_t apart, std::int64_t pixels, std::uint8_t* at) {
                          copy_words(plane + pixel * kLanes, apart * kLanes, pixels, at);
                        });
    }
  }

  /// The same for an image with plain planes.
  void fill_of_image(const Args& args, std::int64_t image, std::int64_t row, std::int64_t count,
                     std::uint8_t* to) const {
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
        copy_words(line + block * kLanes, g.options.stride[1] * g.in_channels, g.columns(),
                   to + block * count * row_bytes);
    }
  }
  /// The bytes of a padded image row and of what a block reads past it; the weights of those bytes are zero.
  std::size_t line_size() const { return g.line_size(); }

  // --- depthwise ---

  void run_depthwise(const Args& args, const Task& task, std::uint8_t* room) const {
    const ChannelRows of_x{g};
    const std::int64_t kept = of_x.kept_rows(), window = of_x.window(), tap_count = of_x.tap_count();
    const bool whole = of_x.whole();
    std::uint8_t* const line = room + kept * of_x.row_size() * 4;
    std::memset(line, zero, of_x.line() * kLanes);
    std::int64_t made = 0;  // rows of the previous plane that are still read are kept
    for (std::int64_t at = task.run.first; at < task.run.last;) {
      const std::int64_t plane = at / g.out_height, row = at % g.out_height, block = plane % g.out_blocks(),
                         count = whole ? std::min(g.out_height - row, task.run.last - at) : 1,
                         top = row * g.options.stride[0], to = (plane * g.out_height + row) * g.out_width * kLanes;
      if (row == 0) made = 0;
      for (made = std::max(made, top); made < top + count - 1 + window; ++made)
        make_row(args, plane, made, line, room + made % kept * of_x.row_size() * 4);
      const BlockProduct product{
          .rows = count * g.out_width, .taps = taps.data() + top % kept * tap_count, .tap_count = tap_count};
      NEURIM_DISPATCH(channel_product)
      (product, room, filters.data() + block * tap_count * kLanes, after(args, block, to), out(args, to));
      at += count;
    }
  }

  /// Makes the words of a row, counted from the first one of padding; `line` is padded.
  void make_row(const Args& args, std::int64_t plane, std::int64_t row, std::uint8_t* line, std::uint8_t* to) const {
    const ChannelRows of_x{g};
    const std::int64_t in_row = row - g.options.pad[0], pixels = of_x.line(),
                       first = std::min(g.options.pad[1], pixels), last = std::min(g.options.pad[1] + g.width, pixels);
    if (in_row < 0 || in_row >= g.height) {
      std::memset(to, padding(), of_x.row_size() * 4);
      return;
    }
    copy(in(args, x) + (plane * g.height + in_row) * g.width * kLanes, kLanes, last - first, line + first * kLanes);
    const std::int64_t runs = of_x.shared() ? 1 : of_x.runs(), columns = of_x.columns() / runs;
    for (std::int64_t run = 0; run < runs; ++run) NEURIM_DISPATCH(words_of_channels)
    (line + run * of_x.pixels_of_run() * kLanes, columns, g.options.stride[1], g.options.dilation[1], zero,
     to + run * columns * kLanes * 4);
  }
};

/// Sets the sums' start: for each channel, minus the zero point times the sum of its weights.
void set_start(ByteConv& own, const std::int8_t* weights) {
  const std::int32_t zero = has_dot_products() ? static_cast<std::int8_t>(own.zero) : own.zero;
  const std::int64_t quads = own.way == ByteConv::by_channels
                                 ? ChannelRows{own.g}.tap_count()
                                 : own.g.in_blocks() * own.g.tap_count() *
                                       own.words;  // of a channel: [block][quad][16 channels][4]
  for (std::size_t block = 0; block < own.start.size(); block += kLanes)
    for (std::int64_t quad = 0; quad < quads; ++quad)
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        for (int i = 0; i < 4; ++i) own.start[block + lane] -= zero * *weights++;
}

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  Int8Group group;
  if (const char* why = read_group(request, pattern, group)) return decline(request, why);
  if (!has_layouts(request, layout_of, group)) return decline(request, "takes blocks of 16 channels");
  auto all = std::make_shared<ByteConv>();
  ConvRows& g = all->g = {group.sizes, all->words};
  all->way = group.depthwise    ? ByteConv::by_channels
             : group.in_place() ? ByteConv::in_place
                                : ByteConv::rows_of_x,
  all->plain = group.plain;
  if (const char* why = all->read(request, group)) return decline(request, why);
  if (has_dot_products()) all->flip ^= 0x80, all->zero ^= 0x80;  // x is read as i8
  const auto* weights = static_cast<const std::int8_t*>(desc_of(request, group.weight.value).known);
  if (group.depthwise)
    all->filters = ChannelRows{g}.pack(weights), weights = reinterpret_cast<const std::int8_t*>(all->filters.data());
  if (!all->widens()) set_start(*all, weights);

  FusedEpilogue nothing;  // the product itself applies it
  std::size_t room = 0;
  if (all->way == ByteConv::by_channels) {
    const ChannelRows of_x{g};
    for (std::int64_t first = 0; first < of_x.kept_rows(); ++first)
      for (const std::int64_t tap : of_x.taps(first)) all->taps.push_back(tap);
    room = of_x.kept_rows() * of_x.row_size() * 4 + of_x.line() * kLanes;
    const std::int64_t units = g.images * g.out_blocks() * g.out_height;
    const int tasks = tasks_of(request, depthwise_work(depthwise_shape(g)), units);
    for (int i = 0; i < tasks; ++i)
      all->tasks.push_back({{task_begin(units, tasks, i), task_begin(units, tasks, i + 1), 0, 0}, {}});
  } else if (all->way == ByteConv::in_place) {
    const std::int64_t pixels = g.out_height * g.out_width,
                       together = std::max<std::int64_t>(kTile / (g.in_blocks() * kLanes), 56);
    std::int64_t most = 0;
    for (const Run& run : nothing.cut(request, g.images, pixels, 1, g.out_channels)) {
      all->tasks.push_back({run, cut_tiles(run.first, run.last, pixels, together)});
      for (const Tile& tile : all->tasks.back().tiles) most = std::max(most, tile.units);
    }
    if (all->copies()) room = static_cast<std::size_t>(most * g.in_blocks() * all->words) * 4;
  } else {
    for (const Run& run : nothing.cut(request, g.images, g.out_height, g.out_width, g.out_channels))
      all->tasks.push_back({run, {}});
    all->taps = g.taps(), all->rows = g.band_rows(g.image() ? kImageBand : kBand);
    room = static_cast<std::size_t>(g.band_size(all->rows)) * 4 + (g.image() ? all->line_size() : 0);
  }
  request.used_dtype = DType::i8;
  return {ByteConv::run, all, static_cast<int>(all->tasks.size()), 0, request.chunks, room};
}

}  // namespace

void cpu_int8_conv() {
  for (const char* op : {"conv2d", "linear"})
    add_conv_kernel<prepare, propose_layouts>({.op = op, .name = "cpu int8", .fused_only = true, .prologues = true});
}

}  // namespace neurim
