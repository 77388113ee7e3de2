#include "neurim/backend/cpu/winograd.h"

#include <algorithm>
#include <array>

#include "neurim/backend/cpu/conv2d.h"
#include "neurim/backend/cpu/simd.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

/// The positive points: few bits each, so that multiplying by them rounds little; spread so that their powers stay near one.
template <int P>
constexpr std::array<double, P> points() {
  if constexpr (P == 1) return {1};
  if constexpr (P == 2) return {0.625, 1.5};
  if constexpr (P == 3) return {0.5, 1, 2};
}

/// The numbers of the transforms, by pair of opposite points; number P stands for what has no pair.
template <int P>
struct Numbers {
  float point[P]{}, power[P][2 * P]{};  ///< and its powers from 0 on
  float product[P + 1][P + 1]{};  ///< the coefficients of z⁰, z², … of the product of (z² - a²) over the other pairs
  float scale[P + 1]{}, even[P]{}, odd[P]{};  ///< one over a point's distances from the others; by a², by a

  constexpr Numbers() {
    const auto a = points<P>();
    for (std::size_t p = 0; p <= P; ++p) {
      double c[P + 1]{1}, distances = p < P ? 2 * a[p] * a[p] : 1;
      for (std::size_t q = 0; q < P; ++q) {
        if (q == p) continue;
        const double square = a[q] * a[q];
        for (std::size_t k = P; k > 0; --k) c[k] = c[k - 1] - square * c[k];
        c[0] *= -square;
        distances *= (p < P ? a[p] * a[p] : 0) - square;
      }
      for (std::size_t k = 0; k <= P; ++k) product[p][k] = static_cast<float>(c[k]);
      scale[p] = static_cast<float>(1 / distances);
      if (p == P) break;
      point[p] = static_cast<float>(a[p]);
      even[p] = static_cast<float>(a[p] * a[p] / distances);
      odd[p] = static_cast<float>(a[p] / distances);
      double power_of = 1;
      for (std::size_t k = 0; k < 2 * P; ++k, power_of *= a[p]) power[p][k] = static_cast<float>(power_of);
    }
  }
};

/// The transforms along one axis. With the points 0, ±a_p and infinity, the row of the point a of the input's transform is
/// the product of (z - b) over the other finite points b; opposite points share its even and its odd part.
template <int P>
struct Transform {
  static constexpr int kSize = 2 * P, kPoints = 2 * P + 2;
  static constexpr Numbers<P> kNumbers{};

  static void input(const Vec (&d)[kPoints], Vec (&v)[kPoints]) {
    Vec even = d[2 * P], odd = d[2 * P + 1];  // the leading coefficients are 1
#pragma GCC unroll 8
    for (int k = 0; k < P; ++k) {
      even += kNumbers.product[P][k] * d[2 * k];
      odd += kNumbers.product[P][k] * d[2 * k + 1];
    }
    v[0] = even, v[2 * P + 1] = odd;
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      even = d[2 * P], odd = d[2 * P - 1];
#pragma GCC unroll 8
      for (int k = 0; k < P - 1; ++k) {
        even += kNumbers.product[p][k] * d[2 * k + 2];
        odd += kNumbers.product[p][k] * d[2 * k + 1];
      }
      v[2 * p + 1] = even + kNumbers.point[p] * odd;
      v[2 * p + 2] = even - kNumbers.point[p] * odd;
    }
  }

  static void weights(const Vec (&g)[3], Vec (&u)[kPoints]) {
    u[0] = kNumbers.scale[P] * g[0];
    u[2 * P + 1] = g[2];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      const Vec even = kNumbers.scale[p] * g[0] + kNumbers.even[p] * g[2], odd = kNumbers.odd[p] * g[1];
      u[2 * p + 1] = even + odd;
      u[2 * p + 2] = even - odd;
    }
  }

  /// The transposed of weights().
  static void weights_grad(const Vec (&u)[kPoints], Vec (&g)[3]) {
    g[0] = kNumbers.scale[P] * u[0], g[1] = Vec{}, g[2] = u[2 * P + 1];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      const Vec sum = u[2 * p + 1] + u[2 * p + 2], difference = u[2 * p + 1] - u[2 * p + 2];
      g[0] += kNumbers.scale[p] * sum;
      g[1] += kNumbers.odd[p] * difference;
      g[2] += kNumbers.even[p] * sum;
    }
  }

  /// The transposed of output().
  static void output_grad(const Vec (&y)[kSize], Vec (&m)[kPoints]) {
    m[0] = y[0], m[2 * P + 1] = y[kSize - 1];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      Vec even = y[0], odd = kNumbers.power[p][1] * y[1];
#pragma GCC unroll 8
      for (int k = 2; k < kSize; k += 2) {
        even += kNumbers.power[p][k] * y[k];
        odd += kNumbers.power[p][k + 1] * y[k + 1];
      }
      m[2 * p + 1] = even + odd;
      m[2 * p + 2] = even - odd;
    }
  }

  static void output(const Vec (&m)[kPoints], Vec (&y)[kSize]) {
    Vec sum[P], difference[P];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      sum[p] = m[2 * p + 1] + m[2 * p + 2];
      difference[p] = m[2 * p + 1] - m[2 * p + 2];
    }
#pragma GCC unroll 8
    for (int k = 0; k < kSize; ++k) {
      const Vec(&of)[P] = k % 2 == 0 ? sum : difference;
      Vec value = k == 0 ? m[0] : k == kSize - 1 ? m[2 * P + 1] : Vec{};
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) value += kNumbers.power[p][k] * of[p];
      y[k] = value;
    }
  }
};

/// The tiles of a run, one after the other.
struct Place {
  const WinogradShape& shape;
  std::int64_t image, row, column;

  Place(const WinogradShape& s, std::int64_t tile)
      : shape(s), image(tile / (s.rows() * s.columns())), row(tile / s.columns() % s.rows()), column(tile % s.columns()) {}
  void next() {
    if (++column < shape.columns()) return;
    column = 0;
    if (++row < shape.rows()) return;
    row = 0, ++image;
  }
};

/// A tile of (m + 2)² pixels, rows `stride` floats apart, to its values at the points.
template <int P>
void input_tile(const float* x, std::int64_t stride, float* v, std::int64_t plane) {
  constexpr int kPoints = Transform<P>::kPoints;
  Vec half[kPoints][kPoints], in[kPoints], out[kPoints];
#pragma GCC unroll 8
  for (int j = 0; j < kPoints; ++j) {
#pragma GCC unroll 8
    for (int i = 0; i < kPoints; ++i) in[i] = load(x + i * stride + j * kLanes);
    Transform<P>::input(in, out);
#pragma GCC unroll 8
    for (int i = 0; i < kPoints; ++i) half[i][j] = out[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < kPoints; ++i) {
    Transform<P>::input(half[i], out);
#pragma GCC unroll 8
    for (int j = 0; j < kPoints; ++j) store(v + (i * kPoints + j) * plane, out[j]);
  }
}

template <int P>
void input_tiles(const WinogradShape& s, const WinogradTiles& tiles, const float* x, float* v) {
  constexpr int kPoints = Transform<P>::kPoints;
  const std::int64_t pixels = s.in_height * s.in_width, stride = s.in_width * kLanes;
  for (std::int64_t block = 0; block < s.in_blocks; ++block) {
    Place at(s, tiles.first);
    for (std::int64_t t = 0; t < tiles.count; ++t, at.next()) {
      const std::int64_t top = at.row * s.size() - s.top, left = at.column * s.size() - s.left;
      const float* image = x + (at.image * s.in_blocks + block) * pixels * kLanes;
      float* to = v + (block * tiles.count + t) * kLanes;
      if (top >= 0 && left >= 0 && top + kPoints <= s.in_height && left + kPoints <= s.in_width) {
        input_tile<P>(image + top * stride + left * kLanes, stride, to, tiles.input_plane);
        continue;
      }
      alignas(64) float padded[kPoints * kPoints * kLanes];
      for (int i = 0; i < kPoints; ++i)
        for (int j = 0; j < kPoints; ++j) {
          const std::int64_t row = top + i, column = left + j;
          const bool inside = row >= 0 && row < s.in_height && column >= 0 && column < s.in_width;
          store(padded + (i * kPoints + j) * kLanes, inside ? load(image + row * stride + column * kLanes) : Vec{});
        }
      input_tile<P>(padded, std::int64_t{kPoints} * kLanes, to, tiles.input_plane);
    }
  }
}

template <int P>
void weight_blocks(const float* w, bool flipped, std::int64_t first, std::int64_t last, std::int64_t plane, float* u) {
  constexpr int kPoints = Transform<P>::kPoints, kBlock = kLanes * kLanes;
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
        Transform<P>::weights(taps, out);
#pragma GCC unroll 8
        for (int i = 0; i < kPoints; ++i) half[i][j] = out[i];
      }
#pragma GCC unroll 8
      for (int i = 0; i < kPoints; ++i) {
        Transform<P>::weights(half[i], out);
#pragma GCC unroll 8
        for (int j = 0; j < kPoints; ++j) store(to + (i * kPoints + j) * plane, out[j]);
      }
    }
}

template <int P>
void output_tiles(const WinogradShape& s, const WinogradTiles& tiles, const float* m, const WinogradEpilogue& epilogue,
                  std::int64_t first, std::int64_t last, float* y) {
  constexpr int kPoints = Transform<P>::kPoints, kSize = Transform<P>::kSize;
  const std::int64_t pixels = s.out_height * s.out_width;
  const Vec least = splat(epilogue.relu ? 0.0f : -__builtin_inff());
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
        Transform<P>::output(in, out);
#pragma GCC unroll 8
        for (int i = 0; i < kSize; ++i) half[i][j] = out[i];
      }
      const std::int64_t top = at.row * kSize, left = at.column * kSize;
      const std::int64_t rows = std::min<std::int64_t>(kSize, s.out_height - top),
                         columns = std::min<std::int64_t>(kSize, s.out_width - left);
      const std::int64_t place =
          ((at.image * s.out_blocks + block) * pixels + top * s.out_width + left) * kLanes;
      for (std::int64_t i = 0; i < rows; ++i) {
        Transform<P>::output(half[i], out);
        const std::int64_t row = place + i * s.out_width * kLanes;
#pragma GCC unroll 8
        for (int j = 0; j < kSize; ++j) {
          if (j >= columns) break;
          Vec value = out[j] + bias;
          if (epilogue.add) value += load(epilogue.add + row + j * kLanes);
          store(y + row + j * kLanes, epilogue.relu ? max(least, value) : value);  // a NaN stays
        }
      }
    }
  }
}

template <int P>
void output_grad_tiles(const WinogradShape& s, const WinogradTiles& tiles, const float* dy, std::int64_t first,
                       std::int64_t last, float* dm) {
  constexpr int kPoints = Transform<P>::kPoints, kSize = Transform<P>::kSize;
  const std::int64_t pixels = s.out_height * s.out_width;
  for (std::int64_t block = first; block < last; ++block) {
    Place at(s, tiles.first);
    for (std::int64_t t = 0; t < tiles.count; ++t, at.next()) {
      const std::int64_t top = at.row * kSize, left = at.column * kSize, rows = s.out_height - top,
                         columns = s.out_width - left;
      const float* from = dy + ((at.image * s.out_blocks + block) * pixels + top * s.out_width + left) * kLanes;
      float* to = dm + ((block - first) * tiles.count + t) * kLanes;
      Vec half[kPoints][kSize], in[kSize], out[kPoints];
#pragma GCC unroll 8
      for (int j = 0; j < kSize; ++j) {
#pragma GCC unroll 8
        for (int i = 0; i < kSize; ++i)
          in[i] = i < rows && j < columns ? load(from + (i * s.out_width + j) * kLanes) : Vec{};
        Transform<P>::output_grad(in, out);
#pragma GCC unroll 8
        for (int i = 0; i < kPoints; ++i) half[i][j] = out[i];
      }
#pragma GCC unroll 8
      for (int i = 0; i < kPoints; ++i) {
        Transform<P>::output_grad(half[i], out);
#pragma GCC unroll 8
        for (int j = 0; j < kPoints; ++j) store(to + (i * kPoints + j) * tiles.output_plane, out[j]);
      }
    }
  }
}

/// The sums over the tiles of 8 input channels times B blocks of output channels, in registers.
template <int B>
void accumulate(std::int64_t count, const float* v, const float* dm, std::int64_t dm_block, bool add, float* du,
                std::int64_t du_block) {
  constexpr int kRows = 8;
  Vec sums[B][kRows];
#pragma GCC unroll 8
  for (int b = 0; b < B; ++b)
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) sums[b][i] = Vec{};
  for (std::int64_t t = 0; t < count * kLanes; t += kLanes) {
    Vec row[B];
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) row[b] = load(dm + b * dm_block + t);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Vec value = splat(v[t + i]);
#pragma GCC unroll 8
      for (int b = 0; b < B; ++b) sums[b][i] += row[b] * value;
    }
  }
#pragma GCC unroll 8
  for (int b = 0; b < B; ++b)
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      float* to = du + b * du_block + i * kLanes;
      store(to, add ? load(to) + sums[b][i] : sums[b][i]);
    }
}

template <int P>
void weights_grad_blocks(const float* du, int runs, std::int64_t run, std::int64_t plane, std::int64_t first,
                         std::int64_t last, float* dw) {
  constexpr int kPoints = Transform<P>::kPoints, kBlock = kLanes * kLanes;
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
        Transform<P>::weights_grad(values, taps);
#pragma GCC unroll 8
        for (int i = 0; i < 3; ++i) half[i][j] = taps[i];
      }
#pragma GCC unroll 8
      for (int i = 0; i < 3; ++i) {
        Transform<P>::weights_grad(half[i], taps);
#pragma GCC unroll 8
        for (int j = 0; j < 3; ++j) store(to + (3 * i + j) * kBlock, taps[j]);
      }
    }
}

}  // namespace

void winograd_weights(int pairs, const float* w, bool flipped, std::int64_t first, std::int64_t last, std::int64_t plane,
                      float* u) {
  if (pairs == 1) return weight_blocks<1>(w, flipped, first, last, plane, u);
  if (pairs == 2) return weight_blocks<2>(w, flipped, first, last, plane, u);
  weight_blocks<3>(w, flipped, first, last, plane, u);
}

void winograd_input(const WinogradShape& shape, const WinogradTiles& tiles, const float* x, float* v) {
  if (shape.pairs == 1) return input_tiles<1>(shape, tiles, x, v);
  if (shape.pairs == 2) return input_tiles<2>(shape, tiles, x, v);
  input_tiles<3>(shape, tiles, x, v);
}

void winograd_multiply(const WinogradShape& shape, const WinogradTiles& tiles, const float* v, const float* u,
                       std::int64_t first, std::int64_t last, float* m) {
  constexpr std::int64_t kBlock = kLanes * kLanes;
  ConvGeometry g;  // a 1x1 convolution of the tiles
  g.in_blocks = static_cast<int>(shape.in_blocks);
  g.kernel_h = g.kernel_w = g.out_h = 1;
  g.out_w = static_cast<int>(tiles.count);
  g.x_block = g.y_block = tiles.count * kLanes;
  g.tap_in = kBlock;
  g.w_block = shape.in_blocks * kBlock;
  for (std::int64_t point = 0; point < shape.points(); ++point)
    for (std::int64_t block = first; block < last; block += 2)
      conv_image(g, v + point * tiles.input_plane, u + (point * shape.out_blocks + block) * g.w_block,
                 m + point * tiles.output_plane + (block - first) * g.y_block, block + 1 < last ? 2 : 1, {});
}

void winograd_output(const WinogradShape& shape, const WinogradTiles& tiles, const float* m,
                     const WinogradEpilogue& epilogue, std::int64_t first, std::int64_t last, float* y) {
  if (shape.pairs == 1) return output_tiles<1>(shape, tiles, m, epilogue, first, last, y);
  if (shape.pairs == 2) return output_tiles<2>(shape, tiles, m, epilogue, first, last, y);
  output_tiles<3>(shape, tiles, m, epilogue, first, last, y);
}

void winograd_output_grad(const WinogradShape& shape, const WinogradTiles& tiles, const float* dy, std::int64_t first,
                          std::int64_t last, float* dm) {
  if (shape.pairs == 1) return output_grad_tiles<1>(shape, tiles, dy, first, last, dm);
  if (shape.pairs == 2) return output_grad_tiles<2>(shape, tiles, dy, first, last, dm);
  output_grad_tiles<3>(shape, tiles, dy, first, last, dm);
}

void winograd_accumulate(const WinogradShape& shape, const WinogradTiles& tiles, const float* v, const float* dm,
                         std::int64_t first, std::int64_t last, bool add, float* du) {
  constexpr std::int64_t kBlock = kLanes * kLanes;
  const std::int64_t block_size = tiles.count * kLanes, row_size = shape.in_blocks * kBlock;
  for (std::int64_t point = 0; point < shape.points(); ++point)
    for (std::int64_t block = first; block < last; block += 2)
      for (std::int64_t in = 0; in < 2 * shape.in_blocks; ++in) {
        const float* values = v + point * tiles.input_plane + in / 2 * block_size + in % 2 * 8;
        const float* gradients = dm + point * tiles.output_plane + (block - first) * block_size;
        float* sums = du + (point * shape.out_blocks + block) * row_size + in * kBlock / 2;
        if (block + 1 < last)
          accumulate<2>(tiles.count, values, gradients, block_size, add, sums, row_size);
        else
          accumulate<1>(tiles.count, values, gradients, block_size, add, sums, row_size);
      }
}

void winograd_weights_grad(int pairs, const float* du, int runs, std::int64_t run, std::int64_t plane, std::int64_t first,
                           std::int64_t last, float* dw) {
  if (pairs == 1) return weights_grad_blocks<1>(du, runs, run, plane, first, last, dw);
  if (pairs == 2) return weights_grad_blocks<2>(du, runs, run, plane, first, last, dw);
  weights_grad_blocks<3>(du, runs, run, plane, first, last, dw);
}

}  // namespace neurim::cpu::NEURIM_ISA
