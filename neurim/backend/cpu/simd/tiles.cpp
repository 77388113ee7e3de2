#include "neurim/backend/cpu/common/tiles.h"

#include "neurim/backend/cpu/simd/bytes.h"
#define NEURIM_PRODUCT
#include "neurim/backend/cpu/simd/product.h"
#include "neurim/backend/cpu/simd/transpose.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

#if defined(__AVX512F__)
/// The instructions, in assembly: a tile is a constant there, which the intrinsics take as text.
struct NativeTiles {
  template <int tile>
  void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(tile));
  }
  template <int tile>
  void load(const void* from, std::int64_t row = kTileBytes) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(tile), "r"(from), "r"(row) : "memory");
  }
  template <int tile>
  void store(void* to) {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(tile), "r"(to), "r"(kTileBytes) : "memory");
  }
  template <bool bytes, int sum, int x, int weight>
  void multiply_add() {
    if constexpr (bytes)
      asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(x), "i"(weight));
    else
      asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(x), "i"(weight));
  }
};
#endif

/// What they do, in C++.
struct ImitatedTiles {
  typedef std::uint32_t Tile[16][16];
  Tile all[8];

  template <int number>
  void zero() {
    std::memset(all[number], 0, sizeof(Tile));
  }
  template <int number>
  void load(const void* from, std::int64_t row = kTileBytes) {
    for (int i = 0; i < 16; ++i) std::memcpy(all[number][i], static_cast<const char*>(from) + i * row, kTileBytes);
  }
  template <int number>
  void store(void* to) {
    std::memcpy(to, all[number], sizeof(Tile));
  }
  template <bool bytes, int sum, int x, int weight>
  void multiply_add() {
    for (int row = 0; row < 16; ++row)
      for (int word = 0; word < 16; ++word)
        bytes ? add_bytes(all[sum][row], all[x][row][word], all[weight][word])
              : add_pairs(all[sum][row], all[x][row][word], all[weight][word]);
  }

 private:
  static float as_float(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  static void add_pairs(std::uint32_t (&sums)[16], std::uint32_t pair, const std::uint32_t (&weights)[16]) {
    const float first = as_float(pair << 16), second = as_float(pair & 0xffff0000);
    float totals[16];
    std::memcpy(totals, sums, sizeof totals);
    for (int out = 0; out < 16; ++out)
      totals[out] += first * as_float(weights[out] << 16) + second * as_float(weights[out] & 0xffff0000);
    std::memcpy(sums, totals, sizeof totals);
  }
  static void add_bytes(std::uint32_t (&sums)[16], std::uint32_t word, const std::uint32_t (&weights)[16]) {
    for (int out = 0; out < 16; ++out)
      for (int byte = 0; byte < 4; ++byte) {
        const auto value = static_cast<std::uint8_t>(word >> 8 * byte);
        const auto weight = static_cast<std::int8_t>(weights[out] >> 8 * byte);
        sums[out] += static_cast<std::uint32_t>(value * weight);
      }
  }
};

/// Rows of a product's sums, in tiles `first` and, of the other block, `first` + 1.
template <class Tiles, int blocks, int first>
[[gnu::always_inline]] inline void begin_sums(Tiles& tiles, const TileProduct& shape, bool add, const char* sums) {
  const auto each = [&](auto block) {
    constexpr int kTile = first + block;
    if (add)
      tiles.template load<kTile>(sums + block * shape.sum_block * 4);
    else if (shape.start)  // all rows begin with the same
      tiles.template load<kTile>(static_cast<const char*>(shape.start) + block * kTileBytes, 0);
    else
      tiles.template zero<kTile>();
  };
  each(std::integral_constant<int, 0>());
  if constexpr (blocks > 1) each(std::integral_constant<int, 1>());
}
template <class Tiles, int blocks, int first>
[[gnu::always_inline]] inline void end_sums(Tiles& tiles, const TileProduct& shape, char* sums) {
  tiles.template store<first>(sums);
  if constexpr (blocks > 1) tiles.template store<first + 1>(sums + shape.sum_block * 4);
}

/// Calls use(x, weights) for each group and tap.
template <class Use>
[[gnu::always_inline]] inline void each_step(const TileProduct& shape, const char* x, const char* weight,
                                             const Use& use) {
  for (std::int64_t group = 0; group < shape.groups; ++group, x += shape.x_group, weight += shape.weight_group)
    for (std::int64_t tap = 0; tap < shape.tap_count; ++tap) {
      if (shape.lines) shape.lines->fetch();
      if (shape.ahead) shape.ahead->fetch();
      use(x + shape.taps[tap], weight + shape.weight_taps[tap]);
    }
}

constexpr std::int64_t kOneTile = kTileRows * kTileBytes;

/// Adds the products of one tile of a factor, or of two that are `x_apart` bytes from each other, with one of the other
/// factor, or two. Sums are in tiles 0 to 3, the factors in 4 and 5, and in 6 and 7.
template <class Tiles, bool bytes, int rows, int blocks>
[[gnu::always_inline]] inline void add_step(Tiles& tiles, const char* x, std::int64_t x_apart, const char* weight,
                                            std::int64_t weight_apart) {
  tiles.template load<6>(weight);
  tiles.template load<4>(x);
  tiles.template multiply_add<bytes, 0, 4, 6>();
  if constexpr (blocks > 1) {
    tiles.template load<7>(weight + weight_apart);
    tiles.template multiply_add<bytes, 1, 4, 7>();
  }
  if constexpr (rows > 1) {
    tiles.template load<5>(x + x_apart);
    tiles.template multiply_add<bytes, 2, 5, 6>();
    if constexpr (blocks > 1) tiles.template multiply_add<bytes, 3, 5, 7>();
  }
}

/// `rows` tiles of rows of `blocks` blocks.
template <class Tiles, bool bytes, int rows, int blocks>
void multiply_tiles(const TileProduct& shape, const char* x, const char* weight, bool add, char* sums) {
  Tiles tiles;
  begin_sums<Tiles, blocks, 0>(tiles, shape, add, sums);
  if constexpr (rows > 1) begin_sums<Tiles, blocks, 2>(tiles, shape, add, sums + kOneTile);
  each_step(
      shape, x, weight, [&](const char* from, const char* own) __attribute__((always_inline)) {
        add_step<Tiles, bytes, rows, blocks>(tiles, from, kOneTile, own, shape.weight_block);
      });
  end_sums<Tiles, blocks, 0>(tiles, shape, sums);
  if constexpr (rows > 1) end_sums<Tiles, blocks, 2>(tiles, shape, sums + kOneTile);
}

/// Products of few steps, whose sums would otherwise be waited for before the next ones begin: tiles of rows take turns
/// with two pairs of sums, and those of one are stored while the other's are computed.
template <class Tiles, bool bytes>
void multiply_in_turns(const TileProduct& shape, const char* x, const char* weight, bool add, char* sums) {
  Tiles tiles;
  const auto turn = [&]<int first>(std::integral_constant<int, first>, std::int64_t row)
      __attribute__((always_inline)) {
    begin_sums<Tiles, 2, first>(tiles, shape, add, sums + row * kTileBytes);
    each_step(
        shape, x + row * kTileBytes, weight, [&](const char* from, const char* own) __attribute__((always_inline)) {
          tiles.template load<6>(own);
          tiles.template load<4 + first / 2>(from);
          tiles.template multiply_add<bytes, first, 4 + first / 2, 6>();
          tiles.template load<7>(own + shape.weight_block);
          tiles.template multiply_add<bytes, first + 1, 4 + first / 2, 7>();
        });
  };
  constexpr std::integral_constant<int, 0> kEven;
  constexpr std::integral_constant<int, 2> kOdd;
  for (std::int64_t row = 0; row < shape.rows; row += 2 * kTileRows) {
    turn(kEven, row);
    if (row > 0) end_sums<Tiles, 2, 2>(tiles, shape, sums + (row - kTileRows) * kTileBytes);
    const bool odd = row + kTileRows < shape.rows;
    if (odd) turn(kOdd, row + kTileRows);
    end_sums<Tiles, 2, 0>(tiles, shape, sums + row * kTileBytes);
    if (odd && row + 2 * kTileRows >= shape.rows)
      end_sums<Tiles, 2, 2>(tiles, shape, sums + (row + kTileRows) * kTileBytes);
  }
}

template <class Tiles, bool bytes>
void multiply_rows(const TileProduct& shape, std::int64_t blocks, const char* x, const char* weight, bool add,
                   char* sums) {
  constexpr std::int64_t kTwo = 2 * kTileRows, kFewSteps = 3;
  if (blocks > 1 && shape.groups * shape.tap_count <= kFewSteps)
    return multiply_in_turns<Tiles, bytes>(shape, x, weight, add, sums);
  for (std::int64_t row = 0; row < shape.rows; row += kTwo, x += kTwo * kTileBytes, sums += kTwo * kTileBytes) {
    const bool two = shape.rows - row > kTileRows;
    const auto multiply = two ? blocks > 1 ? multiply_tiles<Tiles, bytes, 2, 2> : multiply_tiles<Tiles, bytes, 2, 1>
                          : blocks > 1 ? multiply_tiles<Tiles, bytes, 1, 2>
                                       : multiply_tiles<Tiles, bytes, 1, 1>;
    multiply(shape, x, weight, add, sums);
  }
}

template <class Tiles, int a_blocks, int b_blocks>
void multiply_grad(const TileGrad& shape, const char* a, const char* b, bool add, char* sums) {
  Tiles tiles;
  const auto each_sum = [&](auto use) {
    use(std::integral_constant<int, 0>(), sums);
    if constexpr (b_blocks > 1) use(std::integral_constant<int, 1>(), sums + shape.b_sum);
    if constexpr (a_blocks > 1) use(std::integral_constant<int, 2>(), sums + shape.a_sum);
    if constexpr (a_blocks > 1 && b_blocks > 1) use(std::integral_constant<int, 3>(), sums + shape.a_sum + shape.b_sum);
  };
  each_sum([&](auto tile, char* at) { add ? tiles.template load<tile>(at) : tiles.template zero<tile>(); });
  for (std::int64_t image = 0; image < shape.images; ++image) {
    const char *one = a + image * shape.a_image, *other = b + image * shape.b_image;
    for (std::int64_t step = 0; step < shape.steps; ++step, one += kOneTile, other += kOneTile)
      add_step<Tiles, false, a_blocks, b_blocks>(tiles, one, shape.a_block, other, shape.b_block);
  }
  each_sum([&](auto tile, char* at) { tiles.template store<tile>(at); });
}

template <class Tiles>
void multiply_grads(const TileGrad& shape, std::int64_t a_blocks, std::int64_t b_blocks, const char* a, const char* b,
                    bool add, char* sums) {
  const auto multiply = a_blocks > 1   ? b_blocks > 1 ? multiply_grad<Tiles, 2, 2> : multiply_grad<Tiles, 2, 1>
                          : b_blocks > 1 ? multiply_grad<Tiles, 1, 2>
                                       : multiply_grad<Tiles, 1, 1>;
  multiply(shape, a, b, add, sums);
}

#if defined(__AVX512F__)
/// Stores two rows as bf16. In assembly, so that callers need not name the target.
inline void put_two(float* to, const Vec& first, const Vec& second) {
  Vec both;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(first), "v"(second));
  store(to, both);
}
#endif

/// Writes rows as floats or rounded; get(row) is what is added to them.
template <class Place, class Get>
void write_rows(const float* sums, std::int64_t rows, const Relu& relu, std::int64_t y_row, float* y, const Get& get) {
  const Vec least{}, most = splat(relu.most);
  const auto each = [&](const auto& last) {
    std::int64_t row = 0;
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<Place, RoundedTo<Bf16<true>>>)
      if (y_row == kLanes)
        for (; row + 2 <= rows; row += 2) {
          const std::int64_t at = row * kLanes;
          put_two(y + at / 2, last(load(sums + at) + get(at)), last(load(sums + at + kLanes) + get(at + kLanes)));
        }
#endif
    for (; row < rows; ++row) Place::put(y, row * y_row, last(load(sums + row * kLanes) + get(row * y_row)));
  };
  if (relu.on)
    each([&](const Vec& v) { return limited(v, least, most); });
  else
    each([](const Vec& v) { return v; });
}

template <class Place>
void write_results(const float* sums, std::int64_t rows, const TileEpilogue& epilogue, std::int64_t y_row, float* y) {
  const float* const add = epilogue.add;
  const auto write = [&](const auto& get) { write_rows<Place>(sums, rows, epilogue.relu, y_row, y, get); };
  if (!add)
    write([](std::int64_t) { return Vec{}; });
  else if (epilogue.add_rounded)
    write([=](std::int64_t at) { return RoundedTo<Bf16<false>>::get(add, at); });
  else
    write([=](std::int64_t at) { return load(add + at); });
}

/// Writes pixels of two halves, each of which put(pixel, to) writes.
template <class Low, class High>
void write_pixels(std::int64_t pixels, char* to, const Low& low, const High& high) {
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel, to += kTileBytes)
    low(pixel, reinterpret_cast<float*>(to)), high(pixel, reinterpret_cast<float*>(to + kTileBytes / 2));
}

}  // namespace

void tile_product(const TileProduct& shape, std::int64_t blocks, const void* x, const void* weight, bool add,
                  void* sums) {
  auto multiply = shape.bytes ? multiply_rows<ImitatedTiles, true> : multiply_rows<ImitatedTiles, false>;
#if defined(__AVX512F__)
  if (tiles_by == TilesBy::machine)
    multiply = shape.bytes ? multiply_rows<NativeTiles, true> : multiply_rows<NativeTiles, false>;
#endif
  multiply(shape, blocks, static_cast<const char*>(x), static_cast<const char*>(weight), add, static_cast<char*>(sums));
}

void tile_bytes(const std::uint8_t* const (&from)[4], std::int64_t step, std::int64_t pixels, std::uint8_t flip,
                void* to) {
  static constexpr std::uint8_t kZeros[kLanes] = {};
  const std::uint8_t* blocks[4];
  std::int64_t steps[4];
  for (int i = 0; i < 4; ++i) blocks[i] = from[i] ? from[i] : kZeros, steps[i] = from[i] ? step : 0;
  auto* at = static_cast<std::uint8_t*>(to);
  const IVec flips = IVec{} + static_cast<std::int32_t>(flip * 0x01010101u);
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel, at += kTileBytes) {
    for (int i = 0; i < 4; ++i) std::memcpy(at + i * kLanes, blocks[i] + pixel * steps[i], kLanes);
    if (flip) store(reinterpret_cast<float*>(at), from_bits(bits_of(load(reinterpret_cast<float*>(at))) ^ flips));
  }
}

void tile_grad(const TileGrad& shape, std::int64_t a_blocks, std::int64_t b_blocks, const void* a, const void* b,
               bool add, float* sums) {
  auto multiply = multiply_grads<ImitatedTiles>;
#if defined(__AVX512F__)
  if (tiles_by == TilesBy::machine) multiply = multiply_grads<NativeTiles>;
#endif
  multiply(shape, a_blocks, b_blocks, static_cast<const char*>(a), static_cast<const char*>(b), add,
           reinterpret_cast<char*>(sums));
}

void transpose_tiles(float* tiles, std::int64_t count) {
  for (float* const end = tiles + count * kLanes * kLanes; tiles != end; tiles += kLanes * kLanes) {
    alignas(64) float turned[kLanes * kLanes];
    for (int row = 0; row < kLanes; row += 4)
      for (int column = 0; column < kLanes; column += 4)
        transpose4(tiles + row * kLanes + column, kLanes, turned + column * kLanes + row, kLanes);
    std::memcpy(tiles, turned, sizeof turned);
  }
}

void tile_results(const float* sums, std::int64_t rows, const TileEpilogue& epilogue, std::int64_t y_row, float* y) {
  if (!epilogue.rounds)
    write_results<Exact>(sums, rows, epilogue, y_row, y);
  else if (has_bf16())
    write_results<RoundedTo<Bf16<true>>>(sums, rows, epilogue, y_row, y);
  else
    write_results<RoundedTo<Bf16<false>>>(sums, rows, epilogue, y_row, y);
}

void tile_pixels(StorageDtype storage, const float* low, const float* high, std::int64_t step, std::int64_t pixels,
                 std::int64_t channels, void* to) {
  auto* const at = static_cast<char*>(to);
  const bool whole = high && channels >= 2 * kLanes;
  const auto mask_of = [&](std::int64_t count) {
    return first_mask(static_cast<int>(std::clamp<std::int64_t>(count, 0, kLanes)));
  };
  const IVec low_mask = mask_of(channels), high_mask = mask_of(high ? channels - kLanes : 0);
  if (!high) high = low;  // its mask leaves nothing of it
  if (storage) {
    const auto half = [=](const float* from, const IVec& mask) {
      return [=](std::int64_t pixel, float* word) {
        store_as(reinterpret_cast<std::uint16_t*>(word),
                 load_as<IVec>(reinterpret_cast<const std::uint16_t*>(from) + pixel * step) & mask);
      };
    };
    const auto copy = [=](const float* from) {
      return [=](std::int64_t pixel, float* word) {
        std::memcpy(word, reinterpret_cast<const std::uint16_t*>(from) + pixel * step, kTileBytes / 2);
      };
    };
    whole ? write_pixels(pixels, at, copy(low), copy(high))
          : write_pixels(pixels, at, half(low, low_mask), half(high, high_mask));
    return;
  }
  with_kind(StorageDtype::bf16, [&](auto kind) {
    const auto half = [=](const float* from, const IVec& mask) {
      return [=](std::int64_t pixel, float* word) {
        decltype(kind)::store(word, from_bits(bits_of(load(from + pixel * step)) & mask));
      };
    };
    write_pixels(pixels, at, half(low, low_mask), half(high, high_mask));
  });
}

void block_product_by_tiles(const BlockProduct& shape, std::int64_t blocks, const float* x, const float* weight,
                            const BlockEpilogue& epilogue, float* y) {
  constexpr std::int64_t kMost = 2 * kTileRows, kGroup = 2 * kLanes, kTile = kTileRows * kTileBytes, kGroups = 32;
  alignas(64) char rows[kGroups * kMost * kTileBytes], last_weights[2 * kTile];
  alignas(64) float sums[2 * kMost * kLanes];
  const TileScope scope;
  static constexpr std::int64_t kNoTaps[] = {0};
  const std::int64_t whole = shape.in_channels / kGroup, rest = shape.in_channels % kGroup,
                     most = whole < kGroups ? kMost : kTileRows;  // rows that there is room for
  TileProduct product{.rows = 0,
                      .groups = whole,
                      .x_group = most * kTileBytes,
                      .weight_group = kTile,
                      .weight_block = shape.weight_block * 4,
                      .taps = kNoTaps,
                      .weight_taps = kNoTaps,
                      .tap_count = 1,
                      .sum_block = kMost * kLanes};
  if (shape.taps) x += shape.taps[0];
  for (std::int64_t row = 0; row < shape.rows; row += most) {
    product.rows = std::min(most, shape.rows - row);
    for (std::int64_t g = 0; g < whole + (rest > 0); ++g) {
      const float* const low = x + 2 * g * shape.x_block + row * (kLanes / 2);
      const std::int64_t left = shape.in_channels - g * kGroup;
      tile_pixels(StorageDtype::bf16, low, left > kLanes ? low + shape.x_block : nullptr, kLanes, product.rows, left,
                  rows + g * product.x_group);
    }
    for (std::int64_t block = 0; block < blocks; block += 2) {
      const std::int64_t together = std::min<std::int64_t>(2, blocks - block);
      const float* const own = weight + block * shape.weight_block;
      product.start = epilogue.bias ? epilogue.bias + block * kLanes : nullptr;
      tile_product(product, together, rows, own, false, sums);
      if (rest > 0) {  // what lies behind the last pair is not weights
        TileProduct last = product;
        last.groups = 1, last.weight_block = kTile;
        const std::size_t pairs = static_cast<std::size_t>((rest + 1) / 2 * kTileBytes);
        for (std::int64_t b = 0; b < together; ++b) {
          std::memset(last_weights + b * kTile, 0, kTile);
          std::memcpy(last_weights + b * kTile, own + b * shape.weight_block + whole * (kTile / 4), pairs);
        }
        tile_product(last, together, rows + whole * product.x_group, last_weights, true, sums);
      }
      for (std::int64_t b = 0; b < together; ++b) {
        TileEpilogue after{epilogue.add, epilogue.relu, epilogue.rounds, epilogue.add_rounded};
        const std::int64_t to = (block + b) * shape.y_block + row * shape.y_row;
        if (after.add) after.add += after.add_rounded ? to / 2 : to;
        tile_results(sums + b * product.sum_block, product.rows, after, shape.y_row, y + (after.rounds ? to / 2 : to));
      }
    }
  }
}

void block_weight_grad_by_tiles(const BlockWeightGrad& shape, std::int64_t blocks, const float* x, const float* dy,
                                bool add, float* dw) {
  constexpr std::int64_t kTile = kTileRows * kTileBytes, kWords = kTile / 4, kSteps = 32;
  alignas(64) float turned[2 * kSteps * kWords], last[2 * kWords];
  const TileScope scope;
  const std::int64_t whole = shape.rows / kTileRows, rest = shape.rows % kTileRows, steps = whole + (rest > 0);
  const TileGrad grad{.images = 1,
                      .steps = whole,
                      .a_block = steps * kTile,
                      .b_block = shape.dy_block * 4,
                      .a_sum = shape.weight_block * 4,
                      .b_sum = shape.in_blocks * shape.weight_block * 4};
  for (std::int64_t in = 0; in < shape.in_blocks; in += 2) {
    const std::int64_t ins = std::min<std::int64_t>(2, shape.in_blocks - in);
    for (std::int64_t i = 0; i < ins; ++i) {
      float* const to = turned + i * steps * kWords;
      std::memcpy(to, x + (in + i) * shape.x_block, static_cast<std::size_t>(shape.rows * kTileBytes));
      std::fill(to + shape.rows * kLanes, to + steps * kWords, 0.0f);
      transpose_tiles(to, steps);
    }
    for (std::int64_t block = 0; block < blocks; block += 2) {
      const std::int64_t outs = std::min<std::int64_t>(2, blocks - block);
      const float* const own = dy + block * shape.dy_block;
      float* const to = dw + (block * shape.in_blocks + in) * shape.weight_block;
      tile_grad(grad, ins, outs, turned, own, add, to);
      if (rest == 0) continue;
      TileGrad of_last = grad;
      of_last.steps = 1, of_last.b_block = kTile;
      for (std::int64_t b = 0; b < outs; ++b) {
        std::memset(last + b * kWords, 0, kTile);
        std::memcpy(last + b * kWords, own + b * shape.dy_block + whole * kWords,
                    static_cast<std::size_t>(rest * kTileBytes));
      }
      tile_grad(of_last, ins, outs, turned + whole * kWords, last, true, to);
    }
  }
}

}  // namespace neurim::cpu::NEURIM_ISA
