// The gradient of gather: adds slices to the rows they were taken from.
#include <algorithm>
#include <atomic>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/gather.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kColumns = 64;

/// dx(outer,size,inner) from dy(outer,count,inner). A work item is one of `outer` and up to kColumns columns of
/// `inner`, which no other item writes; it adds in the order of the indices.
struct Scattered {
  std::int64_t outer, size, count, inner;
  bool wide;  ///< i64 indices
  int tasks = 1;

  std::int64_t blocks() const { return (inner + kColumns - 1) / kColumns; }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Scattered*>(self);
    const std::int64_t units = own.outer * own.blocks();
    bool outside = false;
    for (std::int64_t unit = task_begin(units, own.tasks, task); unit < task_begin(units, own.tasks, task + 1); ++unit)
      outside |= own.add(args, unit / own.blocks(), unit % own.blocks() * kColumns);
    if (outside) std::atomic_ref(*args.status).fetch_or(kStatusIndexOutOfRange, std::memory_order_relaxed);
  }

  /// Returns whether an index was out of range.
  bool add(const Args& args, std::int64_t slab, std::int64_t column) const {
    const std::int64_t width = std::min(kColumns, inner - column);
    const float* dy = static_cast<const float*>(args.in[0]) + slab * count * inner + column;
    float* dx = static_cast<float*>(args.out[0]) + slab * size * inner + column;
    for (std::int64_t row = 0; row < size; ++row) std::fill_n(dx + row * inner, width, 0.f);
    bool outside = false;
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t row = wide ? static_cast<const std::int64_t*>(args.in[1])[i]
                              : static_cast<const std::int32_t*>(args.in[1])[i];
      if (row < 0) row += size;
      if (row < 0 || row >= size) {
        outside = true;
        continue;
      }
      if (inner == 1)
        dx[row] += dy[i];
      else
        for (std::int64_t k = 0; k < width; ++k) dx[row * inner + k] += dy[i * inner + k];
    }
    return outside;
  }
};

Launch prepare(KernelRequest& request) {
  const auto& op = static_cast<const GatherGrad&>(request.op());
  if (request.input(0).type.dtype != DType::f32) return decline(request, "takes f32 only");
  const Type& indices = request.input(1).type;
  const int axis = normal_axis(op.axis, op.shape.rank(), "gather_grad");
  Scattered own{1, op.shape[axis], indices.shape.numel(), 1, indices.dtype == DType::i64};
  for (int a = 0; a < op.shape.rank(); ++a)
    if (a != axis) (a < axis ? own.outer : own.inner) *= op.shape[a];
  own.tasks = tasks_of(request, std::max(op.shape.numel(), request.input(0).type.shape.numel()),
                       own.outer * own.blocks());
  return {Scattered::run, std::make_shared<Scattered>(own), own.tasks};
}

}  // namespace

void cpu_gather_grad() { cpu::add_kernel({.op = "gather_grad", .name = "cpu", .prepare = prepare}); }

}  // namespace neurim
