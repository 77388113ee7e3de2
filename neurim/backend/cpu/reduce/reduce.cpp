#include "neurim/backend/cpu/reduce/reduce.h"

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/argmax.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

using namespace cpu;

using Run = decltype(&portable::run_sum);

struct Prepared {
  Reduction reduction;
  Run run;
  int tasks;
};

/// Proposes the layout that x has, if its padding cannot change a result: the channels are kept, or summed.
bool propose_layouts(KernelRequest& request) {
  TensorDesc& x = request.values[request.in[0]];
  const int rank = x.type.shape.rank();
  const auto channels = static_cast<std::size_t>(x.layout == kFeatures ? rank - 1 : 1);
  const bool channels_go = rank >= 2 && static_cast<const ReduceOp&>(request.op()).reduced(rank)[channels];
  const bool sums = request.op().name() == "sum" || request.op().name() == "mean";
  x.layout = exact(x.layout);
  if (!loopable(x.type.shape, x.layout) || (channels_go && !sums)) x.layout = {};
  if (x.layout == kBlocked) x.layout = narrowed(x, x.layout);
  return true;
}

/// The loops over memory. Neighbouring loops of one kind with matching strides are merged.
Reduction loops_of(const ReduceOp& op, const Shape& shape, const Layout& layout) {
  struct Loop {
    std::int64_t size, stride, out;
    bool gone, channel_block;
  };
  const auto gone = op.reduced(shape.rank());
  const auto out = strides(op.kept(shape));
  std::vector<PhysicalAxis> axes = physical_axes(shape, layout);
  std::vector<Loop> loops;  // innermost first
  std::int64_t stride = 1;
  std::int64_t channels = 0;
  const bool blocked = channel_blocks({DType::f32, shape}, layout, channels);
  for (std::size_t i = axes.size(); i-- > 0;) {
    const PhysicalAxis& axis = axes[i];
    const bool goes = gone[axis.axis];
    Loop loop{axis.size, stride, goes ? 0 : out[axis.axis] * axis.unit, goes, blocked && i == 1 && !goes};
    stride *= axis.size;
    Loop* last = loops.empty() ? nullptr : &loops.back();
    const bool apart = loop.channel_block || (last && (last->channel_block || (blocked && loops.size() == 1 && !goes)));
    if (last && !apart && last->gone == goes && loop.stride == last->stride * last->size &&
        loop.out == last->out * last->size)
      last->size *= loop.size;
    else if (loop.size != 1 || loop.channel_block || loops.empty())
      loops.push_back(loop);
  }
  Reduction r;
  if (!loops.empty()) {
    r.inner = loops[0].size;
    r.inner_out = loops[0].out;
    r.inner_kept = !loops[0].gone;
  }
  for (std::size_t i = loops.size(); i-- > 1;) {
    const Loop& loop = loops[i];
    if (loop.gone) {
      r.gone_size[r.gone] = loop.size;
      r.gone_stride[r.gone++] = loop.stride;
    } else {
      if (loop.channel_block) r.channel_loop = r.kept;
      r.kept_size[r.kept] = loop.size;
      r.kept_stride[r.kept] = loop.stride;
      r.kept_out[r.kept++] = loop.out;
    }
  }
  if (r.channel_loop >= 0) r.channels = channels;
  r.pieces = r.inner_kept ? (r.inner + Reduction::kLanes - 1) / Reduction::kLanes : 1;
  for (int i = 0; i < r.kept; ++i) r.pieces *= r.kept_size[i];
  return r;
}

template <bool divides>
Launch prepare(KernelRequest& request, Run run) {
  const TensorDesc &x = request.input(0), &y = request.output(0);
  if (x.type.dtype != DType::f32) return decline(request, "takes f32 only");
  if (x.type.shape.numel() == 0) return decline(request, "takes no empty tensors");
  const Layout layout = exact(x.layout);
  if (!loopable(x.type.shape, layout)) return decline(request, "does not take the layout ", x.layout);
  auto prepared = std::make_shared<Prepared>();
  prepared->reduction = loops_of(static_cast<const ReduceOp&>(request.op()), x.type.shape, layout);
  prepared->reduction.rounded = x.layout.storage;
  if (divides)
    prepared->reduction.divisor = static_cast<double>(x.type.shape.numel()) / static_cast<double>(y.type.shape.numel());
  prepared->run = run;
  prepared->tasks = tasks_of(request, x.type.shape.numel(), prepared->reduction.pieces);
  const auto launch = [](const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Prepared*>(self);
    own.run(own.reduction, static_cast<const float*>(args.in[0]), static_cast<float*>(args.out[0]),
            task_begin(own.reduction.pieces, own.tasks, task), task_begin(own.reduction.pieces, own.tasks, task + 1));
  };
  return {launch, prepared, prepared->tasks};
}

Launch prepare_sum(KernelRequest& request) { return prepare<false>(request, NEURIM_DISPATCH(run_sum)); }
Launch prepare_mean(KernelRequest& request) { return prepare<true>(request, NEURIM_DISPATCH(run_sum)); }
Launch prepare_max(KernelRequest& request) { return prepare<false>(request, NEURIM_DISPATCH(run_max)); }
Launch prepare_min(KernelRequest& request) { return prepare<false>(request, NEURIM_DISPATCH(run_min)); }

struct Rows {
  decltype(&portable::run_argmax) run;
  std::int64_t size, count;
  int tasks;
};

Launch prepare_argmax(KernelRequest& request) {
  const Type& x = request.input(0).type;
  const int axis = normal_axis(static_cast<const Argmax&>(request.op()).axis, x.shape.rank(), "argmax");
  if (x.dtype != DType::f32) return decline(request, "takes f32 only");
  if (axis != x.shape.rank() - 1) return decline(request, "takes the last axis only");
  const std::int64_t count = request.output(0).type.shape.numel();
  auto rows = std::make_shared<Rows>(
      Rows{NEURIM_DISPATCH(run_argmax), x.shape[axis], count, tasks_of(request, x.shape.numel(), count)});
  const auto launch = [](const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Rows*>(self);
    own.run(static_cast<const float*>(args.in[0]), static_cast<std::int64_t*>(args.out[0]), own.size,
            task_begin(own.count, own.tasks, task), task_begin(own.count, own.tasks, task + 1));
  };
  return {launch, rows, rows->tasks};
}

}  // namespace

void cpu_reduce() {
  const Kernel base{.name = "cpu", .propose_layouts = propose_layouts};
  const auto add_as = [&](std::string_view op, Launch (*prepare_op)(KernelRequest&)) {
    Kernel kernel = base;
    kernel.op = op;
    kernel.prepare = prepare_op;
    cpu::add_kernel(kernel);
  };
  add_as("sum", prepare_sum);
  add_as("mean", prepare_mean);
  add_as("reduce_max", prepare_max);
  add_as("reduce_min", prepare_min);
  cpu::add_kernel({.op = "argmax", .name = "cpu", .prepare = prepare_argmax});
}

}  // namespace neurim
