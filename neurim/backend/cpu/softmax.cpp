#include "neurim/backend/cpu/softmax.h"

#include "neurim/backend/cpu/physical.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/softmax.h"

namespace neurim {

namespace {

using namespace cpu;

template <class Run>
struct Prepared {
  Run* run;
  std::int64_t size, rows;
  int parts;
};

template <class Run>
Launch prepare(Site& site, Run* run) {
  const Type& x = site.input(0).type;
  const int axis =
      normal_axis(static_cast<const SoftmaxOp&>(site.op()).axis, x.shape.rank(), site.op().name());
  if (x.dtype != DType::f32) return decline(site, "takes f32 only");
  if (axis != x.shape.rank() - 1) return decline(site, "takes the last axis only");
  const std::int64_t size = x.shape[axis], rows = size == 0 ? 0 : x.shape.numel() / size;
  auto prepared =
      std::make_shared<Prepared<Run>>(Prepared<Run>{run, size, rows, parts_of(site, x.shape.numel(), rows)});
  const auto launch = [](const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const Prepared<Run>*>(self);
    const std::int64_t first = part_begin(own.rows, own.parts, part),
                       last = part_begin(own.rows, own.parts, part + 1);
    const auto in = [&](std::size_t i) { return static_cast<const float*>(args.in[i]); };
    float* out = static_cast<float*>(args.out[0]);
    if constexpr (std::is_same_v<Run, SoftmaxRun>)
      own.run(in(0), out, own.size, first, last);
    else
      own.run(in(0), in(1), out, own.size, first, last);
  };
  return {launch, prepared, prepared->parts};
}

Launch softmax(Site& site) { return prepare<SoftmaxRun>(site, NEURIM_DISPATCH(run_softmax)); }
Launch log_softmax(Site& site) { return prepare<SoftmaxRun>(site, NEURIM_DISPATCH(run_log_softmax)); }
Launch softmax_grad(Site& site) { return prepare<SoftmaxGradRun>(site, NEURIM_DISPATCH(run_softmax_grad)); }
Launch log_softmax_grad(Site& site) {
  return prepare<SoftmaxGradRun>(site, NEURIM_DISPATCH(run_log_softmax_grad));
}

}  // namespace

void cpu_softmax() {
  const auto add_as = [](std::string_view op, Launch (*prepare_op)(Site&)) {
    add({.op = op, .name = "cpu", .device = 0, .rank = 20, .prepare = prepare_op});
  };
  add_as("softmax", softmax);
  add_as("log_softmax", log_softmax);
  add_as("softmax_grad", softmax_grad);
  add_as("log_softmax_grad", log_softmax_grad);
}

}  // namespace neurim
