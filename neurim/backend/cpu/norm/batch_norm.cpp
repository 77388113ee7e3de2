#include "neurim/backend/cpu/norm/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "neurim/backend/cpu/common/add_relu.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/pointwise/pointwise.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/batch_norm.h"

namespace neurim {

namespace {

using namespace cpu;

TensorDesc& desc(const KernelRequest& request, int value) { return request.values[value]; }

float* pointer(std::span<void* const> arguments, int at) {
  return at < 0 ? nullptr : static_cast<float*>(arguments[at]);
}

template <class... Tasks>
bool no(KernelRequest& request, const Tasks&... why) {
  request.why = text(why...);
  return false;
}

/// The steps after the normalization that are fused with it. Indices of request values, -1: none.
struct Joined {
  int residual = -1, sum = -1, last = -1;
  Relu relu;
  std::size_t steps = 1;  ///< steps of the request up to here; the rest are pointwise steps over the output
};

/// Reads a normalization, optionally followed by an addition, a ReLU or ReLU6, or both.
bool takes(KernelRequest& request, Joined& joined) {
  for (const TensorDesc& value : request.values)
    if (value.type.dtype != DType::f32) return no(request, "takes f32 only, not ", value.type.dtype);
  joined.last = request.steps[0].out[0];
  if (desc(request, joined.last).type.shape.numel() == 0) return no(request, "takes no empty tensors");
  const AddRelu read = read_add_relu(request, 1, request.steps.size(), joined.last);
  joined.residual = read.add, joined.sum = read.sum, joined.last = read.result;
  joined.relu = read.relu, joined.steps = read.end;
  return true;
}

/// Reads the pointwise steps after those, if any. If not possible, sets request.why.
bool read_steps(KernelRequest& request, const Joined& joined, std::optional<PointwiseSteps>& steps) {
  return joined.steps == request.steps.size() || steps.emplace().read(request, joined.steps, request.steps.size());
}

/// Whether activations may have 16-bit storage: in training, without further pointwise steps.
bool may_store_as(const KernelRequest& request, const Joined& joined) {
  return request.op().name() != "batch_norm" && joined.steps == request.steps.size();
}

/// Proposes the blocked layout for values of the activation's shape if an input has it, and plain for all others.
template <int kActivation>
bool propose_layouts(KernelRequest& request) {
  Joined joined;
  if (!takes(request, joined)) return false;
  const Shape shape = desc(request, request.steps[0].in[kActivation]).type.shape;
  Layout layout;
  for (const int in : request.in)
    if (desc(request, in).type.shape == shape && exact(desc(request, in).layout) == kBlocked) layout = kBlocked;
  const bool rounds = layout == kBlocked && may_store_as(request, joined);
  for (TensorDesc& value : request.values)
    value.layout = value.type.shape != shape ? Layout{} : rounds ? narrowed(value, layout) : layout;
  std::optional<PointwiseSteps> steps;
  return read_steps(request, joined, steps);
}

/// "" or the reason why these layouts are not taken.
std::string layouts_against(const KernelRequest& request, const Joined& joined, const TensorDesc& x) {
  const bool may = may_store_as(request, joined);
  const auto layout_of = [&](const TensorDesc& value) {
    return may && exact(value.layout) == kBlocked ? kBlocked : value.layout;
  };
  const Layout layout = layout_of(x);
  if (layout != Layout{} && layout != kBlocked) return text("does not take the layout ", x.layout);
  for (const TensorDesc& value : request.values)
    if (layout_of(value) != (value.type.shape == x.type.shape ? layout : Layout{}))
      return text("does not take ", value.type, ' ', value.layout, " beside ", x.layout);
  return {};
}

BatchNormShape shape_of(const TensorDesc& x) {
  const std::int64_t images = x.type.shape[0], channels = x.type.shape[1], blocks = (channels + 15) / 16;
  const std::int64_t inner = x.type.shape.numel() / (images * channels);
  BatchNormShape shape{.images = images, .channels = channels};
  const bool blocked = exact(x.layout) == kBlocked;
  if (blocked || inner == 1) {
    shape.lanes = true;
    shape.groups = blocks;
    shape.run = shape.group_stride = 16 * inner;
    shape.last_run = blocked ? shape.run : channels - 16 * (blocks - 1);
    shape.image_stride = blocked ? blocks * shape.run : channels;
  } else {
    shape.lanes = false;
    shape.groups = channels;
    shape.run = shape.last_run = shape.group_stride = inner;
    shape.image_stride = channels * inner;
  }
  // for smaller slices, combining the statistics would cost more than reading
  constexpr std::int64_t kSliceFloats = 8192;
  const std::int64_t most = std::min<std::int64_t>(images, kMostSlices);
  shape.slices = static_cast<int>(std::clamp<std::int64_t>(images * shape.run / kSliceFloats, 1, most));
  return shape;
}

/// The number of elements of a channel in so many images.
double count(const BatchNormShape& shape, std::int64_t images) {
  return static_cast<double>(images * (shape.lanes ? shape.run / 16 : shape.run));
}

/// Calls visit(lane, channel) for the lanes of a group. In a single-channel group all 16 lanes are that channel.
template <class Visit>
void each_lane(const BatchNormShape& shape, std::int64_t group, Visit visit) {
  const std::int64_t lanes = shape.lanes ? std::min<std::int64_t>(16, shape.channels - 16 * group) : 16;
  for (int lane = 0; lane < static_cast<int>(lanes); ++lane) visit(lane, shape.lanes ? 16 * group + lane : group);
}

/// The training kernel: what one call does with a group.
struct Train {
  int x, weight, bias, residual, normal, sum, last, mean, var;  // indices of arguments
  Relu relu;
  double eps;
  std::optional<PointwiseSteps> steps;  // over the last output
  int end;                              // the output that they write
  BatchNormRounded rounded;
  decltype(&portable::batch_norm_moments) moments = NEURIM_DISPATCH(batch_norm_moments);
  decltype(&portable::batch_norm_write) write_slice = NEURIM_DISPATCH(batch_norm_write);

  void measure(const BatchNormShape& shape, const Args& args, std::int64_t group, int slice,
               BatchNormPartial& partial) const {
    moments(shape, rounded.x, group, slice, pointer(args.in, x), partial);
  }

  /// Combines the slices' statistics in order (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for
  /// computing sample variances", 1979).
  void join(const BatchNormShape& shape, const Args& args, std::int64_t group, const BatchNormPartial* partials,
            bool publish, BatchNormLanes& lanes) const {
    each_lane(shape, group, [&](int lane, std::int64_t channel) {
      double n = 0, center = 0, squares = 0;
      for (int slice = 0; slice < shape.slices; ++slice) {
        const double added = count(shape, shape.first_image(slice + 1) - shape.first_image(slice));
        const double apart = partials[slice].first[lane] - center;
        squares += partials[slice].second[lane] + apart * apart * n * added / (n + added);
        center += apart * added / (n + added);
        n += added;
      }
      const double variance = squares / n;
      set(lanes, lane, center, variance, pointer(args.in, weight)[channel], pointer(args.in, bias)[channel]);
      if (!publish) return;
      if (mean >= 0) pointer(args.out, mean)[channel] = static_cast<float>(center);
      if (var >= 0) pointer(args.out, var)[channel] = static_cast<float>(variance);
    });
  }

  void set(BatchNormLanes& lanes, int lane, double center, double variance, float scale, float shift) const {
    lanes.mean[lane] = static_cast<float>(center);
    lanes.scale[lane] = static_cast<float>(scale / std::sqrt(variance + eps));
    lanes.bias[lane] = shift;
  }

  void write(const BatchNormShape& shape, const Args& args, std::int64_t group, int slice,
             const BatchNormLanes& lanes) const {
    if (normal < 0 && sum < 0 && last < 0) return;  // only the statistics are wanted
    write_slice(shape, group, slice, lanes, pointer(args.in, x),
                {pointer(args.in, residual), relu, pointer(args.out, normal), pointer(args.out, sum),
                 pointer(args.out, last), rounded});
    if (!steps) return;
    for (std::int64_t image = shape.first_image(slice); image < shape.first_image(slice + 1); ++image) {
      const std::int64_t begin = shape.at(group, image);
      steps->run(args, pointer(args.out, last), pointer(args.out, end), begin, begin + shape.run_of(group));
    }
  }
};

struct Grad {
  int dy, x, weight, mean, var;  // indices of arguments
  double eps;
  BatchNormGradRounded rounded;
  decltype(&portable::batch_norm_grad_sums) sums = NEURIM_DISPATCH(batch_norm_grad_sums);
  decltype(&portable::batch_norm_grad_write) write_slice = NEURIM_DISPATCH(batch_norm_grad_write);

  void measure(const BatchNormShape& shape, const Args& args, std::int64_t group, int slice,
               BatchNormPartial& partial) const {
    BatchNormLanes lanes{};
    each_lane(shape, group,
              [&](int lane, std::int64_t channel) { lanes.mean[lane] = pointer(args.in, mean)[channel]; });
    sums(shape, rounded, group, slice, lanes.mean, pointer(args.in, dy), pointer(args.in, x), partial);
  }

  void join(const BatchNormShape& shape, const Args& args, std::int64_t group, const BatchNormPartial* partials,
            bool publish, BatchNormLanes& lanes) const {
    const double n = count(shape, shape.images);
    each_lane(shape, group, [&](int lane, std::int64_t channel) {
      double first = 0, second = 0;
      for (int slice = 0; slice < shape.slices; ++slice) {
        first += partials[slice].first[lane];
        second += partials[slice].second[lane];
      }
      const double inverse = 1 / std::sqrt(pointer(args.in, var)[channel] + eps);
      const double scale = pointer(args.in, weight)[channel] * inverse;
      lanes.mean[lane] = pointer(args.in, mean)[channel];
      lanes.scale[lane] = static_cast<float>(scale);
      lanes.bias[lane] = static_cast<float>(-scale * first / n);
      lanes.slope[lane] = static_cast<float>(-scale * inverse * inverse * second / n);
      if (!publish) return;
      pointer(args.out, 1)[channel] = static_cast<float>(second * inverse);
      pointer(args.out, 2)[channel] = static_cast<float>(first);
    });
  }

  void write(const BatchNormShape& shape, const Args& args, std::int64_t group, int slice,
             const BatchNormLanes& lanes) const {
    write_slice(shape, rounded, group, slice, lanes, pointer(args.in, dy), pointer(args.in, x), pointer(args.out, 0));
  }
};

/// Prepares a kernel that computes statistics and then writes. With enough groups, a task takes whole groups, which are
/// still in its cache for the second pass. Otherwise tasks take slices, in two phases. Both give the same bits.
template <class Kernel>
struct TwoPass {
  BatchNormShape shape;
  Kernel kernel;
  int tasks = 1, reduction_tasks = 0;

  Launch launch(KernelRequest& request) && {
    const std::int64_t elements = shape.images * shape.image_stride, pieces = shape.groups * shape.slices;
    tasks = tasks_of(request, elements, shape.groups);
    const bool uneven = shape.groups < 4 * request.chunks && shape.groups % request.chunks != 0;
    if (uneven && tasks_of(request, elements, pieces) > tasks) {
      tasks = reduction_tasks = tasks_of(request, elements, pieces);
      request.scratch = pieces * sizeof(BatchNormPartial);
    }
    auto self = std::make_shared<TwoPass>(std::move(*this));
    return {run, self, self->tasks, self->reduction_tasks};
  }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const TwoPass*>(self);
    if (own.reduction_tasks == 0)
      own.run_groups(args, task);
    else if (task < own.tasks)
      own.measure_slices(args, task);
    else
      own.write_slices(args, task - own.tasks);
  }

  void run_groups(const Args& args, int task) const {
    BatchNormPartial partials[kMostSlices];
    for (std::int64_t group = task_begin(shape.groups, tasks, task); group < task_begin(shape.groups, tasks, task + 1);
         ++group) {
      BatchNormLanes lanes{};
      for (int slice = 0; slice < shape.slices; ++slice) kernel.measure(shape, args, group, slice, partials[slice]);
      kernel.join(shape, args, group, partials, true, lanes);
      // Backwards, since the slices read last are in the cache.
      for (int slice = shape.slices - 1; slice >= 0; --slice) kernel.write(shape, args, group, slice, lanes);
    }
  }

  /// Calls visit(group, slice) for the slices of a task.
  template <class Visit>
  void each_piece(int task, Visit visit) const {
    const std::int64_t pieces = shape.groups * shape.slices;
    for (std::int64_t piece = task_begin(pieces, tasks, task); piece < task_begin(pieces, tasks, task + 1); ++piece)
      visit(piece / shape.slices, static_cast<int>(piece % shape.slices));
  }

  void measure_slices(const Args& args, int task) const {
    auto* partials = static_cast<BatchNormPartial*>(args.scratch);
    each_piece(task, [&](std::int64_t group, int slice) {
      kernel.measure(shape, args, group, slice, partials[group * shape.slices + slice]);
    });
  }

  void write_slices(const Args& args, int task) const {
    const auto* partials = static_cast<const BatchNormPartial*>(args.scratch);
    BatchNormLanes lanes{};
    std::int64_t joined = -1;
    each_piece(task, [&](std::int64_t group, int slice) {
      if (group != joined || slice == 0) {
        lanes = {};
        kernel.join(shape, args, group, partials + group * shape.slices, slice == 0, lanes);
        joined = group;
      }
      kernel.write(shape, args, group, slice, lanes);
    });
  }
};

/// Inference: the statistics are inputs, and slices are independent.
struct Given {
  BatchNormShape shape;
  Train kernel;
  int mean, var;  // indices of arguments
  int tasks;

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Given*>(self);
    const BatchNormShape& shape = own.shape;
    const std::int64_t pieces = shape.groups * shape.slices;
    BatchNormLanes lanes{};
    std::int64_t known = -1;
    for (std::int64_t piece = task_begin(pieces, own.tasks, task); piece < task_begin(pieces, own.tasks, task + 1);
         ++piece) {
      const std::int64_t group = piece / shape.slices;
      if (group != known) {
        lanes = {};
        each_lane(shape, group, [&](int lane, std::int64_t channel) {
          own.kernel.set(lanes, lane, pointer(args.in, own.mean)[channel], pointer(args.in, own.var)[channel],
                         pointer(args.in, own.kernel.weight)[channel], pointer(args.in, own.kernel.bias)[channel]);
        });
        known = group;
      }
      own.kernel.write(shape, args, group, static_cast<int>(piece % shape.slices), lanes);
    }
  }
};

/// The arguments of a normalization and of its fused steps.
Train train_of(const KernelRequest& request, const Joined& joined, const std::optional<PointwiseSteps>& steps,
               double eps) {
  const Step& step = request.steps[0];
  const auto in = [&](std::size_t i) { return request.place_in(step.in[i]); };
  // A request outputs only values that are read. The last value may be up to three of them.
  const auto out = [&](int value) { return value == joined.last ? -1 : request.place_out(value); };
  const bool trains = step.out.size() == 3;
  const auto rounded = [&](int value) { return value < 0 ? StorageDtype::exact : desc(request, value).layout.storage; };
  return {.x = in(0),
          .weight = in(1),
          .bias = in(2),
          .residual = joined.residual < 0 ? -1 : request.place_in(joined.residual),
          .normal = out(step.out[0]),
          .sum = out(joined.sum),
          .last = memory_of(request, joined.steps - 1),
          .mean = trains ? request.place_out(step.out[1]) : -1,
          .var = trains ? request.place_out(step.out[2]) : -1,
          .relu = joined.relu,
          .eps = eps,
          .steps = steps,
          .end = memory_of(request, request.steps.size() - 1),
          .rounded = {rounded(step.in[0]), rounded(joined.residual), rounded(step.out[0]), rounded(joined.sum),
                      rounded(request.steps[joined.steps - 1].out[0])}};
}

Launch prepare_train(KernelRequest& request) {
  Joined joined;
  std::optional<PointwiseSteps> steps;
  if (!takes(request, joined) || !read_steps(request, joined, steps)) return {};
  const TensorDesc& x = desc(request, request.steps[0].in[0]);
  if (const std::string why = layouts_against(request, joined, x); !why.empty()) return decline(request, why);
  const double eps = static_cast<const BatchNormTrain&>(request.op()).eps;
  return TwoPass<Train>{shape_of(x), train_of(request, joined, steps, eps)}.launch(request);
}

Launch prepare_given(KernelRequest& request) {
  Joined joined;
  std::optional<PointwiseSteps> steps;
  if (!takes(request, joined) || !read_steps(request, joined, steps)) return {};
  const Step& step = request.steps[0];
  const TensorDesc& x = desc(request, step.in[0]);
  if (const std::string why = layouts_against(request, joined, x); !why.empty()) return decline(request, why);
  const BatchNormShape shape = shape_of(x);
  const int tasks = tasks_of(request, shape.images * shape.image_stride, shape.groups * shape.slices);
  const double eps = static_cast<const BatchNorm&>(request.op()).eps;
  auto self = std::make_shared<Given>(Given{shape, train_of(request, joined, steps, eps), request.place_in(step.in[3]),
                                            request.place_in(step.in[4]), tasks});
  return {Given::run, self, tasks};
}

Launch prepare_grad(KernelRequest& request) {
  Joined joined;
  if (!takes(request, joined)) return {};
  if (request.steps.size() > 1) return decline(request, "takes nothing after it");
  const TensorDesc& x = desc(request, request.steps[0].in[1]);
  if (const std::string why = layouts_against(request, joined, x); !why.empty()) return decline(request, why);
  const auto in = [&](std::size_t i) { return request.place_in(request.steps[0].in[i]); };
  const double eps = static_cast<const BatchNormGrad&>(request.op()).eps;
  const BatchNormGradRounded rounded{request.input(in(0)).layout.storage, x.layout.storage,
                                     request.output(0).layout.storage};
  return TwoPass<Grad>{shape_of(x), {in(0), in(1), in(2), in(3), in(4), eps, rounded}}.launch(request);
}

bool wants_grad(KernelRequest& request) {
  if (request.steps.size() > 1) return no(request, "takes nothing after it");
  return propose_layouts<1>(request);
}

}  // namespace

void cpu_batch_norm() {
  const auto add_op = [](std::string_view op, auto prepare, auto wanted) {
    cpu::add_kernel({.op = op, .name = "cpu", .prepare = prepare, .propose_layouts = wanted, .fuses = true});
  };
  add_op("batch_norm_train", prepare_train, propose_layouts<0>);
  add_op("batch_norm", prepare_given, propose_layouts<0>);
  add_op("batch_norm_grad", prepare_grad, wants_grad);
}

}  // namespace neurim
