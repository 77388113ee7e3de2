#include "neurim/distributed/all_reduce.h"

#include <cstring>
#include <deque>
#include <mutex>

#include "neurim/base/error.h"
#include "neurim/distributed/group_kernel.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

struct KnownGroup {
  std::shared_ptr<ProcessGroup> group;
  InTurn in_turn;
  std::mutex mutex;
  std::string failure;
};

namespace {

/// Those of this process, by their numbers.
struct Groups {
  std::mutex mutex;
  std::deque<KnownGroup> all;
};
Groups& groups() {
  static Groups* const groups = [] {
    auto* made = new Groups;
    made->all.emplace_back().group = self_group();
    return made;
  }();
  return *groups;
}

KnownGroup& known(std::int64_t number) {
  Groups& known = groups();
  const std::lock_guard lock(known.mutex);
  require(number >= 0 && number < std::ssize(known.all), "there is no group ", number);
  return known.all[static_cast<std::size_t>(number)];
}

/// Sums in the layout in which the numbers come, which is the same on all ranks.
struct PreparedAllReduce {
  GroupCall call;
  DType sent;
  std::vector<std::size_t> sizes;  // bytes of each tensor's memory

  static void run(const void* self, const Args& args, int /*task*/) noexcept {
    const auto& own = *static_cast<const PreparedAllReduce*>(self);
    own.call.run(args, [&](ProcessGroup& group) {
      auto* const all = static_cast<std::byte*>(args.scratch);
      std::size_t size = 0;
      for (std::size_t i = 0; i < own.sizes.size(); size += own.sizes[i++])
        std::memcpy(all + size, args.in[i], own.sizes[i]);
      if (group.size() > 1)
        group.all_reduce(std::span(reinterpret_cast<float*>(all), size / sizeof(float)), Reduction::sum, own.sent);
      size = 0;
      for (std::size_t i = 0; i < own.sizes.size(); size += own.sizes[i++])
        std::memcpy(args.out[i], all + size, own.sizes[i]);
    });
  }
};

Launch prepare_all_reduce(KernelRequest& request) {
  const auto& op = static_cast<const AllReduce&>(request.op());
  PreparedAllReduce prepared{GroupCall(op.group), op.sent, {}};
  for (std::size_t i = 0; i < request.in.size(); ++i) {
    const TensorDesc& in = request.input(static_cast<int>(i));
    if (in.layout != request.output(static_cast<int>(i)).layout) return decline(request, "takes and gives one layout");
    prepared.sizes.push_back(bytes(in.type, in.layout));
    request.scratch += bytes(in.type, in.layout);
  }
  return {.run = PreparedAllReduce::run, .self = std::make_shared<PreparedAllReduce>(std::move(prepared))};
}

}  // namespace

std::int64_t group_number(std::shared_ptr<ProcessGroup> group, InTurn in_turn) {
  Groups& known = groups();
  const std::lock_guard lock(known.mutex);
  KnownGroup& one = known.all.emplace_back();
  one.group = std::move(group);
  one.in_turn = std::move(in_turn);
  return std::ssize(known.all) - 1;
}

ProcessGroup& group_of(std::int64_t number) { return *known(number).group; }

bool propose_layouts_of_inputs(KernelRequest& request) {
  for (std::size_t i = 0; i < request.in.size(); ++i)
    request.values[request.out[i]].layout = request.input(static_cast<int>(i)).layout;
  return true;
}

GroupCall::GroupCall(std::int64_t number) : known_(&known(number)) {}

void GroupCall::run(const Args& args, const std::function<void(ProcessGroup& group)>& call) const noexcept {
  try {
    if (known_->in_turn)
      known_->in_turn(call);
    else
      call(*known_->group);
  } catch (const std::exception& error) {
    try {
      const std::lock_guard lock(known_->mutex);
      if (known_->failure.empty()) known_->failure = error.what();  // what follows from it says less
    } catch (...) {
    }
    *args.status |= kStatusDeviceFault;
  }
}

std::string group_failure(std::int64_t group) {
  KnownGroup& one = known(group);
  const std::lock_guard lock(one.mutex);
  return one.failure;
}

Types AllReduce::infer(std::span<const Type> in) const {
  require(!in.empty(), "all_reduce: there are no tensors; give one at least");
  const bool alone = group_of(group).size() == 1;
  for (const Type& type : in)
    require(is_floating(type.dtype) && (alone || type.dtype == DType::f32), "all_reduce: takes ",
            alone ? "floating tensors" : "f32", ", got ", type);
  return {in.begin(), in.end()};
}

Tensors AllReduce::grad(const Gradient& g) const {
  Tensors of_outputs;
  for (std::size_t i = 0; i < g.out.size(); ++i)
    of_outputs.push_back(g.dout[i] ? g.dout[i] : broadcast_to(scalar_like(g.out[i], 0), g.out[i].shape()));
  return all_reduce(of_outputs, group, sent);
}

std::vector<Sample> AllReduce::samples() const {
  const auto op = std::make_shared<AllReduce>();
  return {{op, {{DType::f32, {3, 7}}}}, {op, {{DType::f32, {70, 33}}, {DType::f32, {}}, {DType::f32, {0, 3}}}}};
}

Tensors all_reduce(const Tensors& tensors, std::int64_t group, DType sent) {
  auto op = std::make_shared<AllReduce>();
  op->group = group;
  op->sent = sent;
  return neurim::apply(op, tensors);
}

void define_distributed() {
  define_shards();
  define_team_ops();
  define<AllReduce>();
  add_group_kernels(0);
}

void add_group_kernels(std::uint8_t device) {
  add_shard_kernels(device);
  add_team_kernels(device);
  add({.op = "all_reduce",
       .name = "messages",
       .device = device,
       .prepare = prepare_all_reduce,
       .propose_layouts = propose_layouts_of_inputs});
}

}  // namespace neurim
