#include "neurim/backend/cpu/reduce/pool2d.h"

#include <algorithm>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/max_pool.h"

namespace neurim {

namespace {

using namespace cpu;

/// Whether max_pool2d's gradient is followed by that of the ReLU that made x.
bool with_relu_grad(const KernelRequest& request) {
  if (request.steps.size() != 2 || request.in.size() != 2 || request.out.size() != 1) return false;
  const Step &pool = request.steps[0], &relu = request.steps[1];
  return pool.op->name() == "max_pool2d_grad" && relu.op->name() == "relu_grad" && relu.in[0] == pool.in[0] &&
         relu.in[1] == pool.out[0] && request.out[0] == relu.out[0];
}

/// Whether it is a maximum of 8-bit values.
bool of_bytes(const KernelRequest& request) {
  return request.op().name() == "max_pool2d" && is_byte(request.input(0).type.dtype);
}

/// Whether the request is one op of f32, with or without the ReLU gradient, or of 8-bit values. If not, sets
/// request.why.
bool takes(KernelRequest& request) {
  if (request.steps.size() > 1 && !with_relu_grad(request)) {
    request.why = "takes nothing after it but relu's gradient by the same x";
    return false;
  }
  for (const TensorDesc& value : request.values) {
    if (value.type.dtype != DType::f32 && !of_bytes(request))
      request.why = text("takes f32 only, not ", value.type.dtype);
    if (value.type.shape.numel() == 0) request.why = "takes no empty tensors";
    if (!request.why.empty()) return false;
  }
  return true;
}

/// Whether a pixel is a vector of 16 channels or of 16 images.
bool of_vectors(const TensorDesc& value) {
  return exact(value.layout) == kBlocked || (value.layout == kImages && loopable(value.type.shape, kImages));
}

/// Proposes one layout for output and inputs: vectors if an input has them, else plain; 16-bit storage if all may have
/// it.
bool propose_pool_layouts(KernelRequest& request) {
  if (!takes(request)) return false;
  const auto vectors = std::find_if(request.values.begin(), request.values.end(), of_vectors);
  Layout layout = of_bytes(request) ? kBlocked : vectors == request.values.end() ? Layout{} : exact(vectors->layout);
  if (layout == kBlocked) layout = narrowed(request, layout);
  for (TensorDesc& value : request.values) value.layout = layout;
  return true;
}

/// "" or the reason why these layouts are not taken: there has to be one for all, plain or of vectors.
std::string layouts_against(const KernelRequest& request) {
  const Layout first = request.input(0).layout;
  for (const TensorDesc& value : request.values)
    if (value.layout != first || (first != Layout{} && !of_vectors(value)))
      return text("does not take ", value.type, ' ', value.layout, " beside ", first);
  return {};
}

std::int64_t planes_of(const Shape& x, const Layout& layout) {
  if (layout == kImages) return x[0] / 16 * x[1];
  return x[0] * (exact(layout) == kBlocked ? (x[1] + 15) / 16 : x[1]);
}

/// The windows along an axis, with PyTorch's divisors.
std::vector<PoolWindow> windows(const Pool2dOptions& o, std::size_t axis, std::int64_t size, std::int64_t count) {
  std::vector<PoolWindow> all;
  for (std::int64_t w = 0; w < count; ++w) {
    PoolWindow window{0, 0, 0};
    std::int64_t divisor = 0;
    for (std::int64_t i = 0; i < o.kernel[axis]; ++i) {
      const std::int64_t at = w * o.stride[axis] - o.pad[axis] + i * o.dilation[axis];
      const bool inside = at >= 0 && at < size;
      if (inside && window.count++ == 0) window.first = at;
      if (inside || (o.count_include_pad && at < size + o.pad[axis + 2])) ++divisor;
    }
    window.share = 1 / static_cast<float>(divisor);
    all.push_back(window);
  }
  return all;
}

std::vector<PoolColumn> kernel_columns(const Pool2dOptions& o, std::int64_t width, std::int64_t out_width) {
  std::vector<PoolColumn> all;
  for (std::int64_t j = 0; j < o.kernel[1]; ++j) {
    const std::int64_t offset = j * o.dilation[1] - o.pad[1], stride = o.stride[1];
    const std::int64_t first = offset < 0 ? (-offset + stride - 1) / stride : 0;
    const std::int64_t last = offset < width ? (width - 1 - offset) / stride + 1 : 0;
    all.push_back({std::min(first, out_width), std::min(last, out_width), offset});
  }
  return all;
}

struct Pool {
  PoolShape shape;
  std::vector<PoolWindow> rows, columns;
  std::vector<PoolColumn> kernel_columns;
  PoolFunction function;
  std::int64_t pieces, scratch_floats;
  int tasks;
  bool negative;  ///< 8-bit values are i8

  static void run_bytes(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Pool*>(self);
    NEURIM_DISPATCH(max_of_bytes)
    (own.shape, own.negative, static_cast<const std::uint8_t*>(args.in[0]), static_cast<std::uint8_t*>(args.out[0]),
     task_begin(own.pieces, own.tasks, task), task_begin(own.pieces, own.tasks, task + 1),
     static_cast<std::uint8_t*>(args.workspace));
  }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Pool*>(self);
    const float* in[2] = {};
    for (std::size_t i = 0; i < args.in.size(); ++i) in[i] = static_cast<const float*>(args.in[i]);
    own.function(own.shape, in, static_cast<float*>(args.out[0]), task_begin(own.pieces, own.tasks, task),
                 task_begin(own.pieces, own.tasks, task + 1), static_cast<float*>(args.workspace));
  }
};

template <class O, PoolKind kKind>
Launch pool_prepare(KernelRequest& request) {
  if (!takes(request)) return {};
  if (const std::string why = layouts_against(request); !why.empty()) return decline(request, why);
  const Pool2dOptions o = resolved(static_cast<const O&>(request.op()).options);
  constexpr bool kGradient = kKind == PoolKind::max_grad || kKind == PoolKind::mean_grad;
  const PoolKind kind = with_relu_grad(request) ? PoolKind::max_relu_grad : kKind;
  const Shape& x = (kGradient ? request.output(0) : request.input(0)).type.shape;
  const Shape& y = (kKind == PoolKind::max_grad ? request.input(1)
                    : kGradient                 ? request.input(0)
                                                : request.output(0))
                       .type.shape;
  const Layout layout = request.input(0).layout;

  auto pool = std::make_shared<Pool>();
  pool->rows = windows(o, 0, x[2], y[2]);
  pool->columns = windows(o, 1, x[3], y[3]);
  for (const auto* axis : {&pool->rows, &pool->columns})
    if (std::any_of(axis->begin(), axis->end(), [](const PoolWindow& window) { return window.count == 0; }))
      return decline(request, "takes no window that lies outside the input");
  pool->kernel_columns = kernel_columns(o, x[3], y[3]);
  pool->shape = {.planes = planes_of(x, layout),
                 .height = x[2],
                 .width = x[3],
                 .out_height = y[2],
                 .out_width = y[3],
                 .kernel = {static_cast<int>(o.kernel[0]), static_cast<int>(o.kernel[1])},
                 .stride = o.stride[1],
                 .row_step = o.dilation[0],
                 .column_step = o.dilation[1],
                 .rows = pool->rows.data(),
                 .columns = pool->columns.data(),
                 .kernel_columns = pool->kernel_columns.data()};
  pool->pieces = pool->shape.planes * (kGradient ? Dim(1) : y[2]);
  pool->tasks = tasks_of(request, x.numel(), pool->pieces);
  const bool bytes = of_bytes(request);
  if (bytes && layout != kBlocked) return decline(request, "takes bytes in blocks of 16 channels");
  pool->negative = request.input(0).type.dtype == DType::i8;
  pool->scratch_floats = bytes ? std::int64_t{x[3] * 4} : layout == Layout{} ? pool_scratch(pool->shape) : 0;
  pool->scratch_floats = (pool->scratch_floats + 15) / 16 * 16;
  const std::size_t scratch = pool->scratch_floats * sizeof(float);
  if (bytes) return {Pool::run_bytes, pool, pool->tasks, 0, request.chunks, scratch};
  pool->function = NEURIM_DISPATCH(pool_function)(kind, layout != Layout{}, layout.storage, pool->shape);
  return {Pool::run, pool, pool->tasks, 0, request.chunks, scratch};
}

// ---- means of whole planes, and planes of one value
// ---------------------------------------------------------------

struct Planes {
  PlaneShape shape;
  std::int64_t planes;
  decltype(&portable::plane_means) means;
  decltype(&portable::fill_planes) fill;
  int tasks;

  /// Prepares either direction; `x` is the side that has planes.
  static Launch prepare(KernelRequest& request, const TensorDesc& x, bool filling) {
    Planes own{{x.type.shape[2] * x.type.shape[3], x.type.shape[1], exact(x.layout) == kBlocked, x.layout.storage},
               planes_of(x.type.shape, x.layout),
               filling ? nullptr : NEURIM_DISPATCH(plane_means),
               filling ? NEURIM_DISPATCH(fill_planes) : nullptr,
               0};
    own.tasks = tasks_of(request, x.type.shape.numel(), own.planes);
    return {run, std::make_shared<Planes>(own), own.tasks};
  }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Planes*>(self);
    (own.means ? own.means : own.fill)(own.shape, static_cast<const float*>(args.in[0]),
                                       static_cast<float*>(args.out[0]), task_begin(own.planes, own.tasks, task),
                                       task_begin(own.planes, own.tasks, task + 1));
  }
};

/// The means are plain: features for a linear layer, without a copy.
bool propose_global_layouts(KernelRequest& request) {
  if (!takes(request)) return false;
  TensorDesc& x = request.values[request.in[0]];
  x.layout = exact(x.layout) == kBlocked ? narrowed(x, kBlocked) : Layout{};
  request.values[request.out[0]].layout = {};
  return true;
}

Launch global_prepare(KernelRequest& request) {
  if (!takes(request)) return {};
  const TensorDesc& x = request.input(0);
  if ((x.layout != Layout{} && exact(x.layout) != kBlocked) || request.output(0).layout != Layout{})
    return decline(request, "takes plain or blocked16 to plain, not ", x.layout, " to ", request.output(0).layout);
  return Planes::prepare(request, x, false);
}

/// The gradient of global_avg_pool2d: (N,C,1,1) to (N,C,H,W).
bool fill_takes(KernelRequest& request) {
  if (!takes(request)) return false;
  const Shape &values = request.input(0).type.shape, &x = request.output(0).type.shape;
  if (x.rank() == 4 && values == Shape{x[0], x[1], 1, 1}) return true;
  request.why = "takes (N,C,1,1) to (N,C,H,W) alone";
  return false;
}

bool propose_fill_layouts(KernelRequest& request) {
  if (!fill_takes(request)) return false;
  TensorDesc& x = request.values[request.out[0]];
  request.values[request.in[0]].layout = {};
  x.layout = x.type.shape[1] >= 16 ? narrowed(x, kBlocked) : Layout{};  // as the convolutions that read it
  return true;
}

Launch fill_prepare(KernelRequest& request) {
  if (!fill_takes(request)) return {};
  const TensorDesc& x = request.output(0);
  if ((x.layout != Layout{} && exact(x.layout) != kBlocked) || request.input(0).layout != Layout{})
    return decline(request, "takes plain to plain or blocked16, not ", request.input(0).layout, " to ", x.layout);
  return Planes::prepare(request, x, true);
}

}  // namespace

void cpu_pool2d() {
  const auto add_op = [](std::string_view op, auto prepare, auto propose_layouts) {
    cpu::add_kernel({.op = op, .name = "cpu", .prepare = prepare, .propose_layouts = propose_layouts, .fuses = true});
  };
  add_op("max_pool2d", pool_prepare<MaxPool2d, PoolKind::max>, propose_pool_layouts);
  add_op("max_pool2d_grad", pool_prepare<MaxPool2dGrad, PoolKind::max_grad>, propose_pool_layouts);
  add_op("avg_pool2d", pool_prepare<AvgPool2d, PoolKind::mean>, propose_pool_layouts);
  add_op("avg_pool2d_grad", pool_prepare<AvgPool2dGrad, PoolKind::mean_grad>, propose_pool_layouts);
  add_op("global_avg_pool2d", global_prepare, propose_global_layouts);
  add_op("broadcast_to", fill_prepare, propose_fill_layouts);
}

}  // namespace neurim
