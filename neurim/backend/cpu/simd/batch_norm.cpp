#include "neurim/backend/cpu/norm/batch_norm.h"

#include <type_traits>

#include "neurim/backend/cpu/simd/storage.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

typedef Register<double, 8 * kLanes>::type Doubles;
typedef Register<float, 4 * kLanes>::type Floats;

// Vectors summed in floats before the sums are added to those of the slice in double.
constexpr std::int64_t kTile = 256;

Doubles wide(const Vec& v) {
  Floats lanes;
  store(reinterpret_cast<float*>(&lanes), v);
  return __builtin_convertvector(lanes, Doubles);
}
Vec narrow(const Doubles& v) {
  const Floats lanes = __builtin_convertvector(v, Floats);
  return load(reinterpret_cast<const float*>(&lanes));
}

/// One image's part of a channel group: whole vectors and a tail.
struct Run {
  std::int64_t vectors;
  int tail;
  explicit Run(std::int64_t floats) : vectors(floats / kLanes), tail(static_cast<int>(floats % kLanes)) {}
};

/// Two sums over many vectors, each in two accumulators, since one would wait for its own additions.
struct Sums {
  Vec first[2] = {}, second[2] = {};
};

/// Calls add(sums, offset, n) for tiles of vectors of a slice, add_tail(sums, offset) for its tails, and join(sums,
/// vectors, tails) after each tile. Tiles grow from `tile` to kTile vectors.
template <class Add, class AddTail, class Join>
void each_tile(const BatchNormShape& shape, std::int64_t group, int slice, std::int64_t tile, Add add, AddTail add_tail,
               Join join) {
  const Run run(shape.run_of(group));
  Sums sums;
  std::int64_t vectors = 0, tails = 0;
  const auto end_tile = [&] {
    join(sums, vectors, tails);
    sums = {};
    vectors = tails = 0;
    tile = tile < kTile / 8 ? tile * 8 : kTile;
  };
  for (std::int64_t image = shape.first_image(slice); image < shape.first_image(slice + 1); ++image) {
    const std::int64_t at = shape.at(group, image);
    for (std::int64_t i = 0, n; i < run.vectors; i += n) {
      n = run.vectors - i < tile ? run.vectors - i : tile;
      add(sums, at + i * kLanes, n);
      vectors += n;
      if (vectors >= tile) end_tile();
    }
    if (run.tail == 0) continue;
    add_tail(sums, at + run.vectors * kLanes);
    if (++tails >= tile) end_tile();
  }
  end_tile();
}

/// Sums the lanes of each channel.
Doubles joined(Doubles v) {
  double total = 0;
  for (int lane = 0; lane < kLanes; ++lane) total += v[lane];
  return Doubles{} + total;
}

void keep(double* at, Doubles v) { std::memcpy(at, &v, sizeof v); }

// Sums differences from a float near the mean within a tile, so that a large mean costs no digits. The tiles' sums are
// shifted to one origin in double.
template <class X>
void moments(const BatchNormShape& shape, std::int64_t group, int slice, const float* x, BatchNormPartial& partial,
             X get_x) {
  const int tail = Run(shape.run_of(group)).tail;
  const std::int64_t start = shape.at(group, shape.first_image(slice));
  Vec near = !shape.lanes                   ? splat(x[start])
             : shape.run_of(group) < kLanes ? load_partial(x + start, tail)
                                            : get_x.get(x, start);
  const Doubles origin = wide(near);
  Doubles sum{}, squares{}, count{};
  each_tile(
      shape, group, slice, 8,
      [&](Sums& sums, std::int64_t at, std::int64_t n) {
        Sums s = sums;
        const Vec shift = near;
        std::int64_t i = 0;
        for (; i + 1 < n; i += 2)
          for (int group = 0; group < 2; ++group) {
            const Vec d = get_x.get(x, at + (i + group) * kLanes) - shift;
            s.first[group] += d;
            s.second[group] += d * d;
          }
        if (i < n) {
          const Vec d = get_x.get(x, at + i * kLanes) - shift;
          s.first[0] += d;
          s.second[0] += d * d;
        }
        sums = s;
      },
      [&](Sums& sums, std::int64_t at) {
        const Vec d = first_lanes(load_partial(x + at, tail) - near, tail);
        sums.first[1] += d;
        sums.second[1] += d * d;
      },
      [&](const Sums& sums, std::int64_t vectors, std::int64_t tails) {
        const Doubles first = wide(sums.first[0] + sums.first[1]), second = wide(sums.second[0] + sums.second[1]);
        const Doubles n = wide(splat(static_cast<float>(vectors)) +
                               first_lanes(splat(static_cast<float>(tails)), tail));
        const Doubles moved = wide(near) - origin;
        sum += first + n * moved;
        squares += second + moved * (2 * first + n * moved);
        count += n;
        near = narrow(origin + sum / (count > 1 ? count : Doubles{} + 1));
      });
  if (!shape.lanes) {
    sum = joined(sum);
    squares = joined(squares);
    count = joined(count);
  }
  const Doubles mean = sum / count, std = squares - sum * mean;
  keep(partial.first, origin + mean);
  keep(partial.second, std < 0 ? Doubles{} : std);
}

template <class Dy, class X>
void grad_sums(const BatchNormShape& shape, std::int64_t group, int slice, const float* mean, const float* dy,
               const float* x, BatchNormPartial& partial, Dy get_dy, X get_x) {
  const int tail = Run(shape.run_of(group)).tail;
  const Vec center = load(mean);
  Doubles first{}, second{};
  each_tile(
      shape, group, slice, kTile,
      [&](Sums& sums, std::int64_t at, std::int64_t n) {
        Sums s = sums;
        std::int64_t i = 0;
        for (; i + 1 < n; i += 2)
          for (int group = 0; group < 2; ++group) {
            const Vec d = get_dy.get(dy, at + (i + group) * kLanes);
            s.first[group] += d;
            s.second[group] += d * (get_x.get(x, at + (i + group) * kLanes) - center);
          }
        if (i < n) {
          const Vec d = get_dy.get(dy, at + i * kLanes);
          s.first[0] += d;
          s.second[0] += d * (get_x.get(x, at + i * kLanes) - center);
        }
        sums = s;
      },
      [&](Sums& sums, std::int64_t at) {
        const Vec d = load_partial(dy + at, tail);
        sums.first[1] += d;
        sums.second[1] += first_lanes(d * (load_partial(x + at, tail) - center), tail);
      },
      [&](const Sums& sums, std::int64_t, std::int64_t) {
        first += wide(sums.first[0] + sums.first[1]);
        second += wide(sums.second[0] + sums.second[1]);
      });
  keep(partial.first, shape.lanes ? first : joined(first));
  keep(partial.second, shape.lanes ? second : joined(second));
}

template <class Dy, class X, class Dx>
void grad_write(const BatchNormShape& shape, std::int64_t group, int slice, const BatchNormLanes& lanes,
                const float* dy, const float* x, float* dx, Dy get_dy, X get_x, Dx set_dx) {
  const Vec mean = load(lanes.mean), scale = load(lanes.scale), bias = load(lanes.bias), slope = load(lanes.slope);
  const Run run(shape.run_of(group));
  const auto value = [&](Vec d, Vec v) { return d * scale + ((v - mean) * slope + bias); };
  for (std::int64_t image = shape.first_image(slice); image < shape.first_image(slice + 1); ++image) {
    const std::int64_t begin = shape.at(group, image), end = begin + run.vectors * kLanes;
    for (std::int64_t at = begin; at < end; at += kLanes)
      set_dx.put(dx, at, value(get_dy.get(dy, at), get_x.get(x, at)));
    if (run.tail)
      store_partial(dx + end, value(load_partial(dy + end, run.tail), load_partial(x + end, run.tail)), run.tail);
  }
}

}  // namespace

void batch_norm_moments(const BatchNormShape& shape, StorageDtype rounded, std::int64_t group, int slice,
                        const float* x, BatchNormPartial& partial) {
  with_read_places(rounded, [&](auto places) { moments(shape, group, slice, x, partial, places); });
}

void batch_norm_grad_sums(const BatchNormShape& shape, const BatchNormGradRounded& rounded, std::int64_t group,
                          int slice, const float* mean, const float* dy, const float* x, BatchNormPartial& partial) {
  if (rounded.dy == rounded.x)
    with_read_places(rounded.x, [&](auto all) { grad_sums(shape, group, slice, mean, dy, x, partial, all, all); });
  else
    grad_sums(shape, group, slice, mean, dy, x, partial, Stored{rounded.dy}, Stored{rounded.x});
}

void batch_norm_grad_write(const BatchNormShape& shape, const BatchNormGradRounded& rounded, std::int64_t group,
                           int slice, const BatchNormLanes& lanes, const float* dy, const float* x, float* dx) {
  if (rounded.dy == rounded.x && rounded.dx == rounded.x)
    with_places(rounded.x, [&](auto all) { grad_write(shape, group, slice, lanes, dy, x, dx, all, all, all); });
  else
    grad_write(shape, group, slice, lanes, dy, x, dx, Stored{rounded.dy}, Stored{rounded.x}, Stored{rounded.dx});
}

void batch_norm_write(const BatchNormShape& shape, std::int64_t group, int slice, const BatchNormLanes& lanes,
                      const float* x, const BatchNormOutput& out) {
  const Vec mean = load(lanes.mean), scale = load(lanes.scale), bias = load(lanes.bias), most = splat(out.relu.most);
  const Run run(shape.run_of(group));
  const auto write = [&](auto adds, auto rectifies, std::int64_t at, auto read, auto put) {
    Vec v = (read(x, at, out.rounded.x) - mean) * scale + bias;
    if (out.normal) put(out.normal, at, v, out.rounded.normal);
    if constexpr (adds) {
      v += read(out.residual, at, out.rounded.residual);
      if (out.sum) put(out.sum, at, v, out.rounded.sum);
    }
    if constexpr (rectifies) v = limited(v, Vec{}, most);
    if (out.last) put(out.last, at, v, out.rounded.last);
  };
  const StorageDtype storage = out.rounded.x;
  const bool alike = stands_as(storage, out.residual, out.rounded.residual) &&
                     stands_as(storage, out.normal, out.rounded.normal) &&
                     stands_as(storage, out.sum, out.rounded.sum) && stands_as(storage, out.last, out.rounded.last);
  const auto all = [&](auto adds, auto rectifies) {
    for (std::int64_t image = shape.first_image(slice); image < shape.first_image(slice + 1); ++image) {
      const std::int64_t begin = shape.at(group, image), end = begin + run.vectors * kLanes;
      const auto write_all = [&](auto read, auto put) {
        for (std::int64_t at = begin; at < end; at += kLanes) write(adds, rectifies, at, read, put);
      };
      if (alike)
        with_places(storage, [&](auto places) {
          write_all([places](const float* from, std::int64_t i, StorageDtype) { return places.get(from, i); },
                    [places](float* to, std::int64_t i, const Vec& v, StorageDtype) { places.put(to, i, v); });
        });
      else
        write_all(
            [](const float* from, std::int64_t i, StorageDtype rounded) { return Stored{rounded, false}.get(from, i); },
            [native = has_bf16()](float* to, std::int64_t i, const Vec& v, StorageDtype rounded) {
              Stored{rounded, native}.put(to, i, v);
            });
      if (run.tail)  // for f32 storage only
        write(
            adds, rectifies, end,
            [&](const float* from, std::int64_t i, StorageDtype) { return load_partial(from + i, run.tail); },
            [&](float* to, std::int64_t i, const Vec& v, StorageDtype) { store_partial(to + i, v, run.tail); });
    }
  };
  constexpr std::true_type yes;
  constexpr std::false_type no;
  if (out.residual)
    out.relu.on ? all(yes, yes) : all(yes, no);
  else
    out.relu.on ? all(no, yes) : all(no, no);
}

}  // namespace neurim::cpu::NEURIM_ISA
