#include "neurim/backend/cpu/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "neurim/backend/cpu/physical.h"
#include "neurim/backend/cpu/pointwise.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/batch_norm.h"

namespace neurim {

namespace {

using namespace cpu;

Spec& spec(const Site& site, int value) { return site.values[static_cast<std::size_t>(value)]; }

float* pointer(std::span<void* const> arguments, int at) {
  return at < 0 ? nullptr : static_cast<float*>(arguments[static_cast<std::size_t>(at)]);
}

template <class... Parts>
bool no(Site& site, const Parts&... why) {
  site.why = text(why...);
  return false;
}

/// What follows the normalization in a site and is done with it; numbers of site values, -1: nothing.
struct Joined {
  int residual = -1, sum = -1, last = -1;
  Relu relu;
  std::size_t steps = 1;  ///< of the site until here; those behind go over what a call has written
};

/// Reads a normalization alone, or with an addition, a relu or relu6, or both behind it.
bool takes(Site& site, Joined& joined) {
  for (const Spec& value : site.values)
    if (value.type.dtype != DType::f32) return no(site, "takes f32 only, not ", value.type.dtype);
  joined.last = site.steps[0].out[0];
  if (spec(site, joined.last).type.shape.numel() == 0) return no(site, "takes no empty tensors");
  const auto next = [&]() { return joined.steps < site.steps.size() ? &site.steps[joined.steps] : nullptr; };
  if (const Step* step = next(); step && step->op->name() == "add" && (step->in[0] == joined.last) != (step->in[1] == joined.last)) {
    const int other = step->in[step->in[0] == joined.last ? 1 : 0];
    if (site.place_in(other) >= 0 && spec(site, other).type.shape == spec(site, joined.last).type.shape) {
      joined.residual = other;
      joined.last = joined.sum = step->out[0];
      ++joined.steps;
    }
  }
  if (const Step* step = next(); step && step->in[0] == joined.last && read_relu(*step->op, joined.relu)) {
    joined.last = step->out[0];
    ++joined.steps;
  }
  return true;
}

/// The pointwise steps behind those, if any; on no, says why.
bool read_steps(Site& site, const Joined& joined, std::optional<PointwiseSteps>& steps) {
  return joined.steps == site.steps.size() || steps.emplace().read(site, joined.steps, site.steps.size());
}

/// Whether activations may be rounded: those of training, where no further steps go over what is written.
bool may_round(const Site& site, const Joined& joined) { return site.op().name() != "batch_norm" && joined.steps == site.steps.size(); }

/// Values of the activation's shape stay blocked if one of the site's inputs is, all others are plain.
template <int kActivation>
bool wants(Site& site) {
  Joined joined;
  if (!takes(site, joined)) return false;
  const Shape shape = spec(site, site.steps[0].in[kActivation]).type.shape;
  Layout layout;
  for (const int in : site.in)
    if (spec(site, in).type.shape == shape && exact(spec(site, in).layout) == kBlocked) layout = kBlocked;
  const bool rounds = layout == kBlocked && may_round(site, joined);
  for (Spec& value : site.values) value.layout = value.type.shape != shape ? Layout{} : rounds ? narrowed(value, layout) : layout;
  std::optional<PointwiseSteps> steps;
  return read_steps(site, joined, steps);
}

/// "" or why these layouts are not taken.
std::string layouts_against(const Site& site, const Joined& joined, const Spec& x) {
  const bool may = may_round(site, joined);
  const auto layout_of = [&](const Spec& value) { return may && exact(value.layout) == kBlocked ? kBlocked : value.layout; };
  const Layout layout = layout_of(x);
  if (layout != Layout{} && layout != kBlocked) return text("does not take the layout ", x.layout);
  for (const Spec& value : site.values)
    if (layout_of(value) != (value.type.shape == x.type.shape ? layout : Layout{}))
      return text("does not take ", value.type, ' ', value.layout, " beside ", x.layout);
  return {};
}

BatchNormShape shape_of(const Spec& x) {
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
  constexpr std::int64_t kSliceFloats = 8192;  // below, measuring a slice costs more than reading it
  const std::int64_t most = std::min<std::int64_t>(images, kMostSlices);
  shape.slices = static_cast<int>(std::clamp<std::int64_t>(images * shape.run / kSliceFloats, 1, most));
  return shape;
}

/// The elements that share a channel: of a slice, or of all.
double count(const BatchNormShape& shape, std::int64_t images) {
  return static_cast<double>(images * (shape.lanes ? shape.run / 16 : shape.run));
}

/// Calls visit(lane, channel) for the lanes of a group; of a single channel all 16 lanes are its.
template <class Visit>
void each_lane(const BatchNormShape& shape, std::int64_t group, Visit visit) {
  const std::int64_t lanes = shape.lanes ? std::min<std::int64_t>(16, shape.channels - 16 * group) : 16;
  for (int lane = 0; lane < static_cast<int>(lanes); ++lane)
    visit(lane, shape.lanes ? 16 * group + lane : group);
}

/// What a call of a kernel does with one group.
struct Train {
  int x, weight, bias, residual, normal, sum, last, mean, var;  // arguments
  Relu relu;
  double eps;
  std::optional<PointwiseSteps> steps;  // behind what is written last
  int end;                              // and where they end
  BatchNormRounded rounded;
  decltype(&portable::batch_norm_moments) moments = NEURIM_DISPATCH(batch_norm_moments);
  decltype(&portable::batch_norm_write) write_slice = NEURIM_DISPATCH(batch_norm_write);

  void measure(const BatchNormShape& shape, const Args& args, std::int64_t group, int slice,
               BatchNormPartial& partial) const {
    moments(shape, rounded.x, group, slice, pointer(args.in, x), partial);
  }

  /// Joins the slices in order (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for
  /// computing sample variances", 1979).
  void join(const BatchNormShape& shape, const Args& args, std::int64_t group,
            const BatchNormPartial* partials, bool publish, BatchNormLanes& lanes) const {
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
    if (normal < 0 && sum < 0 && last < 0) return;  // the statistics alone may be asked for
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
  int dy, x, weight, mean, var;  // arguments
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

  void join(const BatchNormShape& shape, const Args& args, std::int64_t group,
            const BatchNormPartial* partials, bool publish, BatchNormLanes& lanes) const {
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

/// A prepared kernel that measures a group and then writes it. Where there are groups enough, a part takes
/// whole groups: what it has measured is still in its cache when it writes. Else parts measure slices, and a
/// second phase writes slices. The numbers are the same.
template <class Kernel>
struct TwoPass {
  BatchNormShape shape;
  Kernel kernel;
  int parts = 1, joins = 0;

  Launch launch(Site& site) && {
    const std::int64_t elements = shape.images * shape.image_stride, pieces = shape.groups * shape.slices;
    parts = parts_of(site, elements, shape.groups);
    const bool uneven = shape.groups < 4 * site.chunks && shape.groups % site.chunks != 0;
    if (uneven && parts_of(site, elements, pieces) > parts) {
      parts = joins = parts_of(site, elements, pieces);
      site.scratch = static_cast<std::size_t>(pieces) * sizeof(BatchNormPartial);
    }
    auto self = std::make_shared<TwoPass>(std::move(*this));
    return {run, self, self->parts, self->joins};
  }

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const TwoPass*>(self);
    if (own.joins == 0)
      own.run_groups(args, part);
    else if (part < own.parts)
      own.measure_slices(args, part);
    else
      own.write_slices(args, part - own.parts);
  }

  void run_groups(const Args& args, int part) const {
    BatchNormPartial partials[kMostSlices];
    for (std::int64_t group = part_begin(shape.groups, parts, part);
         group < part_begin(shape.groups, parts, part + 1); ++group) {
      BatchNormLanes lanes{};
      for (int slice = 0; slice < shape.slices; ++slice)
        kernel.measure(shape, args, group, slice, partials[slice]);
      kernel.join(shape, args, group, partials, true, lanes);
      // The slices that were read last are the ones in the cache.
      for (int slice = shape.slices - 1; slice >= 0; --slice) kernel.write(shape, args, group, slice, lanes);
    }
  }

  /// Calls visit(group, slice) for the share of a part.
  template <class Visit>
  void each_piece(int part, Visit visit) const {
    const std::int64_t pieces = shape.groups * shape.slices;
    for (std::int64_t piece = part_begin(pieces, parts, part); piece < part_begin(pieces, parts, part + 1);
         ++piece)
      visit(piece / shape.slices, static_cast<int>(piece % shape.slices));
  }

  void measure_slices(const Args& args, int part) const {
    auto* partials = static_cast<BatchNormPartial*>(args.scratch);
    each_piece(part, [&](std::int64_t group, int slice) {
      kernel.measure(shape, args, group, slice, partials[group * shape.slices + slice]);
    });
  }

  void write_slices(const Args& args, int part) const {
    const auto* partials = static_cast<const BatchNormPartial*>(args.scratch);
    BatchNormLanes lanes{};
    std::int64_t joined = -1;
    each_piece(part, [&](std::int64_t group, int slice) {
      if (group != joined || slice == 0) {
        lanes = {};
        kernel.join(shape, args, group, partials + group * shape.slices, slice == 0, lanes);
        joined = group;
      }
      kernel.write(shape, args, group, slice, lanes);
    });
  }
};

/// Inference: the statistics are given, every slice stands for itself.
struct Given {
  BatchNormShape shape;
  Train kernel;
  int mean, var;  // arguments
  int parts;

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const Given*>(self);
    const BatchNormShape& shape = own.shape;
    const std::int64_t pieces = shape.groups * shape.slices;
    BatchNormLanes lanes{};
    std::int64_t known = -1;
    for (std::int64_t piece = part_begin(pieces, own.parts, part);
         piece < part_begin(pieces, own.parts, part + 1); ++piece) {
      const std::int64_t group = piece / shape.slices;
      if (group != known) {
        lanes = {};
        each_lane(shape, group, [&](int lane, std::int64_t channel) {
          own.kernel.set(lanes, lane, pointer(args.in, own.mean)[channel], pointer(args.in, own.var)[channel],
                         pointer(args.in, own.kernel.weight)[channel],
                         pointer(args.in, own.kernel.bias)[channel]);
        });
        known = group;
      }
      own.kernel.write(shape, args, group, static_cast<int>(piece % shape.slices), lanes);
    }
  }
};

/// The arguments of a normalization and what stands behind it.
Train train_of(const Site& site, const Joined& joined, const std::optional<PointwiseSteps>& steps, double eps) {
  const Step& step = site.steps[0];
  const auto in = [&](std::size_t i) { return site.place_in(step.in[i]); };
  // A site gives out only what somebody needs; what comes last may go by up to three names.
  const auto out = [&](int value) { return value == joined.last ? -1 : site.place_out(value); };
  const bool trains = step.out.size() == 3;
  const auto rounded = [&](int value) { return value < 0 ? Half::exact : spec(site, value).layout.rounded; };
  return {.x = in(0),
          .weight = in(1),
          .bias = in(2),
          .residual = joined.residual < 0 ? -1 : site.place_in(joined.residual),
          .normal = out(step.out[0]),
          .sum = out(joined.sum),
          .last = memory_of(site, joined.steps - 1),
          .mean = trains ? site.place_out(step.out[1]) : -1,
          .var = trains ? site.place_out(step.out[2]) : -1,
          .relu = joined.relu,
          .eps = eps,
          .steps = steps,
          .end = memory_of(site, site.steps.size() - 1),
          .rounded = {rounded(step.in[0]), rounded(joined.residual), rounded(step.out[0]), rounded(joined.sum), rounded(site.steps[joined.steps - 1].out[0])}};
}

Launch prepare_train(Site& site) {
  Joined joined;
  std::optional<PointwiseSteps> steps;
  if (!takes(site, joined) || !read_steps(site, joined, steps)) return {};
  const Spec& x = spec(site, site.steps[0].in[0]);
  if (const std::string why = layouts_against(site, joined, x); !why.empty()) return decline(site, why);
  const double eps = static_cast<const BatchNormTrain&>(site.op()).eps;
  return TwoPass<Train>{shape_of(x), train_of(site, joined, steps, eps)}.launch(site);
}

Launch prepare_given(Site& site) {
  Joined joined;
  std::optional<PointwiseSteps> steps;
  if (!takes(site, joined) || !read_steps(site, joined, steps)) return {};
  const Step& step = site.steps[0];
  const Spec& x = spec(site, step.in[0]);
  if (const std::string why = layouts_against(site, joined, x); !why.empty()) return decline(site, why);
  const BatchNormShape shape = shape_of(x);
  const int parts = parts_of(site, shape.images * shape.image_stride, shape.groups * shape.slices);
  const double eps = static_cast<const BatchNorm&>(site.op()).eps;
  auto self = std::make_shared<Given>(Given{shape, train_of(site, joined, steps, eps), site.place_in(step.in[3]),
                                            site.place_in(step.in[4]), parts});
  return {Given::run, self, parts};
}

Launch prepare_grad(Site& site) {
  Joined joined;
  if (!takes(site, joined)) return {};
  if (site.steps.size() > 1) return decline(site, "takes nothing behind it");
  const Spec& x = spec(site, site.steps[0].in[1]);
  if (const std::string why = layouts_against(site, joined, x); !why.empty()) return decline(site, why);
  const auto in = [&](std::size_t i) { return site.place_in(site.steps[0].in[i]); };
  const double eps = static_cast<const BatchNormGrad&>(site.op()).eps;
  const BatchNormGradRounded rounded{site.input(in(0)).layout.rounded, x.layout.rounded, site.output(0).layout.rounded};
  return TwoPass<Grad>{shape_of(x), {in(0), in(1), in(2), in(3), in(4), eps, rounded}}.launch(site);
}

bool wants_grad(Site& site) {
  if (site.steps.size() > 1) return no(site, "takes nothing behind it");
  return wants<1>(site);
}

}  // namespace

void cpu_batch_norm() {
  const auto add_kernel = [](std::string_view op, auto prepare, auto wanted) {
    add({.op = op, .name = "cpu", .device = 0, .rank = 20, .prepare = prepare, .wants = wanted, .fuses = true});
  };
  add_kernel("batch_norm_train", prepare_train, wants<0>);
  add_kernel("batch_norm", prepare_given, wants<0>);
  add_kernel("batch_norm_grad", prepare_grad, wants_grad);
}

}  // namespace neurim
