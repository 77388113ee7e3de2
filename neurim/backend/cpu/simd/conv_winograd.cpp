#include "neurim/backend/cpu/conv/conv_winograd.h"

#include <algorithm>
#include <array>
#include <utility>

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/simd/simd.h"
#include "neurim/backend/cpu/simd/storage.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

/// The tile size and interpolation points along an axis: 0, two pairs of opposite numbers, and infinity. The forward
/// pass also has tiles of two pixels, with the points 0, 1, -1 and infinity.
constexpr int kSize = kWinogradTile, kPoints = kSize + 2, kOpposites = 2, kBlock = kLanes * kLanes;
/// The positive points. They have few bits, so that products with them round little, and their powers stay near one.
/// The error is about that of a direct sum; with 1 and 2, as in the paper, it is twice as large.
constexpr std::array<double, kOpposites> kPositive{0.625, 1.5};

/// The coefficients of the transforms, by pair of opposite points.
struct Numbers {
  float point[kOpposites]{}, square[kOpposites]{}, power[kOpposites][kSize]{};  ///< and powers from 0 on
  float squares = 0, product = 0;                                               ///< the sum and product of the squares
  float zero = 0, scale[kOpposites]{}, odd[kOpposites]{},
        even[kOpposites]{};  ///< 1 / product of a point's distances to the others, times powers of the point: 1, a, a^2

  constexpr Numbers() {
    for (std::size_t p = 0; p < kOpposites; ++p) {
      const double a = kPositive[p], b = kPositive[1 - p], distances = 2 * a * a * (a * a - b * b);
      point[p] = static_cast<float>(a);
      square[p] = static_cast<float>(a * a);
      scale[p] = static_cast<float>(1 / distances);
      odd[p] = static_cast<float>(a / distances);
      even[p] = static_cast<float>(a * a / distances);
      double power_of = 1;
      for (std::size_t k = 0; k < kSize; ++k, power_of *= a) power[p][k] = static_cast<float>(power_of);
    }
    const double first = kPositive[0] * kPositive[0], second = kPositive[1] * kPositive[1];
    squares = static_cast<float>(first + second);
    product = static_cast<float>(first * second);
    zero = static_cast<float>(1 / (first * second));
  }
};
constexpr Numbers kNumbers;

// The transforms along one axis. The row of a point a in the input transform is the product of (z - b) over the other
// finite points b; that of infinity is the product over all. Opposite points share the even and the odd part. Always
// inlined, so that the arrays are registers.

[[gnu::always_inline]] inline void input(const Vec (&d)[kPoints], Vec (&v)[kPoints]) {
  v[0] = d[4] - kNumbers.squares * d[2] + kNumbers.product * d[0];
  v[5] = d[5] - kNumbers.squares * d[3] + kNumbers.product * d[1];
#pragma GCC unroll 2
  for (int p = 0; p < kOpposites; ++p) {
    const float other = kNumbers.square[1 - p];
    const Vec even = d[4] - other * d[2], odd = kNumbers.point[p] * (d[3] - other * d[1]);
    v[2 * p + 1] = even + odd;
    v[2 * p + 2] = even - odd;
  }
}

[[gnu::always_inline]] inline void input(const Vec (&d)[4], Vec (&v)[4]) {
  v[0] = d[2] - d[0];
  v[1] = d[2] + d[1];
  v[2] = d[2] - d[1];
  v[3] = d[3] - d[1];
}

[[gnu::always_inline]] inline void weights(const Vec (&g)[3], Vec (&u)[kPoints]) {
  u[0] = kNumbers.zero * g[0];
  u[5] = g[2];
#pragma GCC unroll 2
  for (int p = 0; p < kOpposites; ++p) {
    const Vec even = kNumbers.scale[p] * g[0] + kNumbers.even[p] * g[2], odd = kNumbers.odd[p] * g[1];
    u[2 * p + 1] = even + odd;
    u[2 * p + 2] = even - odd;
  }
}

[[gnu::always_inline]] inline void weights(const Vec (&g)[3], Vec (&u)[4]) {
  const Vec even = 0.5f * (g[0] + g[2]), odd = 0.5f * g[1];
  u[0] = -g[0];
  u[1] = even + odd;
  u[2] = even - odd;
  u[3] = g[2];
}

/// The transpose of weights().
[[gnu::always_inline]] inline void weights_grad(const Vec (&u)[kPoints], Vec (&g)[3]) {
  g[0] = kNumbers.zero * u[0], g[1] = Vec{}, g[2] = u[5];
#pragma GCC unroll 2
  for (int p = 0; p < kOpposites; ++p) {
    const Vec sum = u[2 * p + 1] + u[2 * p + 2], difference = u[2 * p + 1] - u[2 * p + 2];
    g[0] += kNumbers.scale[p] * sum;
    g[1] += kNumbers.odd[p] * difference;
    g[2] += kNumbers.even[p] * sum;
  }
}

[[gnu::always_inline]] inline void output(const Vec (&m)[kPoints], Vec (&y)[kSize]) {
  const Vec sum[] = {m[1] + m[2], m[3] + m[4]}, difference[] = {m[1] - m[2], m[3] - m[4]};
  y[0] = m[0] + sum[0] + sum[1];
  y[1] = kNumbers.power[0][1] * difference[0] + kNumbers.power[1][1] * difference[1];
  y[2] = kNumbers.power[0][2] * sum[0] + kNumbers.power[1][2] * sum[1];
  y[3] = kNumbers.power[0][3] * difference[0] + kNumbers.power[1][3] * difference[1] + m[5];
}

[[gnu::always_inline]] inline void output(const Vec (&m)[4], Vec (&y)[2]) {
  y[0] = m[0] + m[1] + m[2];
  y[1] = m[1] - m[2] + m[3];
}

/// The transpose of output().
[[gnu::always_inline]] inline void output_grad(const Vec (&y)[kSize], Vec (&m)[kPoints]) {
  m[0] = y[0], m[5] = y[3];
#pragma GCC unroll 2
  for (int p = 0; p < kOpposites; ++p) {
    const Vec even = y[0] + kNumbers.power[p][2] * y[2],
              odd = kNumbers.power[p][1] * y[1] + kNumbers.power[p][3] * y[3];
    m[2 * p + 1] = even + odd;
    m[2 * p + 2] = even - odd;
  }
}

/// The tiles of a run, in order.
struct Place {
  const WinogradShape& shape;
  std::int64_t image, row, column;

  Place(const WinogradShape& s, std::int64_t tile)
      : shape(s),
        image(tile / (s.rows() * s.columns())),
        row(tile / s.columns() % s.rows()),
        column(tile % s.columns()) {}
  void next() {
    if (++column < shape.columns()) return;
    column = 0;
    if (++row < shape.rows()) return;
    row = 0, ++image;
  }
};

/// How values at the points are stored.
struct Floats {
  static constexpr int kWords = kLanes;
  static void put(float* at, Vec v) { store(at, v); }
};
template <class Kind>
struct Pairs {
  static constexpr int kWords = kLanes / 2;
  static void put(float* at, Vec v) { Kind::store(at, v); }
};

/// Transforms a tile of (m + 2)^2 pixels from element `first` of x, rows `stride` elements apart.
template <class Pixels, class Values, int kSize>
void input_tile(const float* x, std::int64_t first, std::int64_t stride, float* v, std::int64_t plane) {
  constexpr int kPoints = kSize + 2;
  Vec half[kPoints][kPoints], in[kPoints], out[kPoints];
#pragma GCC unroll 8
  for (int j = 0; j < kPoints; ++j) {
#pragma GCC unroll 8
    for (int i = 0; i < kPoints; ++i) in[i] = Pixels::get(x, first + i * stride + j * kLanes);
    input(in, out);
#pragma GCC unroll 8
    for (int i = 0; i < kPoints; ++i) half[i][j] = out[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < kPoints; ++i) {
    input(half[i], out);
#pragma GCC unroll 8
    for (int j = 0; j < kPoints; ++j) Values::put(v + (i * kPoints + j) * plane, out[j]);
  }
}

template <class Pixels, class Values, int kSize>
void input_tiles(const WinogradShape& s, const WinogradTiles& tiles, const float* x, float* v) {
  constexpr int kPoints = kSize + 2;
  const std::int64_t pixels = s.in_height * s.in_width, stride = s.in_width * kLanes;
  for (std::int64_t block = 0; block < s.in_blocks; ++block) {
    Place at(s, tiles.first);
    for (std::int64_t t = 0; t < tiles.count; ++t, at.next()) {
      const std::int64_t top = at.row * kSize - s.top, left = at.column * kSize - s.left;
      const std::int64_t image = (at.image * s.in_blocks + block) * pixels * kLanes;
      float* to = v + (block * tiles.count + t) * Values::kWords;
      if (top >= 0 && left >= 0 && top + kPoints <= s.in_height && left + kPoints <= s.in_width) {
        input_tile<Pixels, Values, kSize>(x, image + top * stride + left * kLanes, stride, to, tiles.input_plane);
        continue;
      }
      alignas(64) float padded[kPoints * kPoints * kLanes];
      for (int i = 0; i < kPoints; ++i)
        for (int j = 0; j < kPoints; ++j) {
          const std::int64_t row = top + i, column = left + j;
          const bool inside = row >= 0 && row < s.in_height && column >= 0 && column < s.in_width;
          store(padded + (i * kPoints + j) * kLanes,
                inside ? Pixels::get(x, image + row * stride + column * kLanes) : Vec{});
        }
      input_tile<Exact, Values, kSize>(padded, 0, std::int64_t{kPoints} * kLanes, to, tiles.input_plane);
    }
  }
}

template <int kSize>
void input_in_tiles(const WinogradShape& shape, const WinogradTiles& tiles, const float* x, float* v) {
  with_read_places(shape.x_rounded, [&](auto pixels) {
    using Pixels = decltype(pixels);
    if (!shape.pairs) return input_tiles<Pixels, Floats, kSize>(shape, tiles, x, v);
    with_kind(shape.pairs, [&](auto kind) { input_tiles<Pixels, Pairs<decltype(kind)>, kSize>(shape, tiles, x, v); });
  });
}

/// Adds the products of one input block to m, for one row of points of T tiles. Prefetches the weights `ahead`.
template <int row, int T>
void add_row(const WinogradTiles& tiles, const float* v, const float* w, const float* ahead, float* m) {
  constexpr int kTaps = 9;
  v += row * kPoints * tiles.input_plane, m += row * kPoints * tiles.output_plane;
  Vec sums[kPoints][T];
#pragma GCC unroll 8
  for (int j = 0; j < kPoints; ++j)
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) sums[j][t] = load(m + j * tiles.output_plane + t * kLanes);
  for (int in = 0; in < kLanes; ++in) {
#pragma GCC unroll 8
    for (int tap = row; tap < kTaps; tap += kPoints) __builtin_prefetch(ahead + tap * kBlock + in * kLanes);
    Vec half[3], taps[3], u[kPoints];
#pragma GCC unroll 8
    for (int j = 0; j < 3; ++j) {
#pragma GCC unroll 8
      for (int i = 0; i < 3; ++i) taps[i] = load(w + (3 * i + j) * kBlock + in * kLanes);
      weights(taps, u);
      half[j] = u[row];
    }
    weights(half, u);
#pragma GCC unroll 8
    for (int j = 0; j < kPoints; ++j)
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) sums[j][t] += u[j] * splat(v[j * tiles.input_plane + t * kLanes + in]);
  }
#pragma GCC unroll 8
  for (int j = 0; j < kPoints; ++j)
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) store(m + j * tiles.output_plane + t * kLanes, sums[j][t]);
}

template <int T, int... row>
void add_rows(std::integer_sequence<int, row...>, const WinogradTiles& tiles, const float* v, const float* w,
              const float* ahead, float* m) {
  (add_row<row, T>(tiles, v, w, ahead, m), ...);
}

/// The same for all rows of points.
template <int T>
void add_points(const WinogradTiles& tiles, const float* v, const float* w, const float* ahead, float* m) {
  add_rows<T>(std::make_integer_sequence<int, kPoints>(), tiles, v, w, ahead, m);
}

template <int kSize>
void weights_of_tiles(const float* w, bool flipped, std::int64_t first, std::int64_t last, std::int64_t plane,
                      float* u) {
  constexpr int kPoints = kSize + 2;
  for (std::int64_t block = first; block < last; ++block)
    for (int in = 0; in < kLanes; ++in) {
      const float* from = w + block * 9 * kBlock + in * kLanes;
      float* to = u + block * kBlock + in * kLanes;
      Vec half[kPoints][3], taps[3], out[kPoints];
#pragma GCC unroll 8
      for (int j = 0; j < 3; ++j) {
#pragma GCC unroll 8
        for (int i = 0; i < 3; ++i) {
          const int tap = 3 * i + j;
          taps[i] = load(from + (flipped ? 8 - tap : tap) * kBlock);
        }
        weights(taps, out);
#pragma GCC unroll 8
        for (int i = 0; i < kPoints; ++i) half[i][j] = out[i];
      }
#pragma GCC unroll 8
      for (int i = 0; i < kPoints; ++i) {
        weights(half[i], out);
#pragma GCC unroll 8
        for (int j = 0; j < kPoints; ++j) store(to + (i * kPoints + j) * plane, out[j]);
      }
    }
}

template <int kSize, class Y, class Add, class Mask, class Factor>
void output_tiles(const WinogradShape& s, const WinogradTiles& tiles, const float* m, const ConvEpilogue& epilogue,
                  std::int64_t first, std::int64_t last, float* y, Y result, Add added, Mask masks, Factor factors) {
  constexpr int kPoints = kSize + 2;
  const std::int64_t pixels = s.out_height * s.out_width;
  const Vec most = splat(epilogue.relu.most), mask_most = splat(epilogue.mask_most);
  for (std::int64_t block = first; block < last; ++block) {
    const Vec bias = epilogue.bias ? load(epilogue.bias + block * kLanes) : Vec{};
    Place at(s, tiles.first);
    for (std::int64_t t = 0; t < tiles.count; ++t, at.next()) {
      const float* from = m + ((block - first) * tiles.count + t) * kLanes;
      Vec half[kSize][kPoints], in[kPoints], out[kSize];
#pragma GCC unroll 8
      for (int j = 0; j < kPoints; ++j) {
#pragma GCC unroll 8
        for (int i = 0; i < kPoints; ++i) in[i] = load(from + (i * kPoints + j) * tiles.output_plane);
        output(in, out);
#pragma GCC unroll 8
        for (int i = 0; i < kSize; ++i) half[i][j] = out[i];
      }
      const std::int64_t top = at.row * kSize, left = at.column * kSize;
      const std::int64_t rows = std::min<std::int64_t>(kSize, s.out_height - top),
                         columns = std::min<std::int64_t>(kSize, s.out_width - left);
      const std::int64_t place = ((at.image * s.out_blocks + block) * pixels + top * s.out_width + left) * kLanes;
      Vec sum{}, product{};
      for (std::int64_t i = 0; i < rows; ++i) {
        output(half[i], out);
        const std::int64_t row = place + i * s.out_width * kLanes;
#pragma GCC unroll 8
        for (int j = 0; j < kSize; ++j) {
          if (j >= columns) break;
          const std::int64_t pixel = row + j * kLanes;
          Vec value = out[j] + bias;
          if (epilogue.add) value += added.get(epilogue.add, pixel);
          if (epilogue.relu.on) value = limited(value, Vec{}, most);
          if (epilogue.mask) value = masked(value, masks.get(epilogue.mask, pixel), mask_most);
          result.put(y, pixel, value);
          if (!epilogue.sums) continue;
          if (epilogue.first && t == 0 && i == 0 && j == 0) store(epilogue.sums[block].pivot, value);
          const Vec pivot = load(epilogue.sums[block].pivot), from_pivot = value - pivot;
          sum += epilogue.factor ? value : from_pivot;
          product += epilogue.factor ? value * (factors.get(epilogue.factor, pixel) - pivot) : from_pivot * from_pivot;
        }
      }
      if (!epilogue.sums) continue;
      ChannelSums& total = epilogue.sums[block];
      for (int i = 0; i < kLanes; ++i) total.sum[i] += sum[i], total.product[i] += product[i];
    }
  }
}

/// If all operands have the same storage, the loops need no branches.
template <int kSize>
void output_in_tiles(const WinogradShape& s, const WinogradTiles& tiles, const float* m, const ConvEpilogue& epilogue,
                     std::int64_t first, std::int64_t last, float* y) {
  const StorageDtype half = epilogue.rounds;
  const ConvEpilogue& e = epilogue;
  if (stands_as(half, e.add, e.add_rounded) && stands_as(half, e.mask, e.mask_rounded) &&
      stands_as(half, e.factor, e.factor_rounded))
    with_places(half, [&](auto all) { output_tiles<kSize>(s, tiles, m, e, first, last, y, all, all, all, all); });
  else
    output_tiles<kSize>(s, tiles, m, e, first, last, y, Stored{half}, Stored{e.add_rounded}, Stored{e.mask_rounded},
                        Stored{e.factor_rounded});
}

}  // namespace

void winograd_weights(int tile, const float* w, bool flipped, std::int64_t first, std::int64_t last, std::int64_t plane,
                      float* u) {
  (tile == kSize ? weights_of_tiles<kSize> : weights_of_tiles<2>)(w, flipped, first, last, plane, u);
}

void winograd_input(const WinogradShape& shape, const WinogradTiles& tiles, const float* x, float* v) {
  (shape.tile == kSize ? input_in_tiles<kSize> : input_in_tiles<2>)(shape, tiles, x, v);
}

void winograd_multiply(const WinogradShape& shape, const WinogradTiles& tiles, const float* v, const float* u,
                       std::int64_t first, std::int64_t last, float* m) {
  const std::int64_t words = shape.pairs ? kLanes / 2 : kLanes, row = shape.in_blocks * kLanes * words;
  const BlockProduct product{tiles.count, shape.in_blocks * kLanes, tiles.count * words,
                             row,         tiles.count * kLanes,     shape.pairs};
  for (std::int64_t point = 0; point < shape.points(); ++point)
    block_product(product, last - first, v + point * tiles.input_plane, u + (point * shape.out_blocks + first) * row,
                  {}, m + point * tiles.output_plane);
}

void winograd_multiply_few(const WinogradShape& shape, const WinogradTiles& tiles, const float* v, const float* w,
                           std::int64_t first, std::int64_t last, float* m) {
  constexpr decltype(&add_points<1>) kOfTiles[] = {add_points<1>, add_points<2>, add_points<3>,
                                                   add_points<4>};  // as many as the registers hold
  static_assert(kFewTiles <= 2 * std::size(kOfTiles));
  const std::int64_t groups = tiles.count > std::ssize(kOfTiles) ? 2 : 1;
  for (std::int64_t block = first; block < last; ++block, m += tiles.count * kLanes) {
    for (std::int64_t point = 0; point < shape.points(); ++point)
      std::fill_n(m + point * tiles.output_plane, tiles.count * kLanes, 0.0f);
    for (std::int64_t in = 0; in < shape.in_blocks; ++in) {
      const float* const own = w + (block * shape.in_blocks + in) * 9 * kBlock;
      const bool end = block + 1 == last && in + 1 == shape.in_blocks;
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t begin = tiles.count * g / groups, count = tiles.count * (g + 1) / groups - begin;
        kOfTiles[count - 1](tiles, v + (in * tiles.count + begin) * kLanes, own, end ? own : own + 9 * kBlock,
                            m + begin * kLanes);
      }
    }
  }
}

void winograd_output(const WinogradShape& shape, const WinogradTiles& tiles, const float* m,
                     const ConvEpilogue& epilogue, std::int64_t first, std::int64_t last, float* y) {
  (shape.tile == kSize ? output_in_tiles<kSize> : output_in_tiles<2>)(shape, tiles, m, epilogue, first, last, y);
}

namespace {

template <class Pixels>
void output_grad_tiles(const WinogradShape& s, const WinogradTiles& tiles, const float* dy, std::int64_t first,
                       std::int64_t last, float* dm) {
  const std::int64_t pixels = s.out_height * s.out_width;
  for (std::int64_t block = first; block < last; ++block) {
    Place at(s, tiles.first);
    for (std::int64_t t = 0; t < tiles.count; ++t, at.next()) {
      const std::int64_t top = at.row * kSize, left = at.column * kSize, rows = s.out_height - top,
                         columns = s.out_width - left;
      const std::int64_t from = ((at.image * s.out_blocks + block) * pixels + top * s.out_width + left) * kLanes;
      float* to = dm + ((block - first) * tiles.count + t) * kLanes;
      Vec half[kPoints][kSize], in[kSize], out[kPoints];
#pragma GCC unroll 8
      for (int j = 0; j < kSize; ++j) {
#pragma GCC unroll 8
        for (int i = 0; i < kSize; ++i)
          in[i] = i < rows && j < columns ? Pixels::get(dy, from + (i * s.out_width + j) * kLanes) : Vec{};
        output_grad(in, out);
#pragma GCC unroll 8
        for (int i = 0; i < kPoints; ++i) half[i][j] = out[i];
      }
#pragma GCC unroll 8
      for (int i = 0; i < kPoints; ++i) {
        output_grad(half[i], out);
#pragma GCC unroll 8
        for (int j = 0; j < kPoints; ++j) store(to + (i * kPoints + j) * tiles.output_plane, out[j]);
      }
    }
  }
}

}  // namespace

void winograd_output_grad(const WinogradShape& shape, const WinogradTiles& tiles, const float* dy, std::int64_t first,
                          std::int64_t last, float* dm) {
  with_read_places(shape.dy_rounded,
                   [&](auto pixels) { output_grad_tiles<decltype(pixels)>(shape, tiles, dy, first, last, dm); });
}

void winograd_accumulate(const WinogradShape& shape, const WinogradTiles& tiles, float* v, float* dm,
                         std::int64_t first, std::int64_t last, StorageDtype pairs, bool add, float* du) {
  const std::int64_t rows = pairs ? (tiles.count + 1) / 2 : tiles.count;
  const BlockWeightGrad grad{.in_blocks = shape.in_blocks,
                             .rows = rows,
                             .x_block = rows * kLanes,
                             .dy_block = rows * kLanes,
                             .weight_block = kBlock,
                             .pairs = pairs};
  const auto round = [&](float* at, std::int64_t blocks) {  // in place: a pair never lies after its source
    for (std::int64_t block = 0; block < blocks; ++block)
      pair_rows(pairs, at + block * tiles.count * kLanes, kLanes, 0, tiles.count, tiles.count, kLanes,
                at + block * rows * kLanes);
  };
  for (std::int64_t point = 0; point < shape.points(); ++point) {
    float *const values = v + point * tiles.input_plane, *const gradients = dm + point * tiles.output_plane;
    if (pairs) round(values, shape.in_blocks), round(gradients, last - first);
    block_weight_grad(grad, last - first, values, gradients, add,
                      du + (point * shape.out_blocks + first) * shape.in_blocks * kBlock);
  }
}

void winograd_weights_grad(const float* du, int runs, std::int64_t run, std::int64_t plane, std::int64_t first,
                           std::int64_t last, float* dw) {
  for (std::int64_t block = first; block < last; ++block)
    for (int in = 0; in < kLanes; ++in) {
      const float* from = du + block * kBlock + in * kLanes;
      float* to = dw + block * 9 * kBlock + in * kLanes;
      Vec half[3][kPoints], values[kPoints], taps[3];
#pragma GCC unroll 8
      for (int j = 0; j < kPoints; ++j) {
#pragma GCC unroll 8
        for (int i = 0; i < kPoints; ++i) {
          const float* at = from + (i * kPoints + j) * plane;
          values[i] = load(at);
          for (int r = 1; r < runs; ++r) values[i] += load(at + r * run);
        }
        weights_grad(values, taps);
#pragma GCC unroll 8
        for (int i = 0; i < 3; ++i) half[i][j] = taps[i];
      }
#pragma GCC unroll 8
      for (int i = 0; i < 3; ++i) {
        weights_grad(half[i], taps);
#pragma GCC unroll 8
        for (int j = 0; j < 3; ++j) store(to + (3 * i + j) * kBlock, taps[j]);
      }
    }
}

}  // namespace neurim::cpu::NEURIM_ISA
