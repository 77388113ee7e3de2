#include "neurim/backend/cpu/norm/norm.h"

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/layer_norm.h"

namespace neurim {

namespace {

using namespace cpu;

struct Prepared {
  NormShape shape;
  std::int64_t rows;
  int tasks, reduction_tasks;
  decltype(&portable::run_norm) run = NEURIM_DISPATCH(run_norm);
  decltype(&portable::run_norm_grad) run_grad = NEURIM_DISPATCH(run_norm_grad);

  std::int64_t weights() const { return shape.groups * shape.channels; }
};

/// Null, with request.why set, if the kernels do not take the request.
std::shared_ptr<Prepared> prepared_for(KernelRequest& request, const Type& x, const Type& weight) {
  for (const TensorDesc& value : request.values)
    if (value.type.dtype != DType::f32) {
      request.why = "takes f32 only";
      return nullptr;
    }
  const auto& op = static_cast<const NormOp&>(request.op());
  const NormRows n = op.rows(x.shape, weight.shape);
  const std::int64_t weights = weight.shape.numel();
  const int tasks = tasks_of(request, x.shape.numel(), n.rows);
  return std::make_shared<Prepared>(Prepared{{n.groups, n.channels, n.inner, op.centered(), static_cast<float>(op.eps)},
                                             n.rows,
                                             tasks,
                                             tasks_of(request, tasks * weights, weights)});
}

Launch prepare(KernelRequest& request) {
  const auto prepared = prepared_for(request, request.input(0).type, request.input(1).type);
  if (!prepared) return {};
  const auto launch = [](const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Prepared*>(self);
    const auto in = [&](std::size_t i) { return static_cast<const float*>(args.in[i]); };
    own.run(own.shape, in(0), in(1), args.in.size() > 2 ? in(2) : nullptr, static_cast<float*>(args.out[0]),
            task_begin(own.rows, own.tasks, task), task_begin(own.rows, own.tasks, task + 1));
  };
  return {launch, prepared, prepared->tasks};
}

/// Features in blocks of 16. A task is a run of rows of one image.
struct Features {
  NormPixels shape;
  std::int64_t rows, cuts;

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Features*>(self);
    const std::int64_t image = task / own.cuts, cut = task % own.cuts, first = own.rows * cut / own.cuts;
    NormPixels shape = own.shape;
    shape.pixels = own.rows * (cut + 1) / own.cuts - first;
    const std::int64_t at = (image * blocks_of(shape.channels) * own.rows + first) * 16;
    const auto in = [&](std::size_t i) { return static_cast<const float*>(args.in[i]); };
    NEURIM_DISPATCH(norm_pixels)
    (shape, in(0) + at, in(1), args.in.size() > 2 ? in(2) : nullptr, static_cast<float*>(args.out[0]) + at);
  }
};

/// Proposes blocked features if the input has them and each row is one pixel's features, else plain tensors.
bool propose_row_layouts(KernelRequest& request) {
  const TensorDesc& x = request.values[request.in[0]];
  const bool blocks = x.layout == kFeatures && request.input(1).type.shape.rank() == 1 && x.type.shape.numel() > 0;
  for (TensorDesc& value : request.values) value.layout = {};
  if (blocks)
    for (const int value : {request.in[0], request.out[0]}) request.values[value].layout = kFeatures;
  return true;
}

Launch prepare_rows(KernelRequest& request) {
  if (request.input(0).layout != kFeatures) return prepare(request);
  if (request.output(0).layout != kFeatures || request.input(1).type.shape.rank() != 1)
    return decline(request, "takes norms over the last axis, from blocks of features to such");
  const auto prepared = prepared_for(request, request.input(0).type, request.input(1).type);
  if (!prepared) return {};
  const Shape& x = request.input(0).type.shape;
  const std::int64_t rows = x.numel() / (x[0] * x[-1]), block = rows * 16;
  const std::int64_t cuts = std::min<std::int64_t>((prepared->tasks + x[0] - 1) / x[0], rows);
  const auto own = std::make_shared<Features>(
      Features{{0, x[-1], block, block, prepared->shape.centered, prepared->shape.eps}, rows, cuts});
  return {Features::run, own, static_cast<int>(x[0] * cuts)};
}

/// Each task sums dweight and dbias over its rows in its own workspace; a second phase adds these in order.
Launch prepare_grad(KernelRequest& request) {
  const auto prepared = prepared_for(request, request.input(1).type, request.input(2).type);
  if (!prepared) return {};
  request.scratch = 2 * prepared->tasks * prepared->weights() * sizeof(float);
  const auto launch = [](const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Prepared*>(self);
    const auto in = [&](std::size_t i) { return static_cast<const float*>(args.in[i]); };
    const auto out = [&](std::size_t i) { return static_cast<float*>(args.out[i]); };
    auto* shares = static_cast<float*>(args.scratch);
    const std::int64_t weights = own.weights();
    if (task < own.tasks) {
      float* piece = shares + 2 * task * weights;
      std::fill_n(piece, 2 * weights, 0.f);
      own.run_grad(own.shape, in(0), in(1), in(2), out(0), piece, piece + weights,
                   task_begin(own.rows, own.tasks, task), task_begin(own.rows, own.tasks, task + 1));
      return;
    }
    const int join = task - own.tasks;
    for (std::size_t which = 0; which + 1 < args.out.size(); ++which)
      for (std::int64_t c = task_begin(weights, own.reduction_tasks, join);
           c < task_begin(weights, own.reduction_tasks, join + 1); ++c) {
        double total = 0;
        for (int piece = 0; piece < own.tasks; ++piece)
          total += static_cast<double>(shares[(2 * piece + static_cast<int>(which)) * weights + c]);
        out(which + 1)[c] = static_cast<float>(total);
      }
  };
  return {launch, prepared, prepared->tasks, prepared->reduction_tasks};
}

}  // namespace

void cpu_norm() {
  for (const std::string_view op : {"layer_norm", "rms_norm"})
    cpu::add_kernel({.op = op, .name = "cpu", .prepare = prepare_rows, .propose_layouts = propose_row_layouts});
  cpu::add_kernel({.op = "group_norm", .name = "cpu", .prepare = prepare});
  cpu::add_kernel({.op = "norm_grad", .name = "cpu", .prepare = prepare_grad});
}

}  // namespace neurim
