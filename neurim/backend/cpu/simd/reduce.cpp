#include "neurim/backend/cpu/reduce/reduce.h"

#include <bit>

#include "neurim/backend/cpu/simd/math.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

constexpr int kLanes = Reduction::kLanes;
constexpr int kRounds = 64;  // additions to a lane before the lanes are added to a double

/// The type of an element in memory: float or a 16-bit float.
enum class Bf16Bits : std::uint16_t {};
enum class F16Bits : std::uint16_t {};
float number(float x) { return x; }
float number(Bf16Bits x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16); }
float number(F16Bits x) { return float_of_f16(static_cast<std::uint16_t>(x)); }

struct Sum {
  static constexpr float kStart = 0;
  static float fold(float total, float x) { return total + x; }
};
struct Max {
  static constexpr float kStart = -kInfinity;
  static float fold(float total, float x) { return (x > total) | (x != x) ? x : total; }
};
struct Min {
  static constexpr float kStart = kInfinity;
  static float fold(float total, float x) { return (x < total) | (x != x) ? x : total; }
};

template <class Fold>
double fold_wide(double total, float x) {
  if constexpr (Fold::kStart == 0)
    return total + static_cast<double>(x);
  else
    return static_cast<double>(Fold::fold(static_cast<float>(total), x));
}

/// Float lanes that are added to doubles before rounding errors grow.
template <class Fold>
class Lanes {
 public:
  Lanes() {
    for (int i = 0; i < kLanes; ++i) lane_[i] = Fold::kStart, total_[i] = static_cast<double>(Fold::kStart);
  }

  /// Adds n contiguous elements, to any lanes.
  template <class T>
  void row(const T* x, std::int64_t n) {
    while (n >= kLanes) {
      const std::int64_t rounds = n / kLanes < kRounds - used_ ? n / kLanes : kRounds - used_;
      rows<kLanes>(x, kLanes, rounds);
      x += rounds * kLanes;
      n -= rounds * kLanes;
    }
    if (n == 0) return;
    count(1);
    for (int i = 0; i < n; ++i) lane_[i] = Fold::fold(lane_[i], number(x[i]));
  }

  /// Adds `n` rows, `stride` apart, each to the first `width` lanes.
  template <class T>
  void columns(const T* x, std::int64_t stride, std::int64_t n, int width) {
    while (n > 0) {
      const std::int64_t rounds = n < kRounds - used_ ? n : kRounds - used_;
      if (width == kLanes) {
        rows<kLanes>(x, stride, rounds);
      } else if (width == 16) {
        rows<16>(x, stride, rounds);
      } else {
        for (std::int64_t r = 0; r < rounds; ++r)
          for (int i = 0; i < width; ++i) lane_[i] = Fold::fold(lane_[i], number(x[r * stride + i]));
        count(static_cast<int>(rounds));
      }
      x += rounds * stride;
      n -= rounds;
    }
  }

  double lane(int i) const { return fold_wide<Fold>(total_[i], lane_[i]); }
  double all() const {
    double whole = lane(0);
    for (int i = 1; i < kLanes; ++i)
      whole = fold_wide<Fold>(fold_wide<Fold>(whole, lane_[i]), static_cast<float>(total_[i]));
    return whole;
  }

 private:
  template <int width, class T>
  void rows(const T* x, std::int64_t stride, std::int64_t n) {
    float lane[width];
    for (int i = 0; i < width; ++i) lane[i] = lane_[i];
    for (std::int64_t r = 0; r < n; ++r)
      for (int i = 0; i < width; ++i) lane[i] = Fold::fold(lane[i], number(x[r * stride + i]));
    for (int i = 0; i < width; ++i) lane_[i] = lane[i];
    count(static_cast<int>(n));
  }

  void count(int rounds) {
    used_ += rounds;
    if (used_ < kRounds) return;
    for (int i = 0; i < kLanes; ++i) {
      total_[i] = fold_wide<Fold>(total_[i], lane_[i]);
      lane_[i] = Fold::kStart;
    }
    used_ = 0;
  }

  float lane_[kLanes];
  double total_[kLanes];
  int used_ = 0;
};

template <class Fold, class T>
void run_over(const Reduction& r, const T* x, float* y, std::int64_t first, std::int64_t last) {
  const std::int64_t lane_blocks = r.inner_kept ? (r.inner + kLanes - 1) / kLanes : 1;
  for (std::int64_t piece = first; piece < last; ++piece) {
    const std::int64_t begin = piece % lane_blocks * kLanes;
    std::int64_t from = begin, to = begin * r.inner_out, rest = piece / lane_blocks, width = r.inner - begin;
    if (width > kLanes) width = kLanes;
    std::int64_t outputs = width;
    for (int i = r.kept - 1; i >= 0; --i) {
      const std::int64_t at = rest % r.kept_size[i];
      rest /= r.kept_size[i];
      from += at * r.kept_stride[i];
      to += at * r.kept_out[i];
      if (i == r.channel_loop && r.channels - at * r.inner < outputs) outputs = r.channels - at * r.inner;
    }
    Lanes<Fold> lanes;
    // All reduced loops except the last, which the lanes run through themselves if the inner loop is kept.
    const int loops = r.inner_kept ? r.gone - 1 : r.gone;
    std::int64_t at[Reduction::kMostAxes] = {};
    for (int axis = 0; axis >= 0;) {
      if (r.inner_kept)
        lanes.columns(x + from, r.gone ? r.gone_stride[loops] : 0, r.gone ? r.gone_size[loops] : 1,
                      static_cast<int>(width));
      else
        lanes.row(x + from, r.inner);
      for (axis = loops - 1; axis >= 0; --axis) {
        from += r.gone_stride[axis];
        if (++at[axis] < r.gone_size[axis]) break;
        from -= r.gone_size[axis] * r.gone_stride[axis];
        at[axis] = 0;
      }
    }
    if (!r.inner_kept)
      y[to] = static_cast<float>(lanes.all() / r.divisor);
    else
      for (int i = 0; i < outputs; ++i) y[to + i * r.inner_out] = static_cast<float>(lanes.lane(i) / r.divisor);
  }
}

template <class Fold>
void run(const Reduction& r, const float* x, float* y, std::int64_t first, std::int64_t last) {
  switch (r.rounded) {
    case StorageDtype::exact: return run_over<Fold>(r, x, y, first, last);
    case StorageDtype::bf16: return run_over<Fold>(r, reinterpret_cast<const Bf16Bits*>(x), y, first, last);
    case StorageDtype::f16: return run_over<Fold>(r, reinterpret_cast<const F16Bits*>(x), y, first, last);
  }
}

}  // namespace

void run_sum(const Reduction& r, const float* x, float* y, std::int64_t first, std::int64_t last) {
  run<Sum>(r, x, y, first, last);
}
void run_max(const Reduction& r, const float* x, float* y, std::int64_t first, std::int64_t last) {
  run<Max>(r, x, y, first, last);
}
void run_min(const Reduction& r, const float* x, float* y, std::int64_t first, std::int64_t last) {
  run<Min>(r, x, y, first, last);
}

void run_argmax(const float* x, std::int64_t* y, std::int64_t size, std::int64_t first, std::int64_t last) {
  for (std::int64_t row = first; row < last; ++row) {
    const float* at = x + row * size;
    Lanes<Max> lanes;
    lanes.row(at, size);
    const float most = static_cast<float>(lanes.all());
    std::int64_t place = 0;
    while (!(at[place] == most || at[place] != at[place])) ++place;
    y[row] = place;
  }
}

}  // namespace neurim::cpu::NEURIM_ISA
