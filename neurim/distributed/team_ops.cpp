#include "neurim/distributed/team_ops.h"

#include <cstring>

#include "neurim/base/error.h"
#include "neurim/distributed/all_reduce.h"
#include "neurim/distributed/group_kernel.h"
#include "neurim/ops/slice.h"

namespace neurim {

namespace {

struct PreparedCopy {
  std::size_t bytes;
  static void run(const void* self, const Args& args, int /*task*/) noexcept {
    std::memcpy(args.out[0], args.in[0], static_cast<const PreparedCopy*>(self)->bytes);
  }
};

Launch prepare_copy(KernelRequest& request) {
  if (request.input(0).layout != request.output(0).layout) return decline(request, "takes and gives one layout");
  const PreparedCopy prepared{bytes(request.input(0).type, request.input(0).layout)};
  return {.run = PreparedCopy::run, .self = std::make_shared<PreparedCopy>(prepared)};
}

/// Rows of the outer axes, in each of which ranks have equal parts.
struct PreparedTeamGather {
  GroupCall call;
  std::size_t outer, part;  // numbers of a part in a row
  std::size_t bytes;        // of a part

  static void run(const void* self, const Args& args, int /*task*/) noexcept {
    const auto& own = *static_cast<const PreparedTeamGather*>(self);
    own.call.run(args, [&](ProcessGroup& group) {
      if (group.size() == 1) {
        std::memcpy(args.out[0], args.in[0], own.bytes);
        return;
      }
      const auto ranks = static_cast<std::size_t>(group.size()), rank = static_cast<std::size_t>(group.rank());
      auto* const all = static_cast<float*>(args.scratch);
      const std::size_t of_rank = own.outer * own.part;
      std::memcpy(all + rank * of_rank, args.in[0], of_rank * sizeof(float));
      std::vector<std::size_t> bounds;
      for (std::size_t r = 0; r <= ranks; ++r) bounds.push_back(r * of_rank);
      group.all_gather(std::span(all, ranks * of_rank), bounds, DType::f32);
      auto* to = static_cast<float*>(args.out[0]);
      for (std::size_t row = 0; row < own.outer; ++row)
        for (std::size_t r = 0; r < ranks; ++r, to += own.part)
          std::memcpy(to, all + r * of_rank + row * own.part, own.part * sizeof(float));
    });
  }
};

Launch prepare_team_gather(KernelRequest& request) {
  const auto& op = static_cast<const TeamGather&>(request.op());
  if (!(request.input(0).layout == Layout()) || !(request.output(0).layout == Layout()))
    return decline(request, "takes and gives plain layouts");
  const Shape& shape = request.input(0).type.shape;
  PreparedTeamGather prepared{GroupCall(op.group), 1, 1, bytes(request.input(0).type)};
  for (int axis = 0; axis < shape.rank(); ++axis)
    (axis < op.axis ? prepared.outer : prepared.part) *= static_cast<std::size_t>(std::int64_t{shape[axis]});
  request.scratch = bytes(request.output(0).type);
  return {.run = PreparedTeamGather::run, .self = std::make_shared<PreparedTeamGather>(prepared)};
}

}  // namespace

Types TeamCopy::infer(std::span<const Type> in) const {
  require(in.size() == 1 && is_floating(in[0].dtype), "team_copy: takes a floating tensor");
  return {in[0]};
}

Tensors TeamCopy::grad(const Gradient& g) const { return all_reduce({g.dout[0]}, group); }

std::vector<Sample> TeamCopy::samples() const { return {{std::make_shared<TeamCopy>(), {{DType::f32, {3, 7}}}}}; }

Types TeamGather::infer(std::span<const Type> in) const {
  const bool alone = group_of(group).size() == 1;
  require(in.size() == 1 && is_floating(in[0].dtype) && (alone || in[0].dtype == DType::f32), "team_gather: takes a ",
          alone ? "floating" : "f32", " tensor");
  require(axis >= 0 && axis < in[0].shape.rank(), "team_gather: axis is ", axis, " of ", in[0].shape);
  Type whole = in[0];
  whole.shape[static_cast<int>(axis)] = whole.shape[static_cast<int>(axis)] * group_of(group).size();
  return {whole};
}

Tensors TeamGather::grad(const Gradient& g) const { return {team_part(g.dout[0], axis, group)}; }

std::vector<Sample> TeamGather::samples() const {
  auto op = std::make_shared<TeamGather>();
  op->axis = 1;
  return {{op, {{DType::f32, {3, 7, 2}}}}};
}

Tensor team_copy(const Tensor& x, std::int64_t group) {
  auto op = std::make_shared<TeamCopy>();
  op->group = group;
  return apply1(op, {x});
}

Tensor team_gather(const Tensor& part, std::int64_t axis, std::int64_t group) {
  auto op = std::make_shared<TeamGather>();
  op->group = group, op->axis = axis;
  return apply1(op, {part});
}

Tensor team_part(const Tensor& whole, std::int64_t axis, std::int64_t group) {
  const ProcessGroup& ranks = group_of(group);
  const std::int64_t each = whole.size(static_cast<int>(axis)) / ranks.size();
  return slice(whole, {each * ranks.rank()}, {each * (ranks.rank() + 1)}, {axis});
}

void define_team_ops() {
  define<TeamCopy>();
  define<TeamGather>();
}

void add_team_kernels(std::uint8_t device) {
  add({.op = "team_copy",
       .name = "copy",
       .device = device,
       .prepare = prepare_copy,
       .propose_layouts = propose_layouts_of_inputs});
  add({.op = "team_gather", .name = "messages", .device = device, .prepare = prepare_team_gather});
}

}  // namespace neurim
