// Products of matrix tiles: imitated, by the machine's instructions where it has them, and beside the products that
// take none. All are of whole numbers, whose sums are exact.
#include "neurim/backend/cpu/common/tiles.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "neurim/base/text.h"
#include "neurim/core/float16.h"
#include "neurim/core/random.h"

namespace neurim::cpu {
namespace {

constexpr std::int64_t kLanes = 16;

/// Takes tiles so until the end of its scope.
class By {
 public:
  explicit By(TilesBy by) : before_(std::exchange(tiles_by, by)) {}
  ~By() { tiles_by = before_; }

 private:
  TilesBy before_;
};

std::vector<std::uint8_t> bytes(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint8_t> all(static_cast<std::size_t>(count));
  for (auto& byte : all) byte = static_cast<std::uint8_t>(random.uniform(0, 256));
  return all;
}

/// bf16 of whole numbers from -3 to 3.
std::vector<std::uint16_t> halves(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint16_t> all(static_cast<std::size_t>(count));
  for (auto& half : all) half = to_bf16(static_cast<float>(static_cast<int>(random.uniform(-3.99, 3.99))));
  return all;
}

struct Size {
  std::int64_t rows, groups, taps, blocks;
};
constexpr Size kSizes[] = {{1, 1, 1, 1},   {16, 1, 1, 2}, {17, 2, 1, 2}, {32, 3, 1, 1}, {33, 1, 2, 2},
                           {64, 12, 1, 2}, {70, 2, 9, 2}, {48, 5, 3, 1}, {15, 4, 4, 2}};

/// The sums of a product with taps that read row after row, and what they are by the definition.
template <class Number>
struct Sums {
  std::vector<Number> got, expected;
};
template <class Number, class X, class Weight, class Value, class WeightValue>
Sums<Number> sums_of(const Size& s, const std::vector<X>& x, const std::vector<Weight>& weight, Value value_of,
                     WeightValue weight_of, bool add) {
  const std::int64_t span = whole_tiles(s.rows) + s.taps, width = kTileBytes / static_cast<std::int64_t>(sizeof(X)),
                     together = 4 / static_cast<std::int64_t>(sizeof(X)), tile = kTileRows * kTileBytes;
  std::vector<std::int64_t> taps, weight_taps;
  for (std::int64_t t = 0; t < s.taps; ++t) taps.push_back(t * kTileBytes), weight_taps.push_back(t * tile);
  std::vector<Number> start(static_cast<std::size_t>(s.blocks * kLanes));
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<Number>(i) - 7;
  const TileProduct shape{.rows = s.rows,
                          .groups = s.groups,
                          .x_group = span * kTileBytes,
                          .weight_group = s.taps * tile,
                          .weight_block = s.groups * s.taps * tile,
                          .taps = taps.data(),
                          .weight_taps = weight_taps.data(),
                          .tap_count = s.taps,
                          .sum_block = whole_tiles(s.rows) * kLanes,
                          .start = start.data(),
                          .bytes = sizeof(X) == 1};
  Sums<Number> sums;
  sums.got.resize(static_cast<std::size_t>(s.blocks * shape.sum_block), Number(5));
  {
    const TileScope scope;
    NEURIM_DISPATCH(tile_product)(shape, s.blocks, x.data(), weight.data(), add, sums.got.data());
  }
  for (std::int64_t b = 0; b < s.blocks; ++b)
    for (std::int64_t r = 0; r < whole_tiles(s.rows); ++r)
      for (std::int64_t o = 0; o < kLanes; ++o) {
        Number sum = add ? Number(5) : start[b * kLanes + o];
        for (std::int64_t g = 0; g < s.groups; ++g)
          for (std::int64_t t = 0; t < s.taps; ++t)
            for (std::int64_t i = 0; i < width; ++i)
              sum += value_of(x[(g * span + r + t) * width + i]) *
                     weight_of(
                         weight[(((b * s.groups + g) * s.taps + t) * kTileRows + i / together) * kLanes * together +
                                o * together + i % together]);
        sums.expected.push_back(sum);
      }
  return sums;
}

void expect_sums(TilesBy by) {
  const By scope(by);
  for (const Size& s : kSizes)
    for (const bool add : {false, true}) {
      SCOPED_TRACE(text(s.rows, ' ', s.groups, ' ', s.taps, ' ', s.blocks, add ? " added" : ""));
      const std::int64_t x_rows = s.groups * (whole_tiles(s.rows) + s.taps), tiles = s.blocks * s.groups * s.taps;
      const auto of_bytes = sums_of<std::int32_t>(
          s, bytes(x_rows * kTileBytes, 1), bytes(tiles * kTileRows * kTileBytes, 2), [](std::uint8_t x) { return x; },
          [](std::uint8_t w) { return static_cast<std::int8_t>(w); }, add);
      EXPECT_EQ(of_bytes.got, of_bytes.expected);
      const auto of_halves = sums_of<float>(s, halves(x_rows * kTileBytes / 2, 3),
                                            halves(tiles * kTileRows * kTileBytes / 2, 4), from_bf16, from_bf16, add);
      EXPECT_EQ(of_halves.got, of_halves.expected);
    }
}

TEST(Tiles, SumsByImitation) { expect_sums(TilesBy::imitation); }
TEST(Tiles, SumsByInstructions) {
  if (!has_tiles()) GTEST_SKIP() << "this machine has no matrix tiles";
  expect_sums(TilesBy::machine);
}

/// Any numbers: the instructions round sums of pairs in an order of their own.
TEST(Tiles, InstructionsAddAsTheImitation) {
  if (!has_tiles()) GTEST_SKIP() << "this machine has no matrix tiles";
  Random random(5);
  std::vector<std::uint16_t> a(16 * 32), b(16 * 32);
  for (auto& half : a) half = to_bf16(static_cast<float>(random.normal()));
  for (auto& half : b) half = to_bf16(static_cast<float>(random.normal()));
  std::vector<float> sums[2];
  for (const TilesBy by : {TilesBy::imitation, TilesBy::machine}) {
    const By scope(by);
    const TileScope tiles;
    auto& own = sums[by == TilesBy::machine];
    own.resize(256);
    NEURIM_DISPATCH(tile_grad)({.steps = 1}, 1, 1, a.data(), b.data(), false, own.data());
  }
  for (std::size_t i = 0; i < 256; ++i) EXPECT_NEAR(sums[0][i], sums[1][i], 1e-4) << i;
}

/// Pixels of 16 numbers as [block][row][8 pairs].
std::vector<float> words(const std::vector<std::uint16_t>& halves) {
  std::vector<float> all(halves.size() / 2);
  std::memcpy(all.data(), halves.data(), all.size() * 4);
  return all;
}

TEST(Tiles, ProductsOfBlocks) {
  struct Block {
    std::int64_t rows, channels, blocks;
  };
  for (const Block& s :
       {Block{8, 16, 1}, {9, 32, 2}, {33, 48, 3}, {64, 33, 2}, {70, 100, 5}, {31, 1024, 1}, {40, 1500, 3}, {200, 7, 3}})
    for (const bool rounds : {false, true}) {
      SCOPED_TRACE(text(s.rows, ' ', s.channels, ' ', s.blocks, ' ', rounds));
      const std::int64_t in = (s.channels + 15) / 16;
      std::vector<std::uint16_t> of_x = halves(in * s.rows * kLanes, 1), of_weight = halves(s.blocks * in * 256, 2);
      // What is behind the last channel is not read, and its weights are zero.
      for (std::int64_t r = 0; r < s.rows; ++r)
        for (std::int64_t c = s.channels; c < (s.channels + 1) / 2 * 2; ++c)
          of_x[((c / 16) * s.rows + r) * kLanes + c % 16] = 0;
      for (std::int64_t b = 0; b < s.blocks; ++b)
        for (std::int64_t c = s.channels; c < in * 16; ++c)
          for (std::int64_t o = 0; o < kLanes; ++o)
            of_weight[(((b * in + c / 16) * 8 + c % 16 / 2) * kLanes + o) * 2 + c % 2] = 0;
      std::vector<std::uint16_t> nan = of_x;
      for (std::int64_t r = 0; r < s.rows; ++r)
        for (std::int64_t c = (s.channels + 1) / 2 * 2; c < in * 16; ++c)
          nan[((c / 16) * s.rows + r) * kLanes + c % 16] = 0x7fc0;
      const std::vector<float> weight = words(of_weight), bias(static_cast<std::size_t>(s.blocks * kLanes), 3);
      const std::int64_t y_row = kLanes, y_block = s.rows * y_row;
      std::vector<float> add(static_cast<std::size_t>(s.blocks * y_block), -2), got[2];
      for (const TilesBy by : {TilesBy::nobody, TilesBy::imitation}) {
        const By scope(by);
        const BlockProduct shape{.rows = s.rows,
                                 .in_channels = s.channels,
                                 .x_block = s.rows * kLanes / 2,
                                 .weight_block = in * 128,
                                 .y_block = y_block,
                                 .pairs = StorageDtype::bf16};
        auto& y = got[by == TilesBy::imitation];
        y.resize(add.size());
        NEURIM_DISPATCH(block_product)
        (shape, s.blocks, words(nan).data(), weight.data(),
         {.bias = bias.data(),
          .add = add.data(),
          .relu = {true, 40},
          .rounds = rounds ? StorageDtype::bf16 : StorageDtype::exact},
         y.data());
      }
      EXPECT_EQ(got[0], got[1]);
    }
}

TEST(Tiles, WeightGradientsOfBlocks) {
  struct Block {
    std::int64_t rows, in, out;
  };
  for (const Block& s : {Block{8, 1, 1}, {16, 2, 2}, {17, 3, 2}, {100, 5, 3}, {512, 1, 4}})
    for (const bool add : {false, true}) {
      SCOPED_TRACE(text(s.rows, ' ', s.in, ' ', s.out, ' ', add));
      const std::vector<float> x = words(halves(s.in * s.rows * 32, 1)), dy = words(halves(s.out * s.rows * 32, 2));
      std::vector<float> got[2];
      for (const TilesBy by : {TilesBy::nobody, TilesBy::imitation}) {
        const By scope(by);
        auto& dw = got[by == TilesBy::imitation];
        dw.resize(static_cast<std::size_t>(s.in * s.out * 256), 1);
        NEURIM_DISPATCH(block_weight_grad)
        ({.in_blocks = s.in,
          .rows = s.rows,
          .x_block = s.rows * kLanes,
          .dy_block = s.rows * kLanes,
          .weight_block = 256,
          .pairs = StorageDtype::bf16},
         s.out, x.data(), dy.data(), add, dw.data());
      }
      EXPECT_EQ(got[0], got[1]);
    }
}

}  // namespace
}  // namespace neurim::cpu
