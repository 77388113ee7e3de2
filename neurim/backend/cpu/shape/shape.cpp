// Ops that move elements. Slice, its gradient, pad, transpose and broadcast_to are walks: each output index maps to one
// input index. Concat and gather copy runs of bytes. Blocked tensors are moved in their layout if the pieces are whole
// vectors of 16, or halves or quarters of them.
#include "neurim/backend/cpu/shape/shape.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/base/error.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/pad.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"

namespace neurim::cpu {

namespace {

template <int kWidth>
struct Element {
  std::byte bytes[kWidth];
};

/// Writes one row. `inside`: part of it comes from the source.
template <int kWidth>
void write_row(const WalkAxis& row, const std::byte* constant, const void* source, void* target, bool inside) {
  using E = Element<kWidth>;
  const E* from = static_cast<const E*>(source);
  E* to = static_cast<E*>(target);
  const std::int64_t count = inside ? row.count : 0;
  if (count < row.size) {
    E fill;
    std::memcpy(&fill, constant, sizeof fill);
    const std::int64_t end = row.step == 1 && count > 0 ? row.first : row.size;
    for (std::int64_t i = 0; i < end; ++i) to[i * row.to_stride] = fill;
    if (end < row.size)
      for (std::int64_t i = row.first + count; i < row.size; ++i) to[i * row.to_stride] = fill;
  }
  if (count == 0) return;
  to += row.first * row.to_stride;
  const std::int64_t stride = row.step * row.to_stride;
  if (stride == 1 && row.from_stride == 1)
    std::memcpy(to, from, count * sizeof(E));
  else
    for (std::int64_t i = 0; i < count; ++i) to[i * stride] = from[i * row.from_stride];
}

using WriteRow = void (*)(const WalkAxis&, const std::byte*, const void*, void*, bool);
WriteRow row_writer(int width) {
  switch (width) {
    case 1: return write_row<1>;
    case 2: return write_row<2>;
    case 4: return write_row<4>;
    case 8: return write_row<8>;
    case 16: return write_row<16>;
    case 32: return write_row<32>;
    default: return write_row<64>;
  }
}

}  // namespace

std::int64_t Walk::rows() const {
  std::int64_t product = 1;
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) product *= axes[i].size;
  return product;
}

void Walk::merge() {
  constexpr std::int64_t kLongest = 8192;
  std::vector<WalkAxis> merged{axes.back()};  // innermost first
  for (std::size_t i = axes.size() - 1; i-- > 0;) {
    const WalkAxis& outer = axes[i];
    WalkAxis& inner = merged.back();
    const bool whole = inner.first == 0 && inner.step == 1 && inner.count == inner.size;
    if (whole && outer.step == 1 && outer.to_stride == inner.size * inner.to_stride &&
        outer.from_stride == inner.size * inner.from_stride && outer.size * inner.size <= kLongest) {
      inner.first = outer.first * inner.size;
      inner.count = outer.count * inner.size;
      inner.size *= outer.size;
    } else {
      merged.push_back(outer);
    }
  }
  axes.assign(merged.rbegin(), merged.rend());
}

void Walk::run(const void* source, void* target, std::int64_t first, std::int64_t last) const {
  constexpr std::size_t kMost = 12;
  struct Place {
    std::int64_t to, from;
    bool inside;
  };
  const std::size_t loops = axes.size() - 1;
  NEURIM_ASSERT(loops < kMost);
  std::array<std::int64_t, kMost> at{};
  std::array<Place, kMost> place;  // the indices of the loops outside each
  place[0] = {to, from, true};
  const auto enter = [&](std::size_t loop) {
    const WalkAxis& axis = axes[loop];
    const std::int64_t distance = at[loop] - axis.first, k = distance / axis.step;
    place[loop + 1] = {place[loop].to + at[loop] * axis.to_stride, place[loop].from + k * axis.from_stride,
                       place[loop].inside && distance >= 0 && k < axis.count && k * axis.step == distance};
  };
  std::int64_t rest = first;
  for (std::size_t loop = loops; loop-- > 0; rest /= axes[loop].size) at[loop] = rest % axes[loop].size;
  for (std::size_t loop = 0; loop < loops; ++loop) enter(loop);
  const WriteRow write = row_writer(width);
  const std::byte* from_base = static_cast<const std::byte*>(source);
  std::byte* to_base = static_cast<std::byte*>(target);
  for (std::int64_t row = first; row < last; ++row) {
    const Place& here = place[loops];
    write(axes.back(), constant.data(), here.inside ? from_base + here.from * width : from_base,
          to_base + here.to * width, here.inside);
    std::size_t loop = loops;
    while (loop > 0 && ++at[loop - 1] == axes[loop - 1].size) at[--loop] = 0;
    if (loop == 0) break;
    for (--loop; loop < loops; ++loop) enter(loop);
  }
}

namespace {

/// Which input elements an output takes, by logical axes of the output: index first + k * step takes index from_first +
/// k * from_step of the input's axis `in_axis` (-1: none), k < count.
struct MoveAxis {
  std::int64_t size, first, step, count;
  int in_axis;
  std::int64_t from_first, from_step;
};

struct Move {
  std::vector<MoveAxis> axes;
  double constant = 0;
};

Move move_of(const Op& op, const Shape& in, const Shape& out) {
  Move move;
  const int rank = out.rank();
  if (op.name() == "slice") {
    const SliceRange range = static_cast<const Slice&>(op).options.range(in, "slice");
    for (int a = 0; a < rank; ++a) move.axes.push_back({out[a], 0, 1, out[a], a, range.start[a], range.step[a]});
  } else if (op.name() == "slice_grad") {
    const SliceRange range = static_cast<const SliceGrad&>(op).options.range(out, "slice_grad");
    for (int a = 0; a < rank; ++a) {
      const std::int64_t start = range.start[a], step = range.step[a];
      if (step > 0)
        move.axes.push_back({out[a], start, step, in[a], a, 0, 1});
      else  // backwards, from the last one
        move.axes.push_back({out[a], start + (in[a] - 1) * step, -step, in[a], a, in[a] - 1, -1});
    }
  } else if (op.name() == "pad") {
    const auto& pad = static_cast<const Pad&>(op);
    move.constant = pad.value;
    for (int a = 0; a < rank; ++a) {
      const std::int64_t before = pad.pads[a], first = std::max<std::int64_t>(before, 0),
                         from = std::max<std::int64_t>(-before, 0);
      move.axes.push_back(
          {out[a], first, 1, std::max<std::int64_t>(0, std::min(out[a] - first, in[a] - from)), a, from, 1});
    }
  } else if (op.name() == "transpose") {
    const auto& perm = static_cast<const Transpose&>(op).perm;
    for (int a = 0; a < rank; ++a) move.axes.push_back({out[a], 0, 1, out[a], static_cast<int>(perm[a]), 0, 1});
  } else {  // broadcast_to
    for (int a = 0; a < rank; ++a) {
      const int own = a - (rank - in.rank());
      move.axes.push_back({out[a], 0, 1, out[a], own, 0, own >= 0 && in[own] != 1 ? 1 : 0});
    }
  }
  return move;
}

/// An element of this dtype, repeated.
std::array<std::byte, 64> constant_of(DType dtype, double value) {
  std::array<std::byte, 64> all;
  Tensor::full({dtype, {static_cast<std::int64_t>(all.size()) * 8 / bits(dtype)}}, value).read(all.data());
  return all;
}

Walk plain_walk(const Move& move, const Type& in, const Type& out) {
  Walk walk{.width = bits(out.dtype) / 8, .constant = constant_of(out.dtype, move.constant)};
  const auto from = strides(in.shape), to = strides(out.shape);
  for (std::size_t a = 0; a < move.axes.size(); ++a) {
    const MoveAxis& axis = move.axes[a];
    const std::int64_t stride = axis.in_axis < 0 ? 0 : from[axis.in_axis];
    walk.from += axis.from_first * stride;
    walk.axes.push_back({axis.size, to[a], axis.first, axis.step, axis.count, axis.from_step * stride});
  }
  if (walk.axes.empty()) walk.axes.push_back({1, 1, 0, 1, 1, 1});
  // The longest axis that is contiguous on either side becomes the row: a short row would cost more than it moves.
  const auto row = std::max_element(walk.axes.begin(), walk.axes.end(), [](const WalkAxis& a, const WalkAxis& b) {
    const auto length = [](const WalkAxis& axis) {
      return axis.to_stride == 1 || axis.from_stride == 1 ? axis.size : std::int64_t{0};
    };
    return length(a) < length(b);
  });
  if (walk.axes.back().size < 16 && row->size > walk.axes.back().size) std::rotate(row, row + 1, walk.axes.end());
  walk.merge();
  return walk;
}

/// The walks over vectors of 16 along axis `split`; none if the pieces along it are smaller than quarters of vectors. A
/// target vector is cut into parts that each take a part of one source vector.
std::vector<Walk> vector_walks(const Move& move, const Type& in, const Type& out, int split, StorageDtype rounded) {
  const MoveAxis& lanes = move.axes[split];
  const int bytes = rounded ? 2 : bits(in.dtype) / 8;
  if ((in.dtype != DType::f32 && bytes != 1) || in.shape[split] % 16 || out.shape[split] % 16 || lanes.step != 1 ||
      lanes.from_step != 1)
    return {};
  for (std::size_t a = 0; a < move.axes.size(); ++a)
    if (move.axes[a].in_axis != static_cast<int>(a)) return {};
  const std::int64_t piece = std::gcd(std::gcd(std::int64_t{16}, lanes.first), std::gcd(lanes.from_first, lanes.count));
  if (piece < 4) return {};
  const std::int64_t pieces = 16 / piece, shift = (lanes.first - lanes.from_first) / piece;
  const auto blocks = [&](Shape shape) {
    shape[split] /= 16;
    return strides(shape);
  };
  const auto from = blocks(in.shape), to = blocks(out.shape);
  const auto above = [&](std::int64_t count) { return (count + pieces - 1) / pieces; };
  std::vector<Walk> walks;
  for (std::int64_t k = 0; k < pieces; ++k) {
    const std::int64_t source = ((k - shift) % pieces + pieces) % pieces, moved = (k - shift - source) / pieces;
    const std::int64_t begin = std::max<std::int64_t>(0, above(lanes.first / piece - k)),
                       end = std::max(begin, above((lanes.first + lanes.count) / piece - k));
    Walk walk{.to = k,
              .from = source,
              .width = static_cast<int>(piece) * bytes,
              .constant = constant_of(rounded ? dtype_of(rounded) : out.dtype, move.constant)};
    for (std::size_t a = 0; a < move.axes.size(); ++a) {
      MoveAxis axis = move.axes[a];
      if (static_cast<int>(a) == split) axis = {out.shape[split] / 16, begin, 1, end - begin, split, begin + moved, 1};
      walk.from += axis.from_first * from[a] * pieces;
      walk.axes.push_back(
          {axis.size, to[a] * pieces, axis.first, axis.step, axis.count, axis.from_step * from[a] * pieces});
    }
    walk.merge();
    walks.push_back(std::move(walk));
  }
  return walks;
}

/// The axis that a layout stores in vectors of 16, or -1.
int vector_axis(const Layout& layout) { return layout == kBlocked ? 1 : layout == kImages ? 0 : -1; }

/// The walks of a request; none if the layout of both sides is not taken.
std::vector<Walk> walks_of(const KernelRequest& request, const Layout& layout) {
  const Type &in = request.input(0).type, &out = request.output(0).type;
  const Move move = move_of(request.op(), in.shape, out.shape);
  if (layout == Layout{}) return {plain_walk(move, in, out)};
  const int split = vector_axis(exact(layout));
  if (split < 0 || in.shape.rank() != out.shape.rank() || in.shape.rank() < 2) return {};
  return vector_walks(move, in, out, split, layout.storage);
}

/// Declines, with a reason, what none of these kernels takes.
bool takes(KernelRequest& request) {
  const bool empty = request.output(0).type.shape.numel() == 0;
  if (request.steps.size() > 1 || empty) request.why = empty ? "takes no empty tensors" : "takes nothing after it";
  return request.steps.size() == 1 && !empty;
}

/// Proposes the input's layout if the walk can keep it.
bool propose_layouts(KernelRequest& request) {
  if (!takes(request)) return false;
  const Layout layout = exact(request.input(0).layout);
  Layout kept = layout != Layout{} && !walks_of(request, layout).empty() ? layout : Layout{};
  if (kept == kBlocked) kept = narrowed(request, kept);
  for (TensorDesc& value : request.values) value.layout = kept;
  return true;
}

struct Moved {
  std::vector<Walk> walks;
  int tasks;

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Moved*>(self);
    for (const Walk& walk : own.walks)
      walk.run(args.in[0], args.out[0], task_begin(walk.rows(), own.tasks, task),
               task_begin(walk.rows(), own.tasks, task + 1));
  }
};

Launch prepare(KernelRequest& request) {
  if (!takes(request)) return {};
  const Layout layout = request.input(0).layout;
  Moved moved{{}, 1};
  if (request.output(0).layout == layout) moved.walks = walks_of(request, layout);
  if (moved.walks.empty()) return decline(request, "does not go from ", layout, " to ", request.output(0).layout);
  moved.tasks = tasks_of(request, request.output(0).type.shape.numel(), moved.walks[0].rows());
  const int tasks = moved.tasks;
  return {Moved::run, std::make_shared<Moved>(std::move(moved)), tasks};
}

// --- concat
// --------------------------------------------------------------------------------------------------------

/// The output is `outer` times one run of bytes from each input. A task takes a range of the output's bytes.
struct Joined {
  std::vector<std::int64_t> run_begin;  ///< of each input within one round of runs, and the total
  std::int64_t outer;
  int tasks;

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Joined*>(self);
    const std::int64_t round = own.run_begin.back(), last = task_begin(own.outer * round, own.tasks, task + 1);
    for (std::int64_t at = task_begin(own.outer * round, own.tasks, task); at < last;) {
      const std::int64_t within = at % round;
      const auto next = std::upper_bound(own.run_begin.begin(), own.run_begin.end(), within);
      const auto input = static_cast<std::size_t>(next - own.run_begin.begin() - 1);
      const std::int64_t begin = own.run_begin[input], size = *next - begin;
      const std::int64_t count = std::min(*next - within, last - at);
      std::memcpy(static_cast<std::byte*>(args.out[0]) + at,
                  static_cast<const std::byte*>(args.in[input]) + at / round * size + (within - begin), count);
      at += count;
    }
  }
};

/// Whether all values fill this layout's vectors, as concatenation along `axis` needs.
bool reduction_tasks(const KernelRequest& request, const Layout& layout, int axis) {
  if (layout == Layout{}) return true;
  const int split = vector_axis(exact(layout));
  return split >= 0 && axis != 0 &&
         std::all_of(request.values.begin(), request.values.end(), [&](const TensorDesc& value) {
           return value.type.shape.rank() >= 2 && value.type.shape[split] % 16 == 0;
         });
}

int concat_axis(const KernelRequest& request) {
  return normal_axis(static_cast<const Concat&>(request.op()).axis, request.output(0).type.shape.rank(), "concat");
}

bool propose_concat_layouts(KernelRequest& request) {
  if (!takes(request)) return false;
  const Layout layout = exact(request.input(0).layout);
  Layout kept = reduction_tasks(request, layout, concat_axis(request)) ? layout : Layout{};
  if (kept == kBlocked) kept = narrowed(request, kept);
  for (TensorDesc& value : request.values) value.layout = kept;
  return true;
}

Launch prepare_concat(KernelRequest& request) {
  if (!takes(request)) return {};
  const int axis = concat_axis(request);
  const Layout layout = request.output(0).layout;
  const bool alike = std::all_of(request.values.begin(), request.values.end(),
                                 [&](const TensorDesc& value) { return value.layout == layout; });
  if (!alike || !reduction_tasks(request, layout, axis)) return decline(request, "takes one layout of whole blocks");
  const Shape& out = request.output(0).type.shape;
  const int split = vector_axis(exact(layout));
  Joined joined{{0}, 1, 1};
  for (int a = 0; a < axis; ++a) joined.outer *= a == split ? out[a] / 16 : out[a];
  for (std::size_t i = 0; i < request.in.size(); ++i)
    joined.run_begin.push_back(joined.run_begin.back() +
                               static_cast<std::int64_t>(bytes(request.input(static_cast<int>(i)).type, layout)) /
                                   joined.outer);
  joined.tasks = tasks_of(request, out.numel(), out.numel());
  return {Joined::run, std::make_shared<Joined>(joined), joined.tasks};
}

// --- gather
// --------------------------------------------------------------------------------------------------------

struct Gathered {
  std::int64_t size, indices, slices,
      bytes;  ///< along the axis; picked of it; of the output, and the bytes of one
  bool wide;  ///< i64 indices
  int tasks;

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Gathered*>(self);
    const std::int64_t first = task_begin(own.slices, own.tasks, task),
                       last = task_begin(own.slices, own.tasks, task + 1);
    const bool outside = own.bytes == 2   ? own.pick<2>(args, first, last)
                         : own.bytes == 4 ? own.pick<4>(args, first, last)
                         : own.bytes == 8 ? own.pick<8>(args, first, last)
                                          : own.pick<0>(args, first, last);
    if (outside) std::atomic_ref(*args.status).fetch_or(kStatusIndexOutOfRange, std::memory_order_relaxed);
  }

  /// Copies slices [first, last), of kBytes bytes unless that is 0. Returns whether an index was out of range.
  template <std::size_t kBytes>
  bool pick(const Args& args, std::int64_t first, std::int64_t last) const {
    if (first == last) return false;
    const std::size_t count = kBytes == 0 ? static_cast<std::size_t>(bytes) : kBytes;
    const auto step = static_cast<std::int64_t>(count);
    const std::byte* from = static_cast<const std::byte*>(args.in[0]) + first / indices * size * step;
    std::byte* to = static_cast<std::byte*>(args.out[0]) + first * step;
    bool outside = false;
    for (std::int64_t slice = first, which = first % indices; slice < last; ++slice, to += step) {
      std::int64_t index = wide ? static_cast<const std::int64_t*>(args.in[1])[which]
                                : static_cast<const std::int32_t*>(args.in[1])[which];
      if (index < 0) index += size;
      if (index >= 0 && index < size) {
        std::memcpy(to, from + index * step, count);
      } else {
        std::memset(to, 0, count);
        outside = true;
      }
      if (++which == indices) which = 0, from += size * step;
    }
    return outside;
  }
};

Launch prepare_gather(KernelRequest& request) {
  if (!takes(request)) return {};
  const Type &x = request.input(0).type, &indices = request.input(1).type;
  const int axis = normal_axis(static_cast<const Gather&>(request.op()).axis, x.shape.rank(), "gather");
  Gathered own{x.shape[axis],     indices.shape.numel(),       indices.shape.numel(),
               bits(x.dtype) / 8, indices.dtype == DType::i64, 1};
  for (int a = 0; a < x.shape.rank(); ++a)
    if (a != axis) (a < axis ? own.slices : own.bytes) *= x.shape[a];
  own.tasks = tasks_of(request, request.output(0).type.shape.numel(), own.slices);
  return {Gathered::run, std::make_shared<Gathered>(own), own.tasks};
}

}  // namespace

}  // namespace neurim::cpu

namespace neurim {

void cpu_shape() {
  for (const std::string_view op : {"slice", "slice_grad", "pad", "transpose", "broadcast_to"})
    cpu::add_kernel({.op = op, .name = "cpu", .prepare = cpu::prepare, .propose_layouts = cpu::propose_layouts});
  cpu::add_kernel(
      {.op = "concat", .name = "cpu", .prepare = cpu::prepare_concat, .propose_layouts = cpu::propose_concat_layouts});
  cpu::add_kernel({.op = "gather", .name = "cpu", .prepare = cpu::prepare_gather});
}

}  // namespace neurim
