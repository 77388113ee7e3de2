#include "neurim/backend/cpu/int8/int8_winograd.h"

#include "neurim/backend/cpu/simd/bytes.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

constexpr int kSide = 4;  // points along an axis; also the pixels that a tile reads

[[gnu::always_inline]] inline void input(const Shorts& a, const Shorts& b, const Shorts& c, const Shorts& d,
                                         Shorts (&v)[kSide]) {
  v[0] = c - a;
  v[1] = c + b;
  v[2] = c - b;
  v[3] = d - b;
}

/// Transforms one column of a tile.
[[gnu::always_inline]] inline void column(const ByteRowsOfTiles& x, std::int64_t number, Shorts (&v)[kSide]) {
  Shorts pixels[kSide];
#pragma GCC unroll 4
  for (int i = 0; i < kSide; ++i)
    pixels[i] = number >= 0 && number < x.width && x.rows[i] ? shorts_of(x.rows[i] + number * kLanes, x.flip, x.zero)
                                                             : Shorts{};
  input(pixels[0], pixels[1], pixels[2], pixels[3], v);
}

/// Transforms one row or column of points back.
[[gnu::always_inline]] inline void output(const IVec& a, const IVec& b, const IVec& c, const IVec& d, IVec& first,
                                          IVec& second) {
  first = a + ((b + c) >> 1);
  second = ((b - c) >> 1) + d;
}

}  // namespace

void byte_winograd_input(const ByteRowsOfTiles& x, std::int64_t tiles, std::int64_t plane, std::int16_t* v) {
  Shorts columns[kSide][kSide];
  column(x, -x.left, columns[0]), column(x, 1 - x.left, columns[1]);
  for (std::int64_t tile = 0; tile < tiles; ++tile, v += kLanes) {
    const std::int64_t next = kByteTile * tile + 2 - x.left;
    column(x, next, columns[2]), column(x, next + 1, columns[3]);
#pragma GCC unroll 4
    for (int i = 0; i < kSide; ++i) {
      Shorts values[kSide];
      input(columns[0][i], columns[1][i], columns[2][i], columns[3][i], values);
#pragma GCC unroll 4
      for (int j = 0; j < kSide; ++j) store(v + (i * kSide + j) * plane, values[j]);
      columns[0][i] = columns[2][i], columns[1][i] = columns[3][i];
    }
  }
}

void byte_winograd_output(const std::int32_t* m, std::int64_t tiles, std::int64_t plane, std::int32_t* sums) {
  std::int32_t* const below = sums + kByteTile * tiles * kLanes;
  for (std::int64_t tile = 0; tile < tiles; ++tile, m += kLanes) {
    IVec rows[kByteTile][kSide];
#pragma GCC unroll 4
    for (int j = 0; j < kSide; ++j) {
      const auto at = [&](int i) { return load_as<IVec>(m + (i * kSide + j) * plane); };
      output(at(0), at(1), at(2), at(3), rows[0][j], rows[1][j]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < kByteTile; ++i) {
      IVec pixels[kByteTile];
      output(rows[i][0], rows[i][1], rows[i][2], rows[i][3], pixels[0], pixels[1]);
      std::int32_t* const to = (i == 0 ? sums : below) + kByteTile * tile * kLanes;
      store_as(to, pixels[0]), store_as(to + kLanes, pixels[1]);
    }
  }
}

}  // namespace neurim::cpu::NEURIM_ISA
