#include "neurim/backend/cpu/conv/conv_nchw16n.h"

#include <array>
#include <utility>

#include "neurim/backend/cpu/simd/simd.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

// A tile keeps `outputs` (or, in the gradient, `slopes` output channels of dy) times `width` sums in registers. It
// processes one register's share of the 16 images at a time: g++ 12 keeps arrays of vectors in registers only if a
// vector is one register.
#if defined(__AVX512F__)
constexpr int kFloats = 16, kRegisters = 32, kMostOutputs = 6, kMostSlopes = 4;
#elif defined(__AVX2__)
constexpr int kFloats = 8, kRegisters = 16, kMostOutputs = 3, kMostSlopes = 3;
#else
constexpr int kFloats = 4, kRegisters = 16, kMostOutputs = 3, kMostSlopes = 3;
#endif
constexpr int kMostWidth = 14;
constexpr int most_width(int outputs) {
  const int fitting = (kRegisters - 1 - outputs) / outputs;
  return fitting < kMostWidth ? fitting : kMostWidth;
}

typedef float Floats __attribute__((vector_size(kFloats * sizeof(float))));
Floats load_lanes(const float* at) {
  Floats v;
  std::memcpy(&v, at, sizeof v);
  return v;
}
void store_lanes(float* at, Floats v) { std::memcpy(at, &v, sizeof v); }
Floats spread(float x) { return x - Floats{}; }

/// Piece i of `size`, cut into as few nearly equal pieces of at most `most` as possible.
struct Piece {
  int begin, size;
};
int pieces(int size, int most) { return (size + most - 1) / most; }
Piece piece(int size, int count, int i) {
  const int begin = size * i / count;
  return {begin, size * (i + 1) / count - begin};
}

/// The taps [first, last) that lie inside the input for some output of a piece.
struct Taps {
  int first = 0, last;
  Taps(const FewAxis& axis, Piece outputs) : last(axis.kernel) {
    const int begin = outputs.begin * axis.stride - axis.begin, end = begin + (outputs.size - 1) * axis.stride;
    while (first < last && end + first * axis.dilation < 0) ++first;
    while (first < last && begin + (last - 1) * axis.dilation >= axis.in) --last;
  }
};

std::int64_t input_row(const FewGeometry& g, const FewRows& rows, int row, int tap) {
  const FewAxis& axis = g.height;
  return (row * axis.stride + tap * axis.dilation - axis.begin - rows.x_first) * g.x_row;
}

// ---- forward
// ------------------------------------------------------------------------------------------------------

/// The taps of a tile: runs of `size` taps, `step` apart. One run if all columns of the kernel lie inside the input.
struct Runs {
  const FewTap *first, *end;
  std::int64_t size, step;
  Runs(const FewGeometry& g, Taps rows, Taps columns)
      : first(g.taps + (rows.first * g.width.kernel + columns.first) * g.in),
        end(g.taps + rows.last * g.width.kernel * g.in),
        size((columns.last - columns.first) * g.in),
        step(g.width.kernel * g.in) {
    if (size == step) size = step = end - first;
    if (size <= 0) end = first;
  }
};

struct Results {
  const float* bias;
  const Relu& relu;
  float *before, *y;
};

/// Computes O output channels of P neighbouring pixels of a row. `x` is the input at the first pixel's first tap, which
/// may lie outside.
template <int O, int P>
void convolve_tile(const FewGeometry& g, Runs runs, const float* x, const float* w, const Results& to) {
  for (int lane = 0; lane < kLanes; lane += kFloats) {
    Floats sums[O][P];
#pragma GCC unroll 32
    for (int o = 0; o < O; ++o)
#pragma GCC unroll 32
      for (int p = 0; p < P; ++p) sums[o][p] = to.bias ? spread(to.bias[o]) : Floats{};
    for (const FewTap* run = runs.first; run < runs.end; run += runs.step)
      for (const FewTap* tap = run; tap < run + runs.size; ++tap) {
        const float *pixel = x + (tap->x + lane), *weight = w + tap->w;
        Floats factor[O];
#pragma GCC unroll 32
        for (int o = 0; o < O; ++o) factor[o] = spread(weight[o * g.w_out]);
#pragma GCC unroll 32
        for (int p = 0; p < P; ++p) {
          const Floats value = load_lanes(pixel + p * g.x_pixel);
#pragma GCC unroll 32
          for (int o = 0; o < O; ++o) sums[o][p] += factor[o] * value;
        }
      }
#pragma GCC unroll 32
    for (int o = 0; o < O; ++o)
#pragma GCC unroll 32
      for (int p = 0; p < P; ++p) {
        const std::int64_t at = o * g.y_channel + p * kLanes + lane;
        if (to.before) store_lanes(to.before + at, sums[o][p]);
        if (to.relu.on) {  // NaN stays; a NaN limit is no limit
          const Floats zero{}, most = spread(to.relu.most);
          sums[o][p] = zero > sums[o][p] ? zero : sums[o][p];
          sums[o][p] = sums[o][p] > most ? most : sums[o][p];
        }
        store_lanes(to.y + at, sums[o][p]);
      }
  }
}

using ConvolveTile = void (*)(const FewGeometry&, Runs, const float*, const float*, const Results&);

template <int O, int... P>
constexpr std::array<ConvolveTile, kMostWidth> convolve_row(std::integer_sequence<int, P...>) {
  return {convolve_tile<O, P + 1>...};
}
template <int... O>
constexpr auto convolve_table(std::integer_sequence<int, O...>) {
  return std::array{convolve_row<O + 1>(std::make_integer_sequence<int, most_width(O + 1)>())...};
}
constexpr auto kConvolve = convolve_table(std::make_integer_sequence<int, kMostOutputs>());

// ---- weight gradient
// ----------------------------------------------------------------------------------------------

/// Computes the gradients of O output channels and K kernel columns, for one input channel and kernel row, over `count`
/// pixels of dy.
template <int O, int K>
void weight_tile(const FewGeometry& g, const float* x, const float* dy, float* sums, int count) {
  for (int lane = 0; lane < kLanes; lane += kFloats) {
    float* to = sums + lane;
    Floats total[O][K];
#pragma GCC unroll 32
    for (int o = 0; o < O; ++o)
#pragma GCC unroll 32
      for (int k = 0; k < K; ++k) total[o][k] = load_lanes(to + (o * g.w_out + k) * kLanes);
    const float* slope = dy + lane;
    for (int i = 0; i < count; ++i, slope += kLanes) {
      const float* pixel = x + (g.pixels[i] + lane);
      Floats factor[O];
#pragma GCC unroll 32
      for (int o = 0; o < O; ++o) factor[o] = load_lanes(slope + o * g.y_channel);
#pragma GCC unroll 32
      for (int k = 0; k < K; ++k) {
        const Floats value = load_lanes(pixel + k * g.x_tap);
#pragma GCC unroll 32
        for (int o = 0; o < O; ++o) total[o][k] += factor[o] * value;
      }
    }
#pragma GCC unroll 32
    for (int o = 0; o < O; ++o)
#pragma GCC unroll 32
      for (int k = 0; k < K; ++k) store_lanes(to + (o * g.w_out + k) * kLanes, total[o][k]);
  }
}

using WeightTile = void (*)(const FewGeometry&, const float*, const float*, float*, int);

template <int O, int... K>
constexpr std::array<WeightTile, kMostWidth> weight_row(std::integer_sequence<int, K...>) {
  return {weight_tile<O, K + 1>...};
}
template <int... O>
constexpr auto weight_table(std::integer_sequence<int, O...>) {
  return std::array{weight_row<O + 1>(std::make_integer_sequence<int, most_width(O + 1)>())...};
}
constexpr auto kWeights = weight_table(std::make_integer_sequence<int, kMostSlopes>());

template <class Table>
auto of(const Table& table, int outputs, int width) {
  return table[outputs - 1][width - 1];
}

/// The first output row in [0, out_h] whose tap lies at or after input row `limit`.
int first_row(const FewGeometry& g, int tap, int limit) {
  const int distance = limit - tap * g.height.dilation + g.height.begin;
  return distance <= 0 ? 0 : (distance + g.height.stride - 1) / g.height.stride;
}

}  // namespace

void few_convolve(const FewGeometry& g, const FewRows& rows, const float* w, const float* bias, const Relu& relu,
                  float* before, float* y) {
  const int channel_tiles = pieces(g.out, kMostOutputs);
  for (int row = rows.begin; row < rows.end; ++row) {
    const Taps taps(g.height, {row, 1});
    const float* x = rows.x + input_row(g, rows, row, 0);
    for (int c = 0; c < channel_tiles; ++c) {
      const Piece channels = piece(g.out, channel_tiles, c);
      const int column_tiles = pieces(g.width.out, most_width(channels.size));
      for (int t = 0; t < column_tiles; ++t) {
        const Piece columns = piece(g.width.out, column_tiles, t);
        const std::int64_t at = channels.begin * g.y_channel +
                                (std::int64_t{row} * g.width.out + columns.begin) * kLanes;
        const Results to{bias ? bias + channels.begin : nullptr, relu, before ? before + at : nullptr, y + at};
        of(kConvolve, channels.size, columns.size)(g, Runs(g, taps, Taps(g.width, columns)),
                                                   x + columns.begin * g.x_pixel, w + channels.begin * g.w_out, to);
      }
    }
  }
}

void few_weight_sums(const FewGeometry& g, const FewRows& rows, const float* dy, float* sums) {
  const int channel_tiles = pieces(g.out, kMostSlopes);
  const int row_tiles = pieces(rows.end - rows.begin, few_rows_at_once(g.width.out));
  for (int r = 0; r < row_tiles; ++r) {
    const Piece block = piece(rows.end - rows.begin, row_tiles, r);
    for (int c = 0; c < channel_tiles; ++c) {
      const Piece channels = piece(g.out, channel_tiles, c);
      const int column_tiles = pieces(g.width.kernel, most_width(channels.size));
      for (int i = 0; i < g.in; ++i)
        for (int kh = 0; kh < g.height.kernel; ++kh) {
          int begin = rows.begin + block.begin, end = begin + block.size;
          if (const int inside = first_row(g, kh, 0); inside > begin) begin = inside;
          if (const int outside = first_row(g, kh, g.height.in); outside < end) end = outside;
          if (begin >= end) continue;
          const float* x = rows.x + i * g.x_channel + input_row(g, rows, begin, kh);
          const float* slope = dy + channels.begin * g.y_channel + std::int64_t{begin} * g.width.out * kLanes;
          for (int t = 0; t < column_tiles; ++t) {
            const Piece columns = piece(g.width.kernel, column_tiles, t);
            float* to = sums + (channels.begin * g.w_out + i * g.w_in + kh * g.w_row + columns.begin) * kLanes;
            of(kWeights, channels.size, columns.size)(g, x + columns.begin * g.x_tap, slope, to,
                                                      (end - begin) * g.width.out);
          }
        }
    }
  }
}

void few_join(const float* sums, int tasks, std::int64_t count, float* dw, std::int64_t first, std::int64_t last) {
  for (std::int64_t i = first; i < last; ++i) {
    Vec total = load(sums + i * kLanes);
    for (int task = 1; task < tasks; ++task) total += load(sums + (task * count + i) * kLanes);
    // Pairwise, for short dependency chains and small errors.
    float lane[kLanes];
    store(lane, total);
    for (int width = kLanes / 2; width > 0; width /= 2)
      for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
    dw[i] = lane[0];
  }
}

}  // namespace neurim::cpu::NEURIM_ISA
