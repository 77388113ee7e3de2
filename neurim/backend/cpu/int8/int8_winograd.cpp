// 3x3 convolutions of stride 1 of 8-bit values, with 16 multiplications instead of 36 (see int8_winograd.h). For
// machines without AVX512-VNNI, whose products are of 16-bit values anyway: values at the points need no more. A task
// is some rows of tiles, whose values stay in the cache while the weights of all output channels are read.
#include "neurim/backend/cpu/int8/int8_winograd.h"

#include <algorithm>

#include "neurim/backend/cpu/common/conv_steps.h"
#include "neurim/backend/cpu/common/int8_group.h"
#include "neurim/backend/cpu/common/interned.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/base/text.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kWords = kLanes / 2;
/// The most input channels whose sums at the points, and sums of two of these, fit i32: terms of 4 * 255 by 9 * 128.
constexpr std::int64_t kMostChannels = 896;
constexpr std::int64_t kCache = 1 << 18, kTiles = 16;  // bytes of a task's values, if it has more tiles than kTiles

// --- weights
// -----------------------------------------------------------------------------------------------------------

/// i8 weights at the points, without the division: [O/16][point][I/16][8 pairs][16o][2i] in 16 bits.
void pack_points(const void* self, const void* plain, void* packed) {
  const Shape& s = static_cast<const Type*>(self)->shape;
  const auto* const from = static_cast<const std::int8_t*>(plain);
  auto* const to = static_cast<std::int16_t*>(packed);
  const std::int64_t in_blocks = blocks_of(s[1]);
  std::fill_n(to, blocks_of(s[0]) * kBytePoints * in_blocks * kLanes * kLanes, std::int16_t{0});
  const auto points = [](int a, int b, int c, int(&u)[4]) { u[0] = -a, u[1] = a + b + c, u[2] = a - b + c, u[3] = c; };
  for (std::int64_t o = 0; o < s[0]; ++o)
    for (std::int64_t i = 0; i < s[1]; ++i) {
      const std::int8_t* const w = from + (o * s[1] + i) * 9;
      int columns[3][4], u[4];
      for (int j = 0; j < 3; ++j) points(w[j], w[3 + j], w[6 + j], columns[j]);
      for (std::int64_t row = 0; row < 4; ++row) {
        points(columns[0][row], columns[1][row], columns[2][row], u);
        for (std::int64_t column = 0; column < 4; ++column) {
          const std::int64_t block = (o / kLanes * kBytePoints + row * 4 + column) * in_blocks + i / kLanes;
          to[((block * kWords + i % kLanes / 2) * kLanes + o % kLanes) * 2 + i % 2] = static_cast<std::int16_t>(
              u[column]);
        }
      }
    }
}

Layout point_weights(const Type& weight) {
  const std::int64_t blocks = blocks_of(weight.shape[0]) * kBytePoints * blocks_of(weight.shape[1]);
  return {Layout::packed, 0,
          register_format({.name = text("winograd shorts ", weight),
                           .bytes = blocks * kLanes * kLanes * sizeof(std::int16_t),
                           .pack = pack_points,
                           .self = interned(weight)})};
}

// --- convolutions
// ------------------------------------------------------------------------------------------------------

struct ByteWinograd : ByteOperands {
  ConvSizes g;
  std::int64_t batch = 1;  ///< rows of tiles in a task
  std::vector<Run> tasks;  ///< of rows of tiles

  std::int64_t rows() const { return (g.out_height + kByteTile - 1) / kByteTile; }
  std::int64_t columns() const { return (g.out_width + kByteTile - 1) / kByteTile; }
  std::int64_t in_blocks() const { return blocks_of(g.in_channels); }
  /// Numbers between points: an odd number of cache lines, so that points fall on different cache sets.
  std::int64_t input_plane() const { return ((in_blocks() * batch * columns() + 1) / 2 | 1) * 2 * kLanes; }
  std::int64_t output_plane() const { return (batch * columns() | 1) * kLanes; }
  // Bytes of a task's workspace: values of x, sums at the points, and sums of the pixels.
  std::size_t input_size() const { return kBytePoints * input_plane() * sizeof(std::int16_t); }
  std::size_t output_size() const { return kBytePoints * output_plane() * sizeof(std::int32_t); }
  std::size_t size() const {
    return input_size() + output_size() +
           static_cast<std::size_t>(kByteTile * kByteTile * columns() * kLanes) * sizeof(std::int32_t);
  }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const ByteWinograd*>(self);
    const Run& run = own.tasks[task];
    auto* const room = static_cast<std::byte*>(args.workspace);
    for (std::int64_t at = run.first; at < run.last; at += own.batch)
      own.run_rows(args, run, at, std::min(at + own.batch, run.last), room);
  }

  void run_rows(const Args& args, const Run& run, std::int64_t first, std::int64_t last, std::byte* room) const {
    auto* const v = reinterpret_cast<std::int16_t*>(room);
    auto* const m = reinterpret_cast<std::int32_t*>(room + input_size());
    auto* const sums = reinterpret_cast<std::int32_t*>(room + input_size() + output_size());
    const std::int64_t tiles = (last - first) * columns();
    for (std::int64_t block = 0; block < in_blocks(); ++block)
      for (std::int64_t row = first; row < last; ++row) NEURIM_DISPATCH(byte_winograd_input)
    (rows_of_x(args, block, row), columns(), input_plane(), v + (block * tiles + (row - first) * columns()) * kLanes);
    const std::int64_t point_size = in_blocks() * kWords * kLanes;  // words of weights
    const BlockProduct product{.rows = tiles,
                               .in_channels = g.in_channels,
                               .x_block = tiles * kWords,
                               .weight_block = point_size,
                               .y_block = 0};
    for (std::int64_t block = run.first_block; block < run.last_block; ++block) {
      for (std::int64_t point = 0; point < kBytePoints; ++point) NEURIM_DISPATCH(byte_sums)
      (product, v + point * input_plane(), in(args, weight) + (block * kBytePoints + point) * point_size * 4,
       m + point * output_plane());
      for (std::int64_t row = first; row < last; ++row) {
        NEURIM_DISPATCH(byte_winograd_output)(m + (row - first) * columns() * kLanes, columns(), output_plane(), sums);
        const std::int64_t image = row / rows(), top = row % rows() * kByteTile;
        for (std::int64_t i = 0; i < std::min<std::int64_t>(kByteTile, g.out_height - top); ++i) {
          const std::int64_t at = ((image * blocks_of(g.out_channels) + block) * g.out_height + top + i) * g.out_width *
                                  kLanes;
          NEURIM_DISPATCH(byte_results)
          (sums + i * kByteTile * columns() * kLanes, g.out_width, after(args, block, at), out(args, at));
        }
      }
    }
  }

  ByteRowsOfTiles rows_of_x(const Args& args, std::int64_t block, std::int64_t row) const {
    ByteRowsOfTiles all{.width = g.width, .left = g.options.pad[1], .flip = flip, .zero = zero};
    const std::uint8_t* const plane = in(args, x) + (row / rows() * in_blocks() + block) * g.height * g.width * kLanes;
    for (std::int64_t i = 0; i < 4; ++i) {
      const std::int64_t in_row = row % rows() * kByteTile - g.options.pad[0] + i;
      all.rows[i] = in_row >= 0 && in_row < g.height ? plane + in_row * g.width * kLanes : nullptr;
    }
    return all;
  }
};

/// Null, or the reason why not.
const char* read(const KernelRequest& request, const ConvPattern& pattern, Int8Group& group) {
  if (bytes_together() == 4) return "saves nothing where bytes are multiplied by fours";
  if (const char* why = read_group(request, pattern, group)) return why;
  const ConvSizes& g = group.sizes;
  if (group.linear || group.depthwise || group.image() || g.kernel[0] != 3 || g.kernel[1] != 3 || !g.at_stride_1() ||
      g.options.dilation != std::array<std::int64_t, 2>{1, 1})
    return "takes 3x3 kernels at stride 1, without dilation";
  if (g.in_channels > kMostChannels) return "takes no more channels than sums of 32 bits hold";
  const std::int64_t tiles = ((g.out_height + 1) / kByteTile) * ((g.out_width + 1) / kByteTile);
  if (4 * kBytePoints * tiles > 3 * 9 * g.out_height * g.out_width) return "takes tiles with few pixels left out";
  return nullptr;
}

Layout layout_of(const KernelRequest& request, const Int8Group& group, int value) {
  return value == group.weight.value ? point_weights(desc_of(request, value).type) : activation_layout(group, value);
}

bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  Int8Group group;
  if (const char* why = read(request, pattern, group)) return decline(request, why), false;
  ask_layouts(request, layout_of, group);
  return true;
}

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  Int8Group group;
  if (const char* why = read(request, pattern, group)) return decline(request, why);
  if (!has_layouts(request, layout_of, group)) return decline(request, "takes blocks of 16 channels");
  auto all = std::make_shared<ByteWinograd>();
  if (const char* why = all->read(request, group)) return decline(request, why);
  all->g = group.sizes;
  all->tasks = FusedEpilogue{}.cut(request, all->g.images, all->rows(), all->columns() * kByteTile * kByteTile,
                                   all->g.out_channels);
  std::int64_t longest = 0;
  for (const Run& run : all->tasks) longest = std::max(longest, run.last - run.first);
  const std::int64_t tile_size = kBytePoints * all->in_blocks() * kLanes *
                                 static_cast<std::int64_t>(sizeof(std::int16_t)),
                     most = std::max<std::int64_t>(std::max(kCache / tile_size, kTiles) / all->columns(), 1),
                     tasks = (longest + most - 1) / most;
  all->batch = (longest + tasks - 1) / tasks;
  request.used_dtype = DType::i8;
  return {ByteWinograd::run, all, static_cast<int>(all->tasks.size()), 0, request.chunks, all->size()};
}

}  // namespace

void cpu_int8_winograd() {
  add_conv_kernel<prepare, propose_layouts>(
      {.op = "conv2d", .name = "cpu int8 winograd", .fused_only = true, .prologues = true});
}

}  // namespace neurim
