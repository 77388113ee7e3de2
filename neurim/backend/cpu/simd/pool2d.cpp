#include "neurim/backend/cpu/reduce/pool2d.h"

#include "neurim/backend/cpu/simd/storage.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

void fill(float* at, float value, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) at[i] = value;
}

/// Clears rows of a gradient just before the first window that adds to them, so that they are in the cache.
class FreshRows {
 public:
  /// Rows of `floats` floats, or words of two 16-bit elements.
  FreshRows(float* plane, std::int64_t rows, std::int64_t floats) : plane_(plane), rows_(rows), floats_(floats) {}
  void until(std::int64_t row) {
    if (row <= fresh_) return;
    fill(plane_ + fresh_ * floats_, 0, (row - fresh_) * floats_);
    fresh_ = row;
  }
  void all() { until(rows_); }

 private:
  float* plane_;
  std::int64_t rows_, floats_, fresh_ = 0;
};

/// The row after the last one that a window reaches.
std::int64_t end_row(const PoolShape& shape, const PoolWindow& window) {
  return window.first + (window.count - 1) * shape.row_step + 1;
}

// ---- blocked: a vector is a pixel ---------------------------------------------------------------------------------

/// Calls visit(offset in floats) for the pixels of a window, row by row. kWindow: a square kernel without dilation, all
/// inside; 0: any.
template <int kWindow, class Visit>
[[gnu::always_inline]] inline void each_place(const PoolShape& shape, const PoolWindow& row, const PoolWindow& column,
                                              Visit visit) {
  const std::int64_t line = shape.width * kLanes;
  if constexpr (kWindow > 0) {
#pragma GCC unroll 4
    for (int i = 0; i < kWindow; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kWindow; ++j) visit(i * line + j * kLanes);
  } else {
    for (int i = 0; i < row.count; ++i)
      for (int j = 0; j < column.count; ++j) visit(i * shape.row_step * line + j * shape.column_step * kLanes);
  }
}

/// Calls visit(each, offset of the window's first pixel in the plane, output column) for a row of windows; `each` is
/// each_place for that window.
template <int kWindow, class Visit>
[[gnu::always_inline]] inline void each_window(const PoolShape& shape, const PoolWindow& row, Visit visit) {
  for (std::int64_t o = 0; o < shape.out_width; ++o) {
    const PoolWindow& column = shape.columns[o];
    const std::int64_t at = (row.first * shape.width + column.first) * kLanes;
    if (kWindow > 0 && row.count == kWindow && column.count == kWindow)
      visit([&](auto place) { each_place<kWindow>(shape, row, column, place); }, at, o);
    else
      visit([&](auto place) { each_place<0>(shape, row, column, place); }, at, o);
  }
}

template <class Places, int kWindow>
void max_blocked(const PoolShape& shape, const float* const* in, float* out, std::int64_t first, std::int64_t last,
                 float*) {
  for (std::int64_t r = first; r < last; ++r) {
    const std::int64_t x = r / shape.out_height * shape.height * shape.width * kLanes, y = r * shape.out_width * kLanes;
    each_window<kWindow>(shape, shape.rows[r % shape.out_height], [&](auto each, std::int64_t at, std::int64_t o) {
      Vec best = splat(-__builtin_inff());
      each([&](std::int64_t place) { best = larger(best, Places::get(in[0], x + at + place)); });
      Places::put(out, y + o * kLanes, best);
    });
  }
}

template <class Places, int kWindow>
void mean_blocked(const PoolShape& shape, const float* const* in, float* out, std::int64_t first, std::int64_t last,
                  float*) {
  for (std::int64_t r = first; r < last; ++r) {
    const std::int64_t x = r / shape.out_height * shape.height * shape.width * kLanes, y = r * shape.out_width * kLanes;
    const PoolWindow& row = shape.rows[r % shape.out_height];
    each_window<kWindow>(shape, row, [&](auto each, std::int64_t at, std::int64_t o) {
      Vec total{};
      each([&](std::int64_t place) { total += Places::get(in[0], x + at + place); });
      Places::put(out, y + o * kLanes, total * (row.share * shape.columns[o].share));
    });
  }
}

/// kRelu: adds only where x is positive. kTiles: windows do not overlap, so each pixel is in one.
template <class Places, int kWindow, bool kRelu, bool kTiles>
void max_grad_blocked(const PoolShape& shape, const float* const* in, float* out, std::int64_t first, std::int64_t last,
                      float*) {
  const std::int64_t plane = shape.height * shape.width * kLanes, line = shape.out_width * kLanes;
  for (std::int64_t p = first; p < last; ++p) {
    const std::int64_t x = p * plane;
    FreshRows fresh(out + Places::words(x), shape.height, Places::words(shape.width * kLanes));
    for (std::int64_t r = 0; r < shape.out_height; ++r) {
      const std::int64_t dy = (p * shape.out_height + r) * line;
      if (!kTiles) fresh.until(end_row(shape, shape.rows[r]));
      each_window<kWindow>(shape, shape.rows[r], [&](auto each, std::int64_t at, std::int64_t o) {
        Vec best = splat(-__builtin_inff());
        each([&](std::int64_t place) { best = larger(best, Places::get(in[0], x + at + place)); });
        const IVec nan = best != best;
        Vec left = Places::get(in[1], dy + o * kLanes);  // zero once the first maximum has taken it
        each([&](std::int64_t place) {
          const Vec v = Places::get(in[0], x + at + place);
          const IVec hit = (v == best) | ((v != v) & nan);
          const Vec taken = select(kRelu ? hit & (v > Vec{}) : hit, left, Vec{});
          Places::put(out, x + at + place, kTiles ? taken : Places::get(out, x + at + place) + taken);
          left = select(hit, Vec{}, left);
        });
      });
    }
    if (!kTiles) fresh.all();
  }
}

template <class Places, int kWindow>
void mean_grad_blocked(const PoolShape& shape, const float* const* in, float* out, std::int64_t first,
                       std::int64_t last, float*) {
  const std::int64_t plane = shape.height * shape.width * kLanes, line = shape.out_width * kLanes;
  for (std::int64_t p = first; p < last; ++p) {
    const std::int64_t dx = p * plane;
    FreshRows fresh(out + Places::words(dx), shape.height, Places::words(shape.width * kLanes));
    for (std::int64_t r = 0; r < shape.out_height; ++r) {
      const std::int64_t dy = (p * shape.out_height + r) * line;
      const PoolWindow& row = shape.rows[r];
      fresh.until(end_row(shape, row));
      each_window<kWindow>(shape, row, [&](auto each, std::int64_t at, std::int64_t o) {
        const Vec share = Places::get(in[0], dy + o * kLanes) * (row.share * shape.columns[o].share);
        each([&](std::int64_t place) { Places::put(out, dx + at + place, Places::get(out, dx + at + place) + share); });
      });
    }
    fresh.all();
  }
}

// ---- plain: rows first, then along the row, one column of the kernel at a time
// ------------------------------------

/// Calls visit(output, column of x) for the outputs for which a kernel column lies inside. A constant stride lets the
/// compiler vectorize.
template <int kStride, class Visit>
[[gnu::always_inline]] inline void each_output(const PoolColumn& column, std::int64_t stride, Visit visit) {
  const std::int64_t step = kStride ? kStride : stride;
#pragma GCC ivdep
  for (std::int64_t o = column.first; o < column.last; ++o) visit(o, o * step + column.offset);
}

/// The maxima of a row of windows. `best` has room for a row of the plane.
template <int kStride>
void max_row(const PoolShape& shape, const PoolWindow& row, const float* x, float* y, float* best) {
  x += row.first * shape.width;
  fill(best, -__builtin_inff(), shape.width);
  for (int i = 0; i < row.count; ++i, x += shape.row_step * shape.width)
#pragma GCC ivdep
    for (std::int64_t w = 0; w < shape.width; ++w) best[w] = larger(best[w], x[w]);
  fill(y, -__builtin_inff(), shape.out_width);
  for (int j = 0; j < shape.kernel[1]; ++j)
    each_output<kStride>(shape.kernel_columns[j], shape.stride,
                         [&](std::int64_t o, std::int64_t w) { y[o] = larger(y[o], best[w]); });
}

template <int kStride>
void max_plain(const PoolShape& shape, const float* const* in, float* out, std::int64_t first, std::int64_t last,
               float* best) {
  for (std::int64_t r = first; r < last; ++r)
    max_row<kStride>(shape, shape.rows[r % shape.out_height], in[0] + r / shape.out_height * shape.height * shape.width,
                     out + r * shape.out_width, best);
}

template <int kStride>
void mean_plain(const PoolShape& shape, const float* const* in, float* out, std::int64_t first, std::int64_t last,
                float* total) {
  for (std::int64_t r = first; r < last; ++r) {
    const PoolWindow& row = shape.rows[r % shape.out_height];
    const float* x = in[0] + (r / shape.out_height * shape.height + row.first) * shape.width;
    float* y = out + r * shape.out_width;
    fill(total, 0, shape.width);
    for (int i = 0; i < row.count; ++i, x += shape.row_step * shape.width)
#pragma GCC ivdep
      for (std::int64_t w = 0; w < shape.width; ++w) total[w] += x[w];
    fill(y, 0, shape.out_width);
    for (int j = 0; j < shape.kernel[1]; ++j)
      each_output<kStride>(shape.kernel_columns[j], shape.stride,
                           [&](std::int64_t o, std::int64_t w) { y[o] += total[w]; });
    for (std::int64_t o = 0; o < shape.out_width; ++o) y[o] *= row.share * shape.columns[o].share;
  }
}

/// Adds gives(output, column of x) to a row. With stride 2, even and odd columns are summed apart, since neighbouring
/// outputs then add to neighbours.
template <int kStride, class Gives>
void add_to_row(const PoolShape& shape, float* row, float* apart, Gives gives) {
  if constexpr (kStride == 2) {
    const std::int64_t pairs = (shape.width + 1) / 2;
    float *even = apart, *odd = apart + pairs;
    fill(apart, 0, 2 * pairs);
    for (int j = 0; j < shape.kernel[1]; ++j) {
      const PoolColumn& column = shape.kernel_columns[j];
      float* to = (column.offset & 1) ? odd : even;
      const std::int64_t begin = column.offset >> 1;
      each_output<kStride>(column, shape.stride, [&](std::int64_t o, std::int64_t w) { to[o + begin] += gives(o, w); });
    }
#pragma GCC ivdep
    for (std::int64_t i = 0; i < shape.width / 2; ++i) {
      row[2 * i] += even[i];
      row[2 * i + 1] += odd[i];
    }
    if (shape.width % 2) row[shape.width - 1] += even[pairs - 1];
  } else {
    for (int j = 0; j < shape.kernel[1]; ++j)
      each_output<kStride>(shape.kernel_columns[j], shape.stride,
                           [&](std::int64_t o, std::int64_t w) { row[w] += gives(o, w); });
  }
}

template <int kStride, bool kRelu>
void max_grad_plain(const PoolShape& shape, const float* const* in, float* out, std::int64_t first, std::int64_t last,
                    float* scratch) {
  const std::int64_t plane = shape.height * shape.width;
  float *left = scratch, *y = left + shape.out_width, *apart = y + shape.out_width;
  for (std::int64_t p = first; p < last; ++p) {
    FreshRows fresh(out + p * plane, shape.height, shape.width);
    for (std::int64_t r = 0; r < shape.out_height; ++r) {
      const PoolWindow& row = shape.rows[r];
      fresh.until(end_row(shape, row));
      max_row<kStride>(shape, row, in[0] + p * plane, y, apart);
      std::memcpy(left, in[1] + (p * shape.out_height + r) * shape.out_width, shape.out_width * sizeof(float));
      for (int i = 0; i < row.count; ++i) {
        const std::int64_t at = p * plane + (row.first + i * shape.row_step) * shape.width;
        const float* x = in[0] + at;
        add_to_row<kStride>(shape, out + at, apart, [&](std::int64_t o, std::int64_t w) {
          const bool hit = (x[w] == y[o]) | ((x[w] != x[w]) & (y[o] != y[o]));
          const float taken = (kRelu ? hit & (x[w] > 0) : hit) ? left[o] : 0;
          left[o] = hit ? 0 : left[o];  // the first maximum has taken it
          return taken;
        });
      }
    }
    fresh.all();
  }
}

template <int kStride>
void mean_grad_plain(const PoolShape& shape, const float* const* in, float* out, std::int64_t first, std::int64_t last,
                     float* scratch) {
  const std::int64_t plane = shape.height * shape.width;
  float *share = scratch, *line = share + shape.out_width, *apart = line + shape.width;
  for (std::int64_t p = first; p < last; ++p) {
    FreshRows fresh(out + p * plane, shape.height, shape.width);
    for (std::int64_t r = 0; r < shape.out_height; ++r) {
      const PoolWindow& row = shape.rows[r];
      const float* dy = in[0] + (p * shape.out_height + r) * shape.out_width;
      fresh.until(end_row(shape, row));
      for (std::int64_t o = 0; o < shape.out_width; ++o) share[o] = dy[o] * (row.share * shape.columns[o].share);
      fill(line, 0, shape.width);
      add_to_row<kStride>(shape, line, apart, [&](std::int64_t o, std::int64_t) { return share[o]; });
      for (int i = 0; i < row.count; ++i) {
        float* dx = out + p * plane + (row.first + i * shape.row_step) * shape.width;
#pragma GCC ivdep
        for (std::int64_t w = 0; w < shape.width; ++w) dx[w] += line[w];
      }
    }
    fresh.all();
  }
}

// ---- choice
// -------------------------------------------------------------------------------------------------------

bool square(const PoolShape& shape, int size) {
  return shape.kernel[0] == size && shape.kernel[1] == size && shape.row_step == 1 && shape.column_step == 1;
}

/// Whether windows of size 2 meet every pixel once.
bool tiles(const PoolShape& shape) {
  bool all = shape.height == 2 * shape.out_height && shape.width == 2 * shape.out_width;
  for (std::int64_t o = 0; all && o < shape.out_height; ++o)
    all = shape.rows[o].first == 2 * o && shape.rows[o].count == 2;
  for (std::int64_t o = 0; all && o < shape.out_width; ++o)
    all = shape.columns[o].first == 2 * o && shape.columns[o].count == 2;
  return all;
}

template <bool kRelu, class Places>
PoolFunction max_grad_of(int window, const PoolShape& shape) {
  if (window == 2 && tiles(shape)) return max_grad_blocked<Places, 2, kRelu, true>;
  return window == 2   ? max_grad_blocked<Places, 2, kRelu, false>
         : window == 3 ? max_grad_blocked<Places, 3, kRelu, false>
                       : max_grad_blocked<Places, 0, kRelu, false>;
}
template <bool kRelu>
PoolFunction max_grad_function(bool blocked, StorageDtype rounded, int window, int stride, const PoolShape& shape) {
  if (!blocked)
    return stride == 1 ? max_grad_plain<1, kRelu> : stride == 2 ? max_grad_plain<2, kRelu> : max_grad_plain<0, kRelu>;
  return with_read_places(rounded, [&](auto places) { return max_grad_of<kRelu, decltype(places)>(window, shape); });
}

/// Takes the maximum of `bytes` bytes with those of best.
template <int bytes, class T>
void keep_larger(T* best, const T* v) {
  typename Register<T, bytes>::type a, b;
  std::memcpy(&a, best, sizeof a), std::memcpy(&b, v, sizeof b);
  a = a < b ? b : a;
  std::memcpy(best, &a, sizeof a);
}

/// Takes the maxima over a window's rows, then over its columns.
template <class T>
void max_of_rows(const PoolShape& shape, const T* x, T* y, std::int64_t first, std::int64_t last, T* line) {
  constexpr int kMany = 4 * kLanes;
  const std::int64_t row_size = shape.width * kLanes;
  for (std::int64_t r = first; r < last; ++r) {
    const PoolWindow& row = shape.rows[r % shape.out_height];
    const T* const from = x + (r / shape.out_height * shape.height + row.first) * row_size;
    std::memcpy(line, from, row_size);
    for (int i = 1; i < row.count; ++i) {
      const T* const next = from + i * shape.row_step * row_size;
      std::int64_t at = 0;
      for (; at + kMany <= row_size; at += kMany) keep_larger<kMany>(line + at, next + at);
      for (; at < row_size; at += kLanes) keep_larger<kLanes>(line + at, next + at);
    }
    for (std::int64_t o = 0; o < shape.out_width; ++o, y += kLanes) {
      const PoolWindow& column = shape.columns[o];
      const T* const at = line + column.first * kLanes;
      std::memcpy(y, at, kLanes);
      for (int j = 1; j < column.count; ++j) keep_larger<kLanes>(y, at + j * shape.column_step * kLanes);
    }
  }
}

/// The offset in (N,C) of a plane's result, and how many values it has: one, or the 16 channels of a block.
struct Place {
  std::int64_t at;
  int count;
  Place(const PlaneShape& shape, std::int64_t plane) : at(plane), count(1) {
    if (!shape.blocked) return;
    const std::int64_t blocks = (shape.channels + kLanes - 1) / kLanes, begin = plane % blocks * kLanes;
    at = plane / blocks * shape.channels + begin;
    count = static_cast<int>(shape.channels - begin < kLanes ? shape.channels - begin : kLanes);
  }
};

/// The sum of n vectors: short float sums, in two accumulators.
template <class Places>
Vec total(const float* x, std::int64_t from, std::int64_t n) {
  constexpr std::int64_t kShort = 64;
  Vec all{};
  for (std::int64_t begin = 0; begin < n; begin += kShort) {
    const std::int64_t end = begin + kShort < n ? begin + kShort : n;
    Vec even{}, odd{};
    std::int64_t i = begin;
    for (; i + 1 < end; i += 2) {
      even += Places::get(x, from + i * kLanes);
      odd += Places::get(x, from + (i + 1) * kLanes);
    }
    if (i < end) even += Places::get(x, from + i * kLanes);
    all += even + odd;
  }
  return all;
}

}  // namespace

PoolFunction pool_function(PoolKind kind, bool blocked, StorageDtype rounded, const PoolShape& shape) {
  const auto by = [](int key, int first, int second, PoolFunction for_first, PoolFunction for_second,
                     PoolFunction for_others) {
    return key == first ? for_first : key == second ? for_second : for_others;
  };
  const int window = square(shape, 2) ? 2 : square(shape, 3) ? 3 : 0;
  const int stride = shape.stride <= 2 ? static_cast<int>(shape.stride) : 0;
  switch (kind) {
    case PoolKind::max:
      return !blocked
                 ? by(stride, 1, 2, max_plain<1>, max_plain<2>, max_plain<0>)
                 : with_read_places(rounded, [&](auto places) {
                     using Places = decltype(places);
                     return by(window, 2, 3, max_blocked<Places, 2>, max_blocked<Places, 3>, max_blocked<Places, 0>);
                   });
    case PoolKind::max_grad: return max_grad_function<false>(blocked, rounded, window, stride, shape);
    case PoolKind::max_relu_grad: return max_grad_function<true>(blocked, rounded, window, stride, shape);
    case PoolKind::mean:
      return !blocked
                 ? by(stride, 1, 2, mean_plain<1>, mean_plain<2>, mean_plain<0>)
                 : with_read_places(rounded, [&](auto places) {
                     using Places = decltype(places);
                     return by(window, 2, 3, mean_blocked<Places, 2>, mean_blocked<Places, 3>, mean_blocked<Places, 0>);
                   });
    case PoolKind::mean_grad:
      return !blocked ? by(stride, 1, 2, mean_grad_plain<1>, mean_grad_plain<2>, mean_grad_plain<0>)
                      : with_read_places(rounded, [&](auto places) {
                          using Places = decltype(places);
                          return by(window, 2, 3, mean_grad_blocked<Places, 2>, mean_grad_blocked<Places, 3>,
                                    mean_grad_blocked<Places, 0>);
                        });
  }
  return nullptr;
}

void max_of_bytes(const PoolShape& shape, bool negative, const std::uint8_t* x, std::uint8_t* y, std::int64_t first,
                  std::int64_t last, std::uint8_t* line) {
  y += first * shape.out_width * kLanes;
  if (negative)
    max_of_rows(shape, reinterpret_cast<const std::int8_t*>(x), reinterpret_cast<std::int8_t*>(y), first, last,
                reinterpret_cast<std::int8_t*>(line));
  else
    max_of_rows(shape, x, y, first, last, line);
}

void plane_means(const PlaneShape& shape, const float* x, float* means, std::int64_t first, std::int64_t last) {
  const float share = 1 / static_cast<float>(shape.size);
  for (std::int64_t plane = first; plane < last; ++plane) {
    const Place place(shape, plane);
    if (shape.blocked) {
      const std::int64_t from = plane * shape.size * kLanes;
      const Vec all = with_read_places(shape.rounded,
                                       [&](auto places) { return total<decltype(places)>(x, from, shape.size); });
      store_partial(means + place.at, all * share, place.count);
    } else {
      const std::int64_t vectors = shape.size / kLanes;
      const float* at = x + plane * shape.size;
      const Vec tail = load_partial(at + vectors * kLanes, static_cast<int>(shape.size % kLanes));
      means[place.at] = sum(total<Exact>(at, 0, vectors) + tail) * share;
    }
  }
}

void fill_planes(const PlaneShape& shape, const float* values, float* x, std::int64_t first, std::int64_t last) {
  const Stored stored{shape.rounded};
  for (std::int64_t plane = first; plane < last; ++plane) {
    const Place place(shape, plane);
    if (shape.blocked) {
      const Vec value = load_partial(values + place.at, place.count);
      for (std::int64_t i = 0; i < shape.size; ++i) stored.put(x, (plane * shape.size + i) * kLanes, value);
    } else {
      fill(x + plane * shape.size, values[place.at], shape.size);
    }
  }
}

}  // namespace neurim::cpu::NEURIM_ISA
