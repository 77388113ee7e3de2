#include "neurim/backend/cpu/reduce/softmax.h"

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/softmax.h"

namespace neurim {

namespace {

using namespace cpu;

template <class Run>
struct Prepared {
  Run* run;
  std::int64_t size, rows;
  int tasks;
};

template <class Run>
Launch prepare(KernelRequest& request, Run* run) {
  const Type& x = request.input(0).type;
  const int axis = normal_axis(static_cast<const SoftmaxOp&>(request.op()).axis, x.shape.rank(), request.op().name());
  if (x.dtype != DType::f32) return decline(request, "takes f32 only");
  if (axis != x.shape.rank() - 1) return decline(request, "takes the last axis only");
  const std::int64_t size = x.shape[axis], rows = size == 0 ? Dim(0) : x.shape.numel() / size;
  auto prepared = std::make_shared<Prepared<Run>>(
      Prepared<Run>{run, size, rows, tasks_of(request, x.shape.numel(), rows)});
  const auto launch = [](const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Prepared<Run>*>(self);
    const std::int64_t first = task_begin(own.rows, own.tasks, task), last = task_begin(own.rows, own.tasks, task + 1);
    const auto in = [&](std::size_t i) { return static_cast<const float*>(args.in[i]); };
    float* out = static_cast<float*>(args.out[0]);
    if constexpr (std::is_same_v<Run, SoftmaxRun>)
      own.run(in(0), out, own.size, first, last);
    else
      own.run(in(0), in(1), out, own.size, first, last);
  };
  return {launch, prepared, prepared->tasks};
}

Launch softmax(KernelRequest& request) { return prepare<SoftmaxRun>(request, NEURIM_DISPATCH(run_softmax)); }
Launch log_softmax(KernelRequest& request) { return prepare<SoftmaxRun>(request, NEURIM_DISPATCH(run_log_softmax)); }
Launch softmax_grad(KernelRequest& request) {
  return prepare<SoftmaxGradRun>(request, NEURIM_DISPATCH(run_softmax_grad));
}
Launch log_softmax_grad(KernelRequest& request) {
  return prepare<SoftmaxGradRun>(request, NEURIM_DISPATCH(run_log_softmax_grad));
}

}  // namespace

void cpu_softmax() {
  const auto add_as = [](std::string_view op, Launch (*prepare_op)(KernelRequest&)) {
    cpu::add_kernel({.op = op, .name = "cpu", .prepare = prepare_op});
  };
  add_as("softmax", softmax);
  add_as("log_softmax", log_softmax);
  add_as("softmax_grad", softmax_grad);
  add_as("log_softmax_grad", log_softmax_grad);
}

}  // namespace neurim
