#include "neurim/backend/cpu/pointwise/optimizer.h"

#include <cmath>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/adam_step.h"
#include "neurim/ops/sgd_step.h"

namespace neurim {

namespace {

using namespace cpu;

/// Values of the weight's type take the weight's layout; its padding stays zero.
void follow_weight(KernelRequest& request) {
  const TensorDesc weight = request.input(0);
  for (TensorDesc& value : request.values)
    if (value.type == weight.type) value.layout = weight.layout;
}

bool propose_sgd_layouts(KernelRequest& request) {
  follow_weight(request);
  return true;
}

bool propose_adam_layouts(KernelRequest& request) {
  // Without eps the padding would become 0 / 0.
  if (static_cast<const AdamStep&>(request.op()).rule.eps == 0) request.values[request.in[0]].layout = {};
  follow_weight(request);
  return true;
}

/// Whether weight, gradient and buffers have one layout and the rest is plain. If not, sets request.why.
bool alike(KernelRequest& request) {
  const TensorDesc& weight = request.input(0);
  for (const TensorDesc& value : request.values) {
    if (value.type.dtype != DType::f32 && value.type.dtype != DType::i64) {
      request.why = "takes f32 only";
      return false;
    }
    if (value.type == weight.type && value.layout != weight.layout) {
      request.why = text("weight ", weight.layout, " beside ", value.layout);
      return false;
    }
  }
  return true;
}

/// A prepared step: the rule, and the size of the memory.
template <class Rule>
struct Prepared {
  Rule rule;
  std::int64_t count;
  int tasks;
  Prepared(const Rule& of, const KernelRequest& request)
      : rule(of),
        count(static_cast<std::int64_t>(bytes(request.input(0).type, request.input(0).layout) / sizeof(float))),
        tasks(tasks_of(request, count, pieces())) {}

  // Tasks begin at cache lines.
  std::int64_t pieces() const { return (count + 15) / 16; }
  std::int64_t begin(int task) const { return task_begin(pieces(), tasks, task) * 16; }
  std::int64_t end(int task) const { return std::min(begin(task + 1), count); }
};

const float* in(const Args& args, std::size_t i) { return static_cast<const float*>(args.in[i]); }
float* out(const Args& args, std::size_t i) { return static_cast<float*>(args.out[i]); }

/// The factor of the gradients. Where it is 0, the step is skipped: the outputs are copies of the inputs.
float scale_of(const Args& args, bool scaled) { return scaled ? in(args, args.in.size() - 1)[0] : 1.0f; }
void keep(const Args& args, std::initializer_list<std::size_t> from, std::int64_t at, std::int64_t n) {
  for (std::size_t o = 0; o < args.out.size(); ++o)
    if (const float* const source = in(args, from.begin()[o]); source != out(args, o))
      std::copy_n(source + at, n, out(args, o) + at);
}

struct PreparedSgd : Prepared<SgdRule> {
  using Prepared::Prepared;
  decltype(&portable::sgd) step = NEURIM_DISPATCH(sgd);
  decltype(&portable::sgd_momentum) momentum_step = NEURIM_DISPATCH(sgd_momentum);
};

Launch prepare_sgd(KernelRequest& request) {
  if (!alike(request)) return {};
  auto prepared = std::make_shared<PreparedSgd>(static_cast<const SgdStep&>(request.op()).rule, request);
  const auto launch = [](const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const PreparedSgd*>(self);
    const std::int64_t at = own.begin(task), n = own.end(task) - at;
    const float scale = scale_of(args, own.rule.scaled);
    if (scale == 0) return keep(args, {0, 2}, at, n);
    const SgdNumbers numbers{in(args, own.rule.momentum == 0 ? 2 : 3)[0], static_cast<float>(own.rule.momentum),
                             static_cast<float>(1 - own.rule.dampening), static_cast<float>(own.rule.weight_decay),
                             scale};
    if (own.rule.momentum == 0)
      own.step(numbers, in(args, 0) + at, in(args, 1) + at, out(args, 0) + at, n);
    else
      own.momentum_step(numbers, own.rule.nesterov, in(args, 0) + at, in(args, 1) + at, in(args, 2) + at,
                        out(args, 0) + at, out(args, 1) + at, n);
  };
  return {launch, prepared, prepared->tasks};
}

struct PreparedAdam : Prepared<AdamRule> {
  using Prepared::Prepared;
  decltype(&portable::adam) step = NEURIM_DISPATCH(adam);
};

AdamNumbers adam_numbers(const AdamRule& rule, double lr, double step, float scale) {
  const double correction1 = 1 - std::pow(rule.beta1, step), correction2 = 1 - std::pow(rule.beta2, step);
  return {static_cast<float>(lr / correction1),
          static_cast<float>(1 / std::sqrt(correction2)),
          static_cast<float>(rule.beta1),
          static_cast<float>(1 - rule.beta1),
          static_cast<float>(rule.beta2),
          static_cast<float>(1 - rule.beta2),
          static_cast<float>(rule.eps),
          static_cast<float>(rule.decoupled ? 1 - lr * rule.weight_decay : 1),
          static_cast<float>(rule.decoupled ? 0 : rule.weight_decay),
          scale};
}

Launch prepare_adam(KernelRequest& request) {
  if (!alike(request)) return {};
  auto prepared = std::make_shared<PreparedAdam>(static_cast<const AdamStep&>(request.op()).rule, request);
  const auto launch = [](const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const PreparedAdam*>(self);
    const std::int64_t at = own.begin(task), n = own.end(task) - at;
    const double step = static_cast<double>(*static_cast<const std::int64_t*>(args.in[5]));
    const float scale = scale_of(args, own.rule.scaled);
    if (scale == 0) return keep(args, {0, 2, 3}, at, n);
    own.step(adam_numbers(own.rule, static_cast<double>(in(args, 4)[0]), step, scale), in(args, 0) + at,
             in(args, 1) + at, in(args, 2) + at, in(args, 3) + at, out(args, 0) + at, out(args, 1) + at,
             out(args, 2) + at, n);
  };
  return {launch, prepared, prepared->tasks};
}

/// In any layout, since padding is zero.
struct AllFinite {
  std::vector<std::int64_t> counts;
  int tasks;

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const AllFinite*>(self);
    auto* const found = static_cast<char*>(args.scratch);
    if (task == own.tasks) {
      *static_cast<bool*>(args.out[0]) = std::all_of(found, found + own.tasks, [](char finite) { return finite != 0; });
      return;
    }
    bool all = true;
    for (std::size_t i = 0; i < own.counts.size() && all; ++i) {
      const std::int64_t begin = task_begin(own.counts[i], own.tasks, task);
      all = NEURIM_DISPATCH(all_finite)(in(args, i) + begin, task_begin(own.counts[i], own.tasks, task + 1) - begin);
    }
    found[task] = all;
  }
};

bool propose_all_finite_layouts(KernelRequest& request) {
  for (const TensorDesc& value : request.values)
    if (value.layout.storage) return decline(request, "takes no rounded tensors"), false;
  return true;
}

Launch prepare_all_finite(KernelRequest& request) {
  const auto all = std::make_shared<AllFinite>();
  std::int64_t count = 0;
  for (int i = 0; i < std::ssize(request.in); ++i) {
    if (request.input(i).type.dtype != DType::f32) return decline(request, "takes f32 only");
    all->counts.push_back(
        static_cast<std::int64_t>(bytes(request.input(i).type, request.input(i).layout) / sizeof(float)));
    count += all->counts.back();
  }
  all->tasks = tasks_of(request, count, count);
  request.scratch = all->tasks;
  return {AllFinite::run, all, all->tasks, 1};
}

}  // namespace

void cpu_optimizer() {
  cpu::add_kernel({.op = "all_finite",
                   .name = "cpu",
                   .prepare = prepare_all_finite,
                   .propose_layouts = propose_all_finite_layouts});
  cpu::add_kernel({.op = "sgd_step", .name = "cpu", .prepare = prepare_sgd, .propose_layouts = propose_sgd_layouts});
  cpu::add_kernel({.op = "adam_step", .name = "cpu", .prepare = prepare_adam, .propose_layouts = propose_adam_layouts});
}

}  // namespace neurim
