#include "neurim/backend/cpu/common/block_product.h"

#include "neurim/backend/cpu/common/tiles.h"

#define NEURIM_PRODUCT NEURIM_MAY_NAME_NARROW
#include "neurim/backend/cpu/simd/product.h"
#include "neurim/backend/cpu/simd/transpose.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

// sum + products with *x, or with *lo in the first half and *hi in the second. AVX2 needs assembly here: in unrolled
// loops the compiler spills sums and moves them between registers. Sanitizers do not see what the assembly reads.
#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
[[gnu::always_inline]] inline HalfVector plus_product(HalfVector sum, const float* x, HalfVector weight) {
  HalfVector value;
  asm("vbroadcastss %2, %1\n\tvfmadd231ps %3, %1, %0" : "+x"(sum), "=&x"(value) : "m"(*x), "x"(weight));
  return sum;
}
[[gnu::always_inline]] inline Vec plus_product(const Vec& sum, const float* x, const Vec& weight) {
  HalfVector lo = sum.lo, hi = sum.hi, value;
  asm("vbroadcastss %3, %2\n\tvfmadd231ps %4, %2, %0\n\tvfmadd231ps %5, %2, %1"
      : "+x"(lo), "+x"(hi), "=&x"(value)
      : "m"(*x), "x"(weight.lo), "x"(weight.hi));
  return {lo, hi};
}
#else
template <class Sum>
inline Sum plus_product(const Sum& sum, const float* x, const Sum& weight) {
  return sum + weight * *x;
}
#endif
#if !defined(__AVX512F__)
inline Vec plus_product(const Vec& sum, const float* lo, const float* hi, const Vec& weight) {
  return {plus_product(sum.lo, lo, weight.lo), plus_product(sum.hi, hi, weight.hi)};
}
#endif

struct Floats : Factors<kLanes> {
  static Vec weights(const float* at) { return load(at); }
  static constexpr bool kUnrolled = kNamed;
  [[gnu::always_inline]] static Vec multiply_add(const Vec& sum, const Vec& row, const float* x) {
    return plus_product(sum, x, row);
  }
};
struct HalfRows : HalfFactors<kLanes> {
  static constexpr bool kUnrolled = kNamed;
  [[gnu::always_inline]] static Sum multiply_add(const Sum& sum, const Sum& row, const float* x) {
    return plus_product(sum, x, row);
  }
};
#if defined(__AVX512F__)
constexpr int kGroupRows = 14;
#else
constexpr int kGroupRows = 4;
#endif

/// Grouped convolutions with groups of `width` channels: an input channel meets the weights of its own group's lanes.
template <int width>
struct Groups : Factors<kLanes> {
  /// Adds the taps of one block for T rows.
  template <int T>
  static void add(const BlockProduct& shape, const float* x, const float* weight, Vec (&sums)[1][T]) {
    for (std::int64_t tap = 0; tap < shape.tap_count; ++tap, weight += width * kLanes) {
      const float* const rows = shape.taps ? x + shape.taps[tap] : x;
      [&]<int... i>(std::integer_sequence<int, i...>) {
        const Vec own[] = {load(weight + i * kLanes)...};
#pragma GCC unroll 32
        for (int t = 0; t < T; ++t) {
          const Vec row = load(rows + t * kLanes);
          ((sums[0][t] += one_of_each<width, i>(row) * own[i]), ...);
        }
      }(std::make_integer_sequence<int, width>());
    }
  }
};

/// Computes one block with the functions for one row, two rows and so on.
template <std::size_t most>
void multiply_rows(const std::array<Product<Floats>, most>& products, const BlockProduct& shape, const float* x,
                   const float* weight, const BlockEpilogue& epilogue, float* y) {
  each_group(shape.rows, most, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * shape.y_row;
    BlockEpilogue own = epilogue;
    if (epilogue.add) own.add += at;
    products[end - begin - 1](shape, x + begin * kLanes, weight, own, false, {}, y + at);
  });
  if (epilogue.non_temporal) streamed();
}

#if !defined(__AVX512F__)
/// Which 8-channel groups of x a block reads: one, or two of the same or of two blocks.
enum class EightsOf : std::uint8_t { one, same, two };
struct EightsShape : BlockProduct {
  std::int64_t first, second;
  /// The offset of channel `channel` of x.
  std::int64_t place(std::int64_t channel) const { return channel / kLanes * x_block + channel % kLanes; }
};
template <EightsOf of>
struct Eights : HalfRows {
  static constexpr int kMost = of == EightsOf::one ? 12 : 6;
  using Sum = std::conditional_t<of == EightsOf::one, HalfRows::Sum, Vec>;
  static Vec total(const HalfRows::Sum& sum) { return HalfRows::total(sum); }
  static Vec total(const Vec& sum) { return sum; }

  template <int T>
  [[gnu::always_inline]] static void add(const BlockProduct& product, const float* x, const float* weight,
                                         Sum (&sums)[1][T]) {
    const auto& shape = static_cast<const EightsShape&>(product);
    for (std::int64_t tap = 0; tap < shape.tap_count; ++tap) {
      const float* const rows = shape.taps ? x + shape.taps[tap] : x;
      for (std::int64_t channel = 0; channel < shape.in_channels; channel += 8, weight += 8 * kLanes) {
        const float *const lo = rows + shape.place(shape.first + channel), *const hi = of == EightsOf::two
                                                                                           ? rows + shape.place(
                                                                                                        shape.second +
                                                                                                        channel)
                                                                                           : lo;
        each_of<8>([&](int i) __attribute__((always_inline)) {
          const Sum own = load_as<Sum>(weight + i * kLanes);
          each_of<T>([&](int t) __attribute__((always_inline)) {
            const std::int64_t at = t * kLanes + i;
            if constexpr (of == EightsOf::two)
              sums[0][t] = plus_product(sums[0][t], lo + at, hi + at, own);
            else
              sums[0][t] = plus_product(sums[0][t], lo + at, own);
          });
        });
      }
    }
  }
};

template <EightsOf of>
void multiply_eights(const EightsShape& shape, const float* x, const float* weight, const BlockEpilogue& epilogue,
                     float* y) {
  using F = Eights<of>;
  static constexpr auto kAll = products<F, 1>(std::make_integer_sequence<int, F::kMost>());
  multiply_rows(kAll, shape, x, weight, epilogue, y);
}
#endif

template <class Kind>
NEURIM_MAY_NAME_NARROW void pair_up(const float* x, std::int64_t x_row, std::int64_t first, std::int64_t last,
                                    std::int64_t rows, int lanes, float* to) {
  const auto row = [&](std::int64_t number) {
    const Vec all = number >= first && number < last ? load(x + (number - first) * x_row) : Vec{};
    return lanes < kLanes ? first_lanes(all, lanes) : all;
  };
  for (std::int64_t number = 0; number < rows; number += 2, to += kLanes)
    store(to, Kind::pairs(row(number), row(number + 1)));
}

template <class Kind>
void round_rows(const float* x, std::int64_t x_block, std::int64_t x_row, std::int64_t rows, std::int64_t channels,
                float* to) {
  // Strided rows are read whole, a few at a time: column by column, each element would be in another page.
  const std::int64_t together = x_row == kLanes ? rows : 4;
  for (std::int64_t first = 0; first < rows; first += together) {
    const std::int64_t last = std::min(first + together, rows);
    const float* from = x;
    float* block = to;
    for (std::int64_t left = channels; left > 0; left -= kLanes, from += x_block, block += rows * (kLanes / 2))
      for (std::int64_t row = first; row < last; ++row) {
        const Vec all = load(from + row * x_row);
        Kind::store(block + row * (kLanes / 2), left < kLanes ? first_lanes(all, static_cast<int>(left)) : all);
      }
  }
}

template <class Kind>
void round_planes(const float* x, std::int64_t plane, std::int64_t channels, std::int64_t pixels, std::uint16_t* to) {
  for (std::int64_t channel = 0; channel < channels; ++channel, x += plane)
    for (std::int64_t pixel = 0; pixel < pixels; pixel += kLanes) {
      const int count = static_cast<int>(std::min<std::int64_t>(kLanes, pixels - pixel));
      alignas(64) float words[kLanes / 2];
      std::uint16_t rounded[kLanes];
      Kind::store(words, count == kLanes ? load(x + pixel) : load_partial(x + pixel, count));
      std::memcpy(rounded, words, sizeof rounded);
      for (int i = 0; i < count; ++i) to[(pixel + i) * channels + channel] = rounded[i];
    }
}

template <std::int64_t size>
void copy_apart(const char* from, std::int64_t step, std::int64_t columns, char* to) {
  for (std::int64_t column = 0; column < columns; ++column) std::memcpy(to + column * size, from + column * step, size);
}

}  // namespace

void block_product(const BlockProduct& shape, std::int64_t blocks, const float* x, const float* weight,
                   const BlockEpilogue& epilogue, float* y) {
  if (tiles_suit(shape)) return block_product_by_tiles(shape, blocks, x, weight, epilogue, y);
  if (shape.pairs) return pair_product(shape, blocks, x, weight, epilogue, y);
  multiply_all(multiply<Floats>, multiply<HalfRows>, shape, blocks, x, weight, epilogue, y);
}

void group_product([[maybe_unused]] const BlockProduct& shape, [[maybe_unused]] int width,
                   [[maybe_unused]] const float* x, [[maybe_unused]] const float* weight,
                   [[maybe_unused]] const BlockEpilogue& epilogue, [[maybe_unused]] float* y) {
#if defined(__AVX2__)
  static constexpr auto kOfFour = products<Groups<4>, 1>(std::make_integer_sequence<int, kGroupRows>());
  static constexpr auto kOfEight = products<Groups<8>, 1>(std::make_integer_sequence<int, kGroupRows>());
  multiply_rows(width == 4 ? kOfFour : kOfEight, shape, x, weight, epilogue, y);
#else
  __builtin_unreachable();
#endif
}

void eights_product([[maybe_unused]] const BlockProduct& shape, [[maybe_unused]] std::int64_t first,
                    [[maybe_unused]] std::int64_t second, [[maybe_unused]] const float* x,
                    [[maybe_unused]] const float* weight, [[maybe_unused]] const BlockEpilogue& epilogue,
                    [[maybe_unused]] float* y) {
#if !defined(__AVX512F__)
  const auto multiply = second < 0        ? multiply_eights<EightsOf::one>
                        : first == second ? multiply_eights<EightsOf::same>
                                          : multiply_eights<EightsOf::two>;
  multiply({shape, first, second}, x, weight, epilogue, y);
#else
  __builtin_unreachable();
#endif
}

void scale_weights(const float* weight, const float* gate, std::int64_t in_channels, std::int64_t blocks,
                   std::int64_t weight_block, float* to) {
  for (std::int64_t block = 0; block < blocks; ++block, weight += weight_block, to += weight_block)
    for (std::int64_t i = 0; i < in_channels; ++i) store(to + i * kLanes, load(weight + i * kLanes) * splat(gate[i]));
}

void block_weight_grad(const BlockWeightGrad& shape, std::int64_t blocks, const float* x, const float* dy, bool add,
                       float* dw) {
  if (tiles_suit(shape)) return block_weight_grad_by_tiles(shape, blocks, x, dy, add, dw);
  shape.pairs ? pair_weight_grad(shape, blocks, x, dy, add, dw) : weight_grads<Floats>(shape, blocks, x, dy, add, dw);
}

void pair_rows(StorageDtype storage, const float* x, std::int64_t x_row, std::int64_t first, std::int64_t last,
               std::int64_t rows, int lanes, float* to) {
  with_kind(storage, [&](auto kind) { pair_up<decltype(kind)>(x, x_row, first, last, rows, lanes, to); });
}

void pair_rounded_rows(const std::uint16_t* x, std::int64_t x_row, std::int64_t first, std::int64_t last,
                       std::int64_t rows, int lanes, float* to) {
  const IVec kept = first_mask(lanes);
  const auto row = [&](std::int64_t number) {
    return number >= first && number < last ? load_as<IVec>(x + (number - first) * x_row) & kept : IVec{};
  };
  for (std::int64_t number = 0; number < rows; number += 2, to += kLanes)
    store(to, from_bits(row(number) | row(number + 1) << 16));
}

void round_to_pairs(StorageDtype storage, const float* x, std::int64_t x_block, std::int64_t x_row, std::int64_t rows,
                    std::int64_t channels, float* to) {
  with_kind(storage, [&](auto kind) { round_rows<decltype(kind)>(x, x_block, x_row, rows, channels, to); });
}

void round_interleaved(StorageDtype storage, const float* x, std::int64_t plane, std::int64_t channels,
                       std::int64_t pixels, std::uint16_t* to) {
  with_kind(storage, [&](auto kind) { round_planes<decltype(kind)>(x, plane, channels, pixels, to); });
}

void interleave(const float* x, std::int64_t plane, std::int64_t channels, std::int64_t pixels, float* to) {
  const auto four = [&](std::int64_t channel, std::int64_t pixel) {
    return channel < channels ? load4(x + channel * plane + pixel) : Four{};
  };
  std::int64_t pixel = 0;
  for (; pixel + 4 < pixels; pixel += 4)  // the next pixel overwrites what is written past this one
    store_columns(four(0, pixel), four(1, pixel), four(2, pixel), four(3, pixel), to + pixel * channels, channels);
  for (; pixel < pixels; ++pixel)
    for (std::int64_t channel = 0; channel < channels; ++channel)
      to[pixel * channels + channel] = x[channel * plane + pixel];
}

void copy_columns(const void* from, std::int64_t step, std::int64_t columns, std::int64_t size, void* to) {
  (size == 64 ? copy_apart<64> : copy_apart<32>)(static_cast<const char*>(from), step * size / kLanes, columns,
                                                 static_cast<char*>(to));
}

}  // namespace neurim::cpu::NEURIM_ISA
