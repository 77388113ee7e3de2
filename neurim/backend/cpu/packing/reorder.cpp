#include "neurim/backend/cpu/packing/reorder.h"

#include <algorithm>
#include <cstring>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/graph/kernel.h"

namespace neurim {

namespace {

using namespace cpu;

/// Whether the kernels below know this layout of the shape as one of vectors.
bool of_vectors(const Shape& shape, const Layout& layout) {
  return layout == kBlocked || ((layout == kImages || layout == kFeatures) && loopable(shape, layout));
}

struct Transposed {
  BlockShape shape;
  decltype(&portable::block_channels) run_range;
  std::int64_t ranges;  ///< of places, in each block
  int tasks;

  /// Between plain and `layout`. Sixteen images are treated as the sixteen channels of one block.
  Transposed(const KernelRequest& request, const Layout& layout, bool blocks) {
    const Shape& logical = request.input(0).type.shape;
    const std::int64_t images = layout == kImages ? logical[0] / 16 : logical[0],
                       channels = layout == kImages ? Dim(16) : logical[*split_axis(layout)];
    shape = {images, channels, logical.numel() / (images * channels), layout == kFeatures};
    run_range = blocks ? NEURIM_DISPATCH(block_channels) : NEURIM_DISPATCH(unblock_channels);
    // A range of places fits the first-level cache in both layouts.
    ranges = (shape.places + 255) / 256;
    tasks = tasks_of(request, logical.numel(), images * shape.blocks() * ranges);
  }

  void run_task(const void* from, void* to, int task) const {
    const std::int64_t pieces = shape.images * shape.blocks() * ranges;
    for (std::int64_t piece = task_begin(pieces, tasks, task); piece < task_begin(pieces, tasks, task + 1); ++piece) {
      const std::int64_t range = piece % ranges;
      run_range(shape, static_cast<const float*>(from), static_cast<float*>(to), piece / ranges,
                shape.places * range / ranges, shape.places * (range + 1) / ranges);
    }
  }

  static void run(const void* self, const Args& args, int task) noexcept {
    static_cast<const Transposed*>(self)->run_task(args.in[0], args.out[0], task);
  }
};

/// The same layout in 16-bit and f32 storage.
struct Converted {
  std::int64_t count;
  StorageDtype from, to;  ///< one of them is exact
  int tasks;

  Converted(const KernelRequest& request, const Layout& source, const Layout& target)
      : count(static_cast<std::int64_t>(bytes(request.input(0).type, exact(target)) / sizeof(float))),
        from(source.storage),
        to(target.storage),
        tasks(tasks_of(request, count, count / 16)) {}

  void run_task(const void* source, void* target, int task) const {
    const std::int64_t first = task_begin(count / 16, tasks, task) * 16,
                       last = task_begin(count / 16, tasks, task + 1) * 16;
    if (to) NEURIM_DISPATCH(round_elements)
    (to, static_cast<const float*>(source), first, last, static_cast<std::uint16_t*>(target));
    else NEURIM_DISPATCH(widen_elements)(from, static_cast<const std::uint16_t*>(source), first, last,
                                         static_cast<float*>(target));
  }

  static void run(const void* self, const Args& args, int task) noexcept {
    static_cast<const Converted*>(self)->run_task(args.in[0], args.out[0], task);
  }
};

/// From one layout to another by way of a third.
template <class First, class Second>
struct Through {
  First first;
  Second second;

  static Launch launch(KernelRequest& request, const First& first, const Second& second, const Layout& between) {
    request.scratch = bytes(request.input(0).type, between);
    return {run, std::make_shared<Through>(Through{first, second}), first.tasks, second.tasks};
  }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Through*>(self);
    if (task < own.first.tasks)
      own.first.run_task(args.in[0], args.scratch, task);
    else
      own.second.run_task(args.scratch, args.out[0], task - own.first.tasks);
  }
};

/// Between strided and contiguous rows.
struct CopiedRows {
  std::int64_t rows, row, from, to;  ///< in elements: the length of a row, and the distances between rows
  int tasks;

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const CopiedRows*>(self);
    for (std::int64_t r = task_begin(own.rows, own.tasks, task); r < task_begin(own.rows, own.tasks, task + 1); ++r) {
      float* const to = static_cast<float*>(args.out[0]) + r * own.to;
      std::copy_n(static_cast<const float*>(args.in[0]) + r * own.from, own.row, to);
      std::fill_n(to + own.row, own.to - own.row, 0.0f);
    }
  }
};

struct Copied {
  std::int64_t bytes;
  int tasks;

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Copied*>(self);
    const std::int64_t first = task_begin(own.bytes, own.tasks, task),
                       last = task_begin(own.bytes, own.tasks, task + 1);
    std::memcpy(static_cast<char*>(args.out[0]) + first, static_cast<const char*>(args.in[0]) + first, last - first);
  }
};

Launch prepare(KernelRequest& request) {
  const Type& type = request.input(0).type;
  const Layout from = request.input(0).layout, to = request.output(0).layout;
  if (from == to) {
    Copied copied{static_cast<std::int64_t>(bytes(type, from)), 1};
    copied.tasks = tasks_of(request, copied.bytes / 4, copied.bytes);
    return {Copied::run, std::make_shared<Copied>(copied), copied.tasks};
  }
  if (type.dtype == DType::f32 && type.shape.rank() >= 2 && type.shape.numel() > 0 && in_rows(request.input(0)) &&
      in_rows(request.output(0))) {
    const std::int64_t row = type.shape[-1], rows = type.shape.numel() / row;
    const auto copied = std::make_shared<CopiedRows>(CopiedRows{rows, row, row_distance(request.input(0)),
                                                                row_distance(request.output(0)),
                                                                tasks_of(request, type.shape.numel(), rows)});
    return {CopiedRows::run, copied, copied->tasks};
  }
  for (const Layout& layout : {from, to})
    if (layout != Layout{} && !of_vectors(type.shape, exact(layout)))
      return decline(request, "takes plain, blocked16, features16 and whole images16, not ", from, " to ", to);
  if (type.dtype != DType::f32) return decline(request, "takes f32 only, not ", type.dtype);
  if (type.shape.numel() == 0) return decline(request, "takes no empty tensors");
  if (from.storage || to.storage) {
    if (exact(from) == exact(to) && !(from.storage && to.storage)) {
      const auto converted = std::make_shared<Converted>(request, from, to);
      return {Converted::run, converted, converted->tasks};
    }
    if (to == Layout{})
      return Through<Converted, Transposed>::launch(request, {request, from, exact(from)},
                                                    {request, exact(from), false}, exact(from));
    if (from == Layout{})
      return Through<Transposed, Converted>::launch(request, {request, exact(to), true}, {request, exact(to), to},
                                                    exact(to));
    return decline(request, "does not go from ", from, " to ", to);
  }
  if (from != Layout{} && to != Layout{})
    return Through<Transposed, Transposed>::launch(request, {request, from, false}, {request, to, true}, {});
  const auto transposed = std::make_shared<Transposed>(request, from == Layout{} ? to : from, from == Layout{});
  return {Transposed::run, transposed, transposed->tasks};
}

}  // namespace

void cpu_reorder() { cpu::add_kernel({.op = "reorder", .name = "cpu", .prepare = prepare}); }

}  // namespace neurim
