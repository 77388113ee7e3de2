#include "neurim/backend/cpu/conv/depthwise.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "neurim/backend/cpu/simd/storage.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

/// The outputs [first, last) of an axis for which a kernel tap lies inside the input, at o * stride + offset.
struct Reach {
  std::int64_t first, last, offset;
};

Reach reach(const DepthwiseShape& s, int axis, std::int64_t place) {
  const std::int64_t size = axis == 0 ? s.height : s.width, count = axis == 0 ? s.out_height : s.out_width;
  const std::int64_t stride = s.stride[axis], offset = place * s.dilation[axis] - s.pad[axis];
  const std::int64_t first = offset < 0 ? (-offset + stride - 1) / stride : 0;
  const std::int64_t last = offset < size ? (size - 1 - offset) / stride + 1 : 0;
  return {std::min(first, count), std::min(last, count), offset};
}

/// Adds one image's sums to dw for the columns [column, column + kColumns) of a kernel row. Where all columns lie
/// inside the input, each dy is read once for all of them.
template <int kColumns>
void add_columns(const DepthwiseShape& s, const float* dy, const float* x, float* dw, std::int64_t row,
                 std::int64_t column) {
  const Reach rows = reach(s, 0, row);
  Reach columns[kColumns];
  std::int64_t begin = 0, end = s.out_width;
  for (int c = 0; c < kColumns; ++c) {
    columns[c] = reach(s, 1, column + c);
    begin = std::max(begin, columns[c].first);
    end = std::min(end, columns[c].last);
  }
  end = std::max(begin, end);
  const std::int64_t step = s.stride[1] * kLanes;
  Vec sums[kColumns] = {};
  for (std::int64_t o = rows.first; o < rows.last; ++o) {
    const float* at = dy + o * s.out_width * kLanes;
    const float* from = x + (o * s.stride[0] + rows.offset) * s.width * kLanes;
    for (int c = 0; c < kColumns; ++c) {
      const float* shifted = from + columns[c].offset * kLanes;
      for (std::int64_t i = columns[c].first; i < std::min(begin, columns[c].last); ++i)
        sums[c] += load(at + i * kLanes) * load(shifted + i * step);
      for (std::int64_t i = std::max(end, columns[c].first); i < columns[c].last; ++i)
        sums[c] += load(at + i * kLanes) * load(shifted + i * step);
    }
    for (std::int64_t i = begin; i < end; ++i) {
      const Vec d = load(at + i * kLanes);
      for (int c = 0; c < kColumns; ++c) sums[c] += d * load(from + columns[c].offset * kLanes + i * step);
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    float* to = dw + (row * s.kernel[1] + column + c) * kLanes;
    store(to, load(to) + sums[c]);
  }
}

using AddColumns = void (*)(const DepthwiseShape&, const float*, const float*, float*, std::int64_t, std::int64_t);
constexpr AddColumns kAddColumns[] = {add_columns<1>, add_columns<2>, add_columns<3>, add_columns<4>,
                                      add_columns<5>, add_columns<6>, add_columns<7>};
constexpr std::int64_t kMost = 7;  // sums that fit in registers

template <class V>
struct RegisterOf {
  using type = V;
};
template <class StorageDtype>
struct RegisterOf<Twice<StorageDtype>> : RegisterOf<StorageDtype> {};
using OneRegister = typename RegisterOf<Vec>::type;  ///< one register of a vector
constexpr int kRegister = sizeof(OneRegister) / sizeof(float);

constexpr int kGroup = 8;  // neighbouring outputs whose sums fit in registers

/// The kernel rows and columns that lie inside the input for an output.
struct Taps {
  std::int64_t first_row, last_row, first_column, last_column;
};

/// Computes `kCount` neighbouring outputs, one register of their lanes at a time. x is the input at the first one's
/// first tap, which may lie outside. kColumns and kStride are set for undilated kernels whose columns all lie inside:
/// then a kernel row of weights stays in registers and each x is read once for all outputs that use it. 0: any, from
/// shape and taps.
template <class Places, int kColumns, int kStride, int kCount>
void add_taps(const DepthwiseShape& s, const Taps& taps, const float* x, const float* weight, const float* bias,
              const Relu& relu, float* y) {
  constexpr bool kWhole = kRegister == kLanes || std::is_same_v<Places, Exact>;  // 16-bit storage needs all 16 lanes
  [[maybe_unused]] alignas(64) float made[kWhole ? 1 : kCount * kLanes];
  const std::int64_t step = s.stride[1] * kLanes, apart = s.dilation[1] * kLanes;
  for (int lane = 0; lane < kLanes; lane += kRegister) {
    OneRegister sums[kCount];
    const OneRegister start = bias ? load_as<OneRegister>(bias + lane) : OneRegister{};
#pragma GCC unroll 16
    for (int p = 0; p < kCount; ++p) sums[p] = start;
    for (std::int64_t row = taps.first_row; row < taps.last_row; ++row) {
      const float *const factors = weight + row * s.kernel[1] * kLanes + lane, *const from = x +
                                                                                             row * s.dilation[0] *
                                                                                                 s.width * kLanes +
                                                                                             lane;
      if constexpr (kColumns > 0) {
        OneRegister own[kColumns];
#pragma GCC unroll 8
        for (int column = 0; column < kColumns; ++column) own[column] = load_as<OneRegister>(factors + column * kLanes);
#pragma GCC unroll 32
        for (int i = 0; i < (kCount - 1) * kStride + kColumns; ++i) {
          const OneRegister v = load_as<OneRegister>(from + i * kLanes);
#pragma GCC unroll 8
          for (int column = 0; column < kColumns; ++column)
            if (i >= column && (i - column) % kStride == 0 && (i - column) / kStride < kCount)
              sums[(i - column) / kStride] += v * own[column];
        }
      } else {
        for (std::int64_t column = taps.first_column; column < taps.last_column; ++column) {
          const OneRegister factor = load_as<OneRegister>(factors + column * kLanes);
#pragma GCC unroll 16
          for (int p = 0; p < kCount; ++p) sums[p] += factor * load_as<OneRegister>(from + column * apart + p * step);
        }
      }
    }
    const OneRegister most = relu.most - OneRegister{}, least = (relu.on ? 0.0f : -__builtin_inff()) - OneRegister{};
#pragma GCC unroll 16
    for (int p = 0; p < kCount; ++p) {
      const OneRegister value = limited(sums[p], least, most);
      if constexpr (!kWhole)
        store_as(made + p * kLanes + lane, value);
      else if constexpr (kRegister == kLanes)
        Places::put(y, p * s.y_step * kLanes, value);
      else
        store_as(y + p * s.y_step * kLanes + lane, value);
    }
  }
  if constexpr (!kWhole)
    for (int p = 0; p < kCount; ++p) Places::put(y, p * s.y_step * kLanes, load(made + p * kLanes));
}

/// The functions for 1 to kGroup outputs.
using AddTaps = std::array<void (*)(const DepthwiseShape&, const Taps&, const float*, const float*, const float*,
                                    const Relu&, float*),
                           kGroup>;
template <class Places, int kColumns, int kStride>
constexpr AddTaps kAddTaps = []<int... count>(std::integer_sequence<int, count...>) {
  return AddTaps{add_taps<Places, kColumns, kStride, count + 1>...};
}(std::make_integer_sequence<int, kGroup>());

template <class Places>
const AddTaps& add_taps_of(const DepthwiseShape& s) {
  const auto is = [&](int columns, int stride) {
    return s.kernel[1] == columns && s.stride[1] == stride && s.dilation[1] == 1;
  };
  return is(3, 1)   ? kAddTaps<Places, 3, 1>
         : is(3, 2) ? kAddTaps<Places, 3, 2>
         : is(5, 1) ? kAddTaps<Places, 5, 1>
         : is(5, 2) ? kAddTaps<Places, 5, 2>
         : is(7, 1) ? kAddTaps<Places, 7, 1>
         : is(2, 1) ? kAddTaps<Places, 2, 1>
         : is(1, 1) ? kAddTaps<Places, 1, 1>
                    : kAddTaps<Places, 0, 0>;
}

/// The taps [first, last) of an axis that lie inside the input for output `at`.
void inside(const DepthwiseShape& s, int axis, std::int64_t at, std::int64_t& first, std::int64_t& last) {
  const std::int64_t size = axis == 0 ? s.height : s.width, begin = at * s.stride[axis] - s.pad[axis],
                     step = s.dilation[axis], all = s.kernel[axis];
  // Most outputs have all taps; the divisions would take as long as a short row.
  first = begin >= 0 ? 0 : std::min((-begin + step - 1) / step, all);
  last = begin + (all - 1) * step < size ? all : begin < size ? (size - 1 - begin) / step + 1 : 0;
  last = std::max(first, last);
}

/// Computes the outputs [begin, end) of a row, all with these taps, in groups of nearly equal size. `row` is the input
/// at the first tap of the row's first output.
template <class Places>
void add_row(const DepthwiseShape& s, const Taps& taps, const AddTaps& add, const float* row, std::int64_t begin,
             std::int64_t end, const float* weight, const float* bias, const Relu& relu, float* y) {
  for (std::int64_t groups = (end - begin + kGroup - 1) / kGroup; groups > 0; --groups) {
    const std::int64_t count = (end - begin) / groups;
    add[count - 1](s, taps, row + begin * s.stride[1] * kLanes, weight, bias, relu,
                   y + Places::words(begin * s.y_step * kLanes));
    begin += count;
  }
}

// 3x3 kernels: the nine weights stay in registers, and each value read is used for three outputs.

/// Whether this is a 3x3 kernel whose columns all lie inside, except the first and the last by one pixel.
template <class Places>
bool slides(const DepthwiseShape& s) {
  const std::int64_t last = (s.out_width - 1) * s.stride[1] + 2 - s.pad[1];
  return (std::is_same_v<Places, Exact> || kRegister == kLanes) && s.kernel[0] <= 3 && s.kernel[1] == 3 &&
         s.stride[1] <= 2 && s.dilation[1] == 1 && s.pad[1] >= 0 && s.pad[1] <= 1 && s.y_step == 1 && s.width >= 2 &&
         last <= s.width;
}

/// The outputs of a row whose last column lies inside too.
std::int64_t whole(const DepthwiseShape& s) {
  const std::int64_t rest = s.width + s.pad[1] - 3;
  return rest < 0 ? 0 : std::min(rest / s.stride[1] + 1, s.out_width);
}

/// Computes a row of outputs, `full` of them whole, with `kRows` kernel rows inside the input. `pitch`: floats between
/// rows of x.
template <class Places, int kStride, int kRows>
void slide_row(const DepthwiseShape& s, std::int64_t full, const float* x, std::int64_t pitch, const float* weight,
               const float* bias, const Relu& relu, float* y) {
  const std::int64_t pad = s.pad[1];
  for (int lane = 0; lane < kLanes; lane += kRegister) {
    const OneRegister start = bias ? load_as<OneRegister>(bias + lane) : OneRegister{},
                      most = relu.most - OneRegister{}, least = (relu.on ? 0.0f : -__builtin_inff()) - OneRegister{};
    OneRegister weights[std::max(kRows, 1)][3];
#pragma GCC unroll 3
    for (int row = 0; row < kRows; ++row)
#pragma GCC unroll 3
      for (int column = 0; column < 3; ++column)
        weights[row][column] = load_as<OneRegister>(weight + (row * 3 + column) * kLanes + lane);
    // The sums of the next output and of the one after it.
    OneRegister next = start, after = start;
    const float* from = x + lane;
    const auto add = [&](std::int64_t column, auto to) {
#pragma GCC unroll 3
      for (int row = 0; row < kRows; ++row)
        to(load_as<OneRegister>(from + row * pitch + column * kLanes), weights[row]);
    };
    if (pad == 0) {
      add(0, [&](const OneRegister& v, const OneRegister* w) { next += v * w[0]; });
      from += kLanes;
    }
    if (kStride == 1) {
      add(0, [&](const OneRegister& v, const OneRegister* w) { next += v * w[1], after += v * w[0]; });
      from += kLanes;
    }
    const auto put = [&](std::int64_t o) {
      const OneRegister value = limited(next, least, most);
      if constexpr (kRegister == kLanes)
        Places::put(y, o * kLanes, value);
      else
        store_as(y + o * kLanes + lane, value);
    };
    for (std::int64_t o = 0; o < full; ++o, from += kStride * kLanes) {
      OneRegister last = start;
      if (kStride == 1) {
        add(0,
            [&](const OneRegister& v, const OneRegister* w) { next += v * w[2], after += v * w[1], last += v * w[0]; });
      } else {
        add(0, [&](const OneRegister& v, const OneRegister* w) { next += v * w[1]; });
        add(1, [&](const OneRegister& v, const OneRegister* w) { next += v * w[2], last += v * w[0]; });
      }
      put(o);
      next = kStride == 1 ? after : last, after = last;
    }
    if (full == s.out_width) continue;
    if (kStride == 2) add(0, [&](const OneRegister& v, const OneRegister* w) { next += v * w[1]; });
    put(full);
  }
}

/// `row` is the input at the first output's first tap.
template <class Places>
void slide(const DepthwiseShape& s, std::int64_t full, const Taps& taps, const float* row, const float* weight,
           const float* bias, const Relu& relu, float* y) {
  const std::int64_t pitch = s.dilation[0] * s.width * kLanes;
  const float *const x = row + taps.first_row * pitch + s.pad[1] * kLanes, *const factors = weight +
                                                                                            taps.first_row * 3 * kLanes;
  using Run = void (*)(const DepthwiseShape&, std::int64_t, const float*, std::int64_t, const float*, const float*,
                       const Relu&, float*);
  static constexpr Run kRuns[2][4] = {
      {slide_row<Places, 1, 0>, slide_row<Places, 1, 1>, slide_row<Places, 1, 2>, slide_row<Places, 1, 3>},
      {slide_row<Places, 2, 0>, slide_row<Places, 2, 1>, slide_row<Places, 2, 2>, slide_row<Places, 2, 3>}};
  kRuns[s.stride[1] - 1][taps.last_row - taps.first_row](s, full, x, pitch, factors, bias, relu, y);
}

/// Adds the products of `rows` rows of outputs to the gradients of `kRows` kernel rows, from dw on.
template <int kStride, int kRows>
void sum_rows(const DepthwiseShape& s, const float* dy, const float* x, std::int64_t rows, float* dw) {
  const std::int64_t full = whole(s), pitch = s.dilation[0] * s.width * kLanes;
  for (int lane = 0; lane < kLanes; lane += kRegister) {
    OneRegister sums[kRows][3] = {};
    for (std::int64_t row = 0; row < rows; ++row) {
      const float *const gradients = dy + row * s.out_width * kLanes + lane,
                         *const from = x + (row * s.stride[0] * s.width - s.pad[1]) * kLanes + lane;
      const auto add = [&]<int... column>(std::int64_t o, std::integer_sequence<int, column...>) {
        const OneRegister gradient = load_as<OneRegister>(gradients + o * kLanes);
#pragma GCC unroll 3
        for (int r = 0; r < kRows; ++r)
          ((sums[r][column] += gradient * load_as<OneRegister>(from + r * pitch + (o * kStride + column) * kLanes)),
           ...);
      };
      if (s.pad[1] > 0) add(0, std::integer_sequence<int, 1, 2>());
      for (std::int64_t o = s.pad[1]; o < full; ++o) add(o, std::integer_sequence<int, 0, 1, 2>());
      if (full < s.out_width) add(full, std::integer_sequence<int, 0, 1>());
    }
#pragma GCC unroll 3
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
      for (int c = 0; c < 3; ++c) {
        float* const to = dw + (r * 3 + c) * kLanes + lane;
        store_as(to, load_as<OneRegister>(to) + sums[r][c]);
      }
  }
}

/// Adds one image's sums.
void sum_all(const DepthwiseShape& s, const float* dy, const float* x, float* dw) {
  using Run = void (*)(const DepthwiseShape&, const float*, const float*, std::int64_t, float*);
  static constexpr Run kRuns[2][3] = {{sum_rows<1, 1>, sum_rows<1, 2>, sum_rows<1, 3>},
                                      {sum_rows<2, 1>, sum_rows<2, 2>, sum_rows<2, 3>}};
  const auto taps_of = [&](std::int64_t row) {
    Taps taps{};
    inside(s, 0, row, taps.first_row, taps.last_row);
    return taps;
  };
  for (std::int64_t row = 0, end = 0; row < s.out_height; row = end) {
    const Taps taps = taps_of(row);
    const auto same = [&](const Taps& other) {
      return other.first_row == taps.first_row && other.last_row == taps.last_row;
    };
    for (end = row + 1; end < s.out_height && same(taps_of(end));) ++end;
    if (taps.first_row == taps.last_row) continue;
    const std::int64_t from = row * s.stride[0] - s.pad[0] + taps.first_row * s.dilation[0];
    kRuns[s.stride[1] - 1][taps.last_row - taps.first_row - 1](
        s, dy + row * s.out_width * kLanes, x + from * s.width * kLanes, end - row, dw + taps.first_row * 3 * kLanes);
  }
}

/// Storage: that of y.
template <class Places>
void add_rows(const DepthwiseShape& s, StorageDtype x_rounded, const float* x, std::int64_t x_row, const float* weight,
              const float* bias, const Relu& relu, std::int64_t first, std::int64_t last, float* room, float* y) {
  DepthwiseShape wide = s;
  if (room && (x_rounded != StorageDtype::exact || !slides<Places>(s))) {
    wide.width = depthwise_width(s), wide.pad[1] = 0;
    const std::int64_t left = std::min(s.pad[1], wide.width),
                       there = std::clamp<std::int64_t>(wide.width - left, 0, s.width),
                       begin = std::max<std::int64_t>(first * s.stride[0] - s.pad[0], 0),
                       end = std::min((last - 1) * s.stride[0] - s.pad[0] + (s.kernel[0] - 1) * s.dilation[0] + 1,
                                      s.height);
    float* to = room;
    for (std::int64_t row = begin; row < end; ++row, to += wide.width * kLanes) {
      std::fill_n(to, left * kLanes, 0.0f);
      const std::int64_t from = (row - x_row) * s.width * kLanes;
      with_read_places(x_rounded, [&](auto places) {
        for (std::int64_t i = 0; i < there * kLanes; i += kLanes)
          store(to + left * kLanes + i, places.get(x, from + i));
      });
      std::fill_n(to + (left + there) * kLanes, (wide.width - left - there) * kLanes, 0.0f);
    }
    x = room, x_row = begin;
  }
  // The outputs [begin, end) of a row have all columns inside.
  const std::int64_t reach = (s.kernel[1] - 1) * s.dilation[1] + 1,
                     begin = std::clamp<std::int64_t>((wide.pad[1] + s.stride[1] - 1) / s.stride[1], 0, s.out_width),
                     rest = wide.width + wide.pad[1] - reach,
                     end = std::clamp(rest < 0 ? 0 : rest / s.stride[1] + 1, begin, s.out_width);
  const bool sliding = slides<Places>(wide);
  const std::int64_t full = sliding ? whole(wide) : 0;
  const AddTaps& add = add_taps_of<Places>(s);
  for (std::int64_t o = first; o < last; ++o, y += Places::words(s.y_pitch * kLanes)) {
    Taps taps;
    inside(s, 0, o, taps.first_row, taps.last_row);
    const float* const row = x + ((o * s.stride[0] - s.pad[0] - x_row) * wide.width - wide.pad[1]) * kLanes;
    if (sliding) {
      slide<Places>(wide, full, taps, row, weight, bias, relu, y);
      continue;
    }
    const auto one = [&](std::int64_t i) {
      inside(s, 1, i, taps.first_column, taps.last_column);
      add_taps<Places, 0, 0, 1>(wide, taps, row + i * s.stride[1] * kLanes, weight, bias, relu,
                                y + Places::words(i * s.y_step * kLanes));
    };
    for (std::int64_t i = 0; i < begin; ++i) one(i);
    for (std::int64_t i = end; i < s.out_width; ++i) one(i);
    taps.first_column = 0, taps.last_column = s.kernel[1];
    add_row<Places>(wide, taps, add, row, begin, end, weight, bias, relu, y);
  }
}

}  // namespace

void depthwise_rows(const DepthwiseShape& s, const DepthwiseRounded& rounded, const float* x, std::int64_t x_row,
                    const float* weight, const float* bias, const Relu& relu, std::int64_t first, std::int64_t last,
                    float* room, float* y) {
  with_places(rounded.y, [&](auto places) {
    add_rows<decltype(places)>(s, rounded.x, x, x_row, weight, bias, relu, first, last, room, y);
  });
}

void depthwise_weight_grad(const DepthwiseShape& s, const float* dy, const float* x, float* dw) {
  if (slides<Exact>(s)) return sum_all(s, dy, x, dw);
  for (std::int64_t row = 0; row < s.kernel[0]; ++row)
    for (std::int64_t column = 0; column < s.kernel[1]; column += kMost)
      kAddColumns[std::min(kMost, s.kernel[1] - column) - 1](s, dy, x, dw, row, column);
}

}  // namespace neurim::cpu::NEURIM_ISA
