// The blocked matrix product of convolutions, a template over the factors. A factors type F defines:
//   kWords       words of a row of a block,
//   Kind         the 16-bit type that results may be stored as (see RoundedTo), or void,
//   finish()     for i32 sums: writes those of a block as its Epilogue describes,
//   kRows        rows computed at once for 1, 2 or 3 blocks,
//   Sum          the accumulator of a row of a block,
//   weights()    loads a row of weights; multiply_add() adds its product with a word of x to a sum,
//   kUnrolled    whether the sums of one block are unrolled: see add_unrolled(),
//   total()      converts a sum to floats,
//   kShort       for sums of low precision: products that a lane takes before its total is added to a float.
// NEURIM_PRODUCT is the target attribute of the functions that call multiply_add().
#pragma once
#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/simd/storage.h"

namespace neurim::cpu::NEURIM_ISA {

/// block_product() and block_weight_grad() of pairs of f16 with AVX512-FP16 instructions.
void f16_product(const BlockProduct& shape, std::int64_t first_block, std::int64_t last_block, const float* x,
                 const float* weight, const BlockEpilogue& epilogue, float* y);
void f16_weight_grad(const BlockWeightGrad& shape, std::int64_t blocks, const float* x, const float* dy, bool add,
                     float* dw);
/// The same of pairs of bf16 or f16 by whichever instructions the machine has.
void pair_product(const BlockProduct& shape, std::int64_t blocks, const float* x, const float* weight,
                  const BlockEpilogue& epilogue, float* y);
void pair_weight_grad(const BlockWeightGrad& shape, std::int64_t blocks, const float* x, const float* dy, bool add,
                      float* dw);

namespace {

/// Register blocking. kRows: rows of which 1, 2 or 3 blocks stay in registers beside the weights and one broadcast
/// value. kHalfRows: the same for half a block. kTogether: blocks computed together for any number of rows. kGradRows
/// and kGradBlocks: input channels and blocks of a weight gradient.
#if defined(__AVX512F__)
constexpr int kRows[] = {28, 14, 9}, kHalfRows = 28, kTogether = 2, kGradRows = 8, kGradBlocks = 2;
#else
constexpr int kRows[] = {6, 2, 1}, kHalfRows = 12, kTogether = 1, kGradRows = 6, kGradBlocks = 1;
#endif
/// Whether the sums of one block are unrolled where a factors type has the choice: where it uses inline assembly.
#if defined(__AVX2__) && !defined(__AVX512F__)
constexpr bool kNamed = true;
#else
constexpr bool kNamed = false;
#endif

/// Calls use(0) ... use(T - 1) unrolled. Sanitizers get a loop: their checks make unrolled code take minutes to
/// compile.
template <int T, class Use>
[[gnu::always_inline]] inline void each_of(Use use) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  for (int t = 0; t < T; ++t) use(t);
#else
  [&]<int... t>(std::integer_sequence<int, t...>) __attribute__((always_inline)) { (use(t), ...); }
  (std::make_integer_sequence<int, T>());
#endif
}

template <int words, class Rounds = void>
struct Factors {
  static constexpr int kWords = words;
  static constexpr const int (&kRows)[3] = NEURIM_ISA::kRows;
  static constexpr bool kUnrolled = false;
  using Sum = Vec;
  using Kind = Rounds;
  using Epilogue = BlockEpilogue;
  static Vec total(const Vec& sum) { return sum; }
};
/// The first half of the lanes only. With AVX-512 that is a 256-bit register, of which some processors multiply two a
/// cycle where they multiply one of 512 bits.
template <int words, class Rounds = void>
struct HalfFactors : Factors<words, Rounds> {
  static constexpr int kRows[] = {kHalfRows, 1, 1};
  using Sum = HalfVector;
  static Sum weights(const float* at) { return load_as<Sum>(at); }
  static Vec total(const Sum& sum) { return with_zeros(sum); }
};
template <class F>
constexpr bool kShortSums = requires { F::kShort; };
template <class F>
constexpr bool kWholeSums = !std::is_same_v<typename F::Epilogue, BlockEpilogue>;

/// A product over a slice of the input channels. `totals` holds the sums of the slices so far.
struct Slice {
  float* totals = nullptr;
  bool first = true, last = true;
};

/// Writes the sums of block `block`, counted from where the epilogue and y begin. Rows of y are `y_row` floats apart.
template <class F, int T>
[[gnu::always_inline]] NEURIM_PRODUCT inline void write_floats(const typename F::Sum (&sums)[T],
                                                               const BlockProduct& shape, const BlockEpilogue& epilogue,
                                                               [[maybe_unused]] const Slice& slice, int block,
                                                               std::int64_t y_row, float* y) {
  using Kind = typename F::Kind;
  constexpr bool kRounds = !std::is_void_v<Kind>;
  // Loaded once: the stores below might alias the epilogue.
  const float *const more = epilogue.add, *const bias = epilogue.bias;
  const std::int64_t block_at = block * shape.y_block;
  const Relu relu = epilogue.relu;
  const bool non_temporal = epilogue.non_temporal;
  [[maybe_unused]] const StorageDtype rounds = epilogue.rounds, more_rounded = epilogue.add_rounded;
  Vec results[T];
#pragma GCC unroll 32
  for (int t = 0; t < T; ++t) results[t] = F::total(sums[t]);
  if constexpr (kShortSums<F>) {
    float* const totals = slice.totals + block * T * kLanes;
#pragma GCC unroll 32
    for (int t = 0; t < T; ++t) {
      if (!slice.first) results[t] += load(totals + t * kLanes);
      if (!slice.last) store(totals + t * kLanes, results[t]);
      if (bias) results[t] += load(bias + block * kLanes);
    }
    if (!slice.last) return;
  }
  if (more) {
#pragma GCC unroll 32
    for (int t = 0; t < T; ++t) {
      const std::int64_t at = block_at + t * y_row;
      if constexpr (kRounds)
        results[t] += more_rounded ? RoundedTo<Kind>::get(more, at) : load(more + at);
      else
        results[t] += load(more + at);
    }
  }
  if (relu.on) {
    const Vec least{}, most = splat(relu.most);
#pragma GCC unroll 32
    for (int t = 0; t < T; ++t) results[t] = limited(results[t], least, most);
  }
#pragma GCC unroll 32
  for (int t = 0; t < T; ++t) {
    const std::int64_t at = block_at + t * y_row;
    if constexpr (kRounds)
      if (rounds) {
        RoundedTo<Kind>::put(y, at, results[t]);
        continue;
      }
    if (non_temporal) [[unlikely]]
      stream(y + at, results[t]);
    else
      store(y + at, results[t]);
  }
}

/// Adds the products of one word of x to the sums of T rows of one block.
template <class F, int T>
[[gnu::always_inline]] inline void add_word(const float* x, const float* weight, typename F::Sum (&sums)[T]) {
  const auto own = F::weights(weight);
  each_of<T>([&](int t) __attribute__((always_inline)) { sums[t] = F::multiply_add(sums[t], own, x + t * F::kWords); });
}

/// As add_unrolled(), for any number of input channels and any taps.
template <class F, int T>
[[gnu::noinline]] void add_looping(const BlockProduct& shape, const float* x, const float* weight, bool ahead,
                                   typename F::Sum (&sums)[T]) {
  constexpr int kWords = F::kWords, kTogether = kLanes / kWords;
  typename F::Sum all[T];
  std::copy_n(sums, T, all);
  const float* own = weight;
  for (std::int64_t left = shape.in_channels; left > 0; left -= kLanes, x += shape.x_block) {
    const std::int64_t words = (std::min<std::int64_t>(left, kLanes) + kTogether - 1) / kTogether;
    if (shape.fetch) shape.fetch->some();
    for (std::int64_t tap = 0; tap < shape.tap_count; ++tap, own += kWords * kLanes) {
      const float* const rows = shape.taps ? x + shape.taps[tap] : x;
      if (shape.weight_taps) own = weight + shape.weight_taps[tap];
      for (std::int64_t i = 0; i < words; ++i) {
        if (ahead) __builtin_prefetch(own + shape.weight_block + i * kLanes, 0, 2);
        add_word<F>(rows + i, own + i * kLanes, all);
      }
    }
    if (shape.weight_taps) weight += shape.weight_in;
  }
  std::copy_n(all, T, sums);
}

/// Sums T rows of one block over all input channels, with the words of a block unrolled. A hyper-thread issues three
/// instructions a cycle for two products, so loop instructions would cost product throughput.
template <class F, int T>
[[gnu::always_inline]] inline void add_unrolled(const BlockProduct& shape, const float* x, const float* weight,
                                                bool ahead, typename F::Sum (&sums)[T]) {
  const auto looping = [&](const BlockProduct& all) __attribute__((always_inline)) {
    typename F::Sum in_memory[T];  // a copy, so that `sums` itself can stay in registers
    std::copy_n(sums, T, in_memory);
    add_looping<F>(all, x, weight, ahead, in_memory);
    std::copy_n(in_memory, T, sums);
  };
  if (shape.weight_taps) return looping(shape);
  static constexpr std::int64_t kOneTap[] = {0};
  const std::int64_t *const taps = shape.taps ? shape.taps : kOneTap, *const last_tap = taps + shape.tap_count;
  const auto add_words = [&]<int count>(std::integral_constant<int, count>) __attribute__((always_inline)) {
    if (shape.fetch) shape.fetch->some();
    for (const std::int64_t* tap = taps; tap != last_tap; ++tap, weight += F::kWords * kLanes) {
      const float* const rows = x + *tap;
      const auto add = [&](int word) __attribute__((always_inline)) {
        add_word<F>(rows + word, weight + word * kLanes, sums);
      };
      if (ahead)
        each_of<count>([&](int word) __attribute__((always_inline)) {
          __builtin_prefetch(weight + shape.weight_block + word * kLanes, 0, 2);
          add(word);
        });
      else
        each_of<count>(add);
    }
  };
  std::int64_t left = shape.in_channels;
  for (; left >= kLanes; left -= kLanes, x += shape.x_block) add_words(std::integral_constant<int, F::kWords>());
  if (left == kLanes / 2) return add_words(std::integral_constant<int, F::kWords / 2>());
  if (left == 0) return;
  BlockProduct rest = shape;
  rest.in_channels = left;
  looping(rest);
}

/// Computes B blocks of T rows in registers over all input channels. `ahead`: prefetches the weights of the next
/// blocks, which may be in DRAM.
template <class F, int B, int T>
NEURIM_PRODUCT void product(const BlockProduct& shape, const float* x, const float* weight,
                            const typename F::Epilogue& epilogue, bool ahead, [[maybe_unused]] const Slice& slice,
                            float* y) {
  using Sum = typename F::Sum;
  Sum sums[B][T];
#pragma GCC unroll 32
  for (int b = 0; b < B; ++b) {
    Sum first{};
    if constexpr (kWholeSums<F>)
      first = from_bits(load_as<IVec>(epilogue.start + b * kLanes));
    else if (!kShortSums<F> && epilogue.bias)
      first = load_as<Sum>(epilogue.bias + b * kLanes);
#pragma GCC unroll 32
    for (int t = 0; t < T; ++t) sums[b][t] = first;
  }
  constexpr int kWords = F::kWords, kTogether = kLanes / kWords;
  const std::int64_t weight_block = shape.weight_block;
  const float* own = weight;
  if constexpr (requires { F::add(shape, x, weight, sums); })  // F computes the whole sum
    F::add(shape, x, weight, sums);
  else if constexpr (B == 1 && F::kUnrolled)
    add_unrolled<F>(shape, x, weight, ahead, sums[0]);
  else
    for (std::int64_t left = shape.in_channels; left > 0; left -= kLanes, x += shape.x_block) {
      const int words = static_cast<int>((std::min<std::int64_t>(left, kLanes) + kTogether - 1) / kTogether);
      if (shape.fetch) shape.fetch->some();
      for (std::int64_t tap = 0; tap < shape.tap_count; ++tap, own += kWords * kLanes) {
        const float* const rows = shape.taps ? x + shape.taps[tap] : x;
        if (shape.weight_taps) own = weight + shape.weight_taps[tap];
#pragma GCC unroll 2
        for (int i = 0; i < words; ++i) {
          decltype(F::weights(own)) row[B];
#pragma GCC unroll 32
          for (int b = 0; b < B; ++b) row[b] = F::weights(own + b * weight_block + i * kLanes);
          if (ahead) {
#pragma GCC unroll 32
            for (int b = 0; b < B; ++b) __builtin_prefetch(own + (B + b) * weight_block + i * kLanes, 0, 2);
          }
#pragma GCC unroll 32
          for (int t = 0; t < T; ++t)
#pragma GCC unroll 32
            for (int b = 0; b < B; ++b) sums[b][t] = F::multiply_add(sums[b][t], row[b], rows + t * kWords + i);
        }
      }
      if (shape.weight_taps) weight += shape.weight_in;
    }
#pragma GCC unroll 32
  for (int b = 0; b < B; ++b)
    if constexpr (kWholeSums<F>)
      F::finish(sums[b], shape, epilogue, b, y);
    else if (shape.y_row == kLanes)  // constant offsets need no address arithmetic
      write_floats<F>(sums[b], shape, epilogue, slice, b, kLanes, y);
    else
      write_floats<F>(sums[b], shape, epilogue, slice, b, shape.y_row, y);
}

template <class F>
using Product = void (*)(const BlockProduct&, const float*, const float*, const typename F::Epilogue&, bool,
                         const Slice&, float*);

/// The functions for 1 to T rows.
template <class F, int B, int... T>
constexpr std::array<Product<F>, sizeof...(T)> products(std::integer_sequence<int, T...>) {
  return {product<F, B, T + 1>...};
}

/// Calls each(begin, end) for the least number of groups of at most `most` rows, of nearly equal size.
template <class Each>
void each_group(std::int64_t rows, std::int64_t most, Each each) {
  const std::int64_t groups = (rows + most - 1) / most, least = groups > 0 ? rows / groups : 0;
  for (std::int64_t begin = 0, longer = rows - groups * least; begin < rows;) {
    const std::int64_t end = begin + least + (longer-- > 0);
    each(begin, end);
    begin = end;
  }
}

/// Cuts the blocks [first, last) of a result into runs that are computed together. Calls each(functions, most, block):
/// the products of so many blocks by number of rows, the most rows of one call, and the run's first block.
template <class F, class Each>
void cut(const BlockProduct& shape, std::int64_t first, std::int64_t last, Each each) {
  constexpr auto& kMost = F::kRows;
  static constexpr auto kOne = products<F, 1>(std::make_integer_sequence<int, kMost[0]>());
  static constexpr auto kTwo = products<F, 2>(std::make_integer_sequence<int, kMost[1]>());
  static constexpr auto kThree = products<F, 3>(std::make_integer_sequence<int, kMost[2]>());
  for (std::int64_t block = first, together = 0; block < last; block += together) {
    together = std::min<std::int64_t>(shape.rows <= kMost[2]   ? 3
                                      : shape.rows <= kMost[1] ? 2
                                      : shape.rows <= kMost[0] ? 1
                                                               : kTogether,
                                      last - block);
    each(together == 3 ? kThree.data() : together == 2 ? kTwo.data() : kOne.data(), kMost[together - 1], block);
  }
}

template <class F>
void multiply(const BlockProduct& shape, std::int64_t first_block, std::int64_t last_block, const float* x,
              const float* weight, const BlockEpilogue& epilogue, float* y) {
  cut<F>(shape, first_block, last_block, [&](const Product<F>* product_of, int most, std::int64_t block) {
    const float *rows = x, *const weights = weight + block * shape.weight_block;
    BlockEpilogue own = epilogue;
    float* to = y;
    const auto go_on = [&](std::int64_t floats) {
      if (own.add) own.add += own.add_rounded ? floats / 2 : floats;
      to += own.rounds ? floats / 2 : floats;
    };
    if (own.bias) own.bias += block * kLanes;
    go_on(block * shape.y_block);
    each_group(shape.rows, most, [&](std::int64_t begin, std::int64_t end) {
      const auto product = product_of[end - begin - 1];
      const bool ahead = begin == 0 && !shape.fetch;
      if constexpr (!kShortSums<F>) {
        static constexpr Slice kAll;
        product(shape, rows, weights, own, ahead, kAll, to);
      } else {
        const std::int64_t taps = std::max<std::int64_t>(1, shape.tap_count),
                           deep = std::max<std::int64_t>(1, F::kShort / (F::kWords * taps)),
                           in_blocks = (shape.in_channels + kLanes - 1) / kLanes,
                           weight_in = shape.weight_taps ? shape.weight_in : shape.tap_count * F::kWords * kLanes;
        alignas(64) float totals[kRows[0] * kLanes];
        each_group(in_blocks, deep, [&](std::int64_t first, std::int64_t last) {
          BlockProduct of_slice = shape;
          of_slice.in_channels = std::min(shape.in_channels, last * kLanes) - first * kLanes;
          product(of_slice, rows + first * shape.x_block, weights + first * weight_in, own, ahead,
                  {totals, first == 0, last == in_blocks}, to);
        });
      }
      rows += (end - begin) * F::kWords;
      go_on((end - begin) * shape.y_row);
    });
  });
}

/// Computes T input channels of B blocks in registers over all rows.
template <class F, int B, int T>
NEURIM_PRODUCT void weight_grad(const BlockWeightGrad& shape, const float* x, const float* dy, bool add, float* dw) {
  Vec sums[B][T];
#pragma GCC unroll 8
  for (int b = 0; b < B; ++b)
#pragma GCC unroll 8
    for (int i = 0; i < T; ++i) sums[b][i] = Vec{};
  const std::int64_t dy_block = shape.dy_block;
  for (std::int64_t run = 0; run < shape.images * shape.runs; ++run) {
    const float* value = x + run / shape.runs * shape.x_image + run % shape.runs * shape.x_run;
    std::int64_t row = 0;
    if constexpr (B == 1 && F::kUnrolled) {
      constexpr int kAtOnce = 4;
      for (; row + kAtOnce <= shape.rows; row += kAtOnce, value += kAtOnce * kLanes, dy += kAtOnce * kLanes)
        each_of<kAtOnce>([&](int r) __attribute__((always_inline)) {
          const auto own = F::weights(dy + r * kLanes);
          each_of<T>([&](int i) __attribute__((always_inline)) {
            sums[0][i] = F::multiply_add(sums[0][i], own, value + r * kLanes + i);
          });
        });
    }
    for (; row < shape.rows; ++row, value += kLanes, dy += kLanes) {
      const float* const gradient = dy;
      decltype(F::weights(gradient)) own[B];
#pragma GCC unroll 8
      for (int b = 0; b < B; ++b) own[b] = F::weights(gradient + b * dy_block);
#pragma GCC unroll 8
      for (int i = 0; i < T; ++i)
#pragma GCC unroll 8
        for (int b = 0; b < B; ++b) sums[b][i] = F::multiply_add(sums[b][i], own[b], value + i);
    }
  }
#pragma GCC unroll 8
  for (int b = 0; b < B; ++b)
#pragma GCC unroll 8
    for (int i = 0; i < T; ++i) {
      float* const to = dw + b * shape.in_blocks * shape.weight_block + i * kLanes;
      const Vec total = F::total(sums[b][i]);
      store(to, add ? load(to) + total : total);
    }
}

/// multiply<> of some factors.
using Multiply = void (*)(const BlockProduct& shape, std::int64_t first_block, std::int64_t last_block, const float* x,
                          const float* weight, const BlockEpilogue& epilogue, float* y);

/// Computes all blocks by `all`, but a last one that is less than half full by `half` if there is one.
[[maybe_unused]] void multiply_all(Multiply all, Multiply half, const BlockProduct& shape, std::int64_t blocks,
                                   const float* x, const float* weight, const BlockEpilogue& epilogue, float* y) {
  if (shape.out_channels > (blocks - 1) * kLanes + kLanes / 2) half = nullptr;
  if (half) half(shape, blocks - 1, blocks, x, weight, epilogue, y);
  all(shape, 0, half ? blocks - 1 : blocks, x, weight, epilogue, y);
  if (epilogue.non_temporal) streamed();
}

/// Calls each(task, x, dy) for runs of rows so short that no lane takes more than kShort products.
template <class F, class Each>
void each_short(const BlockWeightGrad& shape, const float* x, const float* dy, Each each) {
  if constexpr (!kShortSums<F>) {
    each(shape, x, dy);
  } else {
    const std::int64_t rows = std::min<std::int64_t>(shape.rows, F::kShort),
                       runs = std::clamp<std::int64_t>(F::kShort / shape.rows, 1, shape.runs),
                       images = std::clamp<std::int64_t>(F::kShort / (shape.rows * shape.runs), 1, shape.images);
    BlockWeightGrad task = shape;
    for (std::int64_t image = 0; image < shape.images; image += images)
      for (std::int64_t run = 0; run < shape.runs; run += runs)
        for (std::int64_t row = 0; row < shape.rows; row += rows) {
          task.images = std::min(images, shape.images - image), task.runs = std::min(runs, shape.runs - run),
          task.rows = std::min(rows, shape.rows - row);
          each(task, x + image * shape.x_image + run * shape.x_run + row * kLanes,
               dy + ((image * shape.runs + run) * shape.rows + row) * kLanes);
        }
  }
}

template <class F>
void weight_grads(const BlockWeightGrad& shape, std::int64_t blocks, const float* x, const float* dy, bool add,
                  float* dw) {
  each_short<F>(shape, x, dy, [&](const BlockWeightGrad& task, const float* slice_x, const float* slice_dy) {
    for (std::int64_t block = 0; block < blocks; block += kGradBlocks) {
      const bool all = block + kGradBlocks <= blocks;
      for (std::int64_t in = 0; in < shape.in_blocks; ++in)
        each_group(kLanes, kGradRows, [&](std::int64_t begin, std::int64_t end) {
          constexpr int kFewer = kLanes / ((kLanes + kGradRows - 1) / kGradRows);  // the other group size
          const auto grad = end - begin == kGradRows
                                ? all ? weight_grad<F, kGradBlocks, kGradRows> : weight_grad<F, 1, kGradRows>
                            : all ? weight_grad<F, kGradBlocks, kFewer>
                                  : weight_grad<F, 1, kFewer>;
          const float *const values = slice_x + in * shape.x_block + begin, *const gradients = slice_dy +
                                                                                               block * shape.dy_block;
          float* const sums = dw + (block * shape.in_blocks + in) * shape.weight_block + begin * kLanes;
          grad(task, values, gradients, add || slice_dy != dy, sums);
        });
    }
  });
}

}  // namespace

}  // namespace neurim::cpu::NEURIM_ISA
