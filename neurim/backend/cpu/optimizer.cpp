#include "neurim/backend/cpu/optimizer.h"

#include <cmath>

#include "neurim/backend/cpu/physical.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/adam_step.h"
#include "neurim/ops/sgd_step.h"

namespace neurim {

namespace {

using namespace cpu;

/// Everything of the weight's type takes the weight's layout; the zeros that pad it stay zero.
void follow_weight(Site& site) {
  const Spec weight = site.input(0);
  for (Spec& value : site.values)
    if (value.type == weight.type) value.layout = weight.layout;
}

bool wants_sgd(Site& site) {
  follow_weight(site);
  return true;
}

bool wants_adam(Site& site) {
  // Without eps the padding would become 0 / 0.
  if (static_cast<const AdamStep&>(site.op()).rule.eps == 0)
    site.values[static_cast<std::size_t>(site.in[0])].layout = {};
  follow_weight(site);
  return true;
}

/// Whether weight, gradient and buffers lie alike and the rest is plain; on no, says why.
bool alike(Site& site) {
  const Spec& weight = site.input(0);
  for (const Spec& value : site.values) {
    if (value.type.dtype != DType::f32 && value.type.dtype != DType::i64) {
      site.why = "takes f32 only";
      return false;
    }
    if (value.type == weight.type && value.layout != weight.layout) {
      site.why = text("weight ", weight.layout, " beside ", value.layout);
      return false;
    }
  }
  return true;
}

/// The state of a prepared step: the rule, and how much memory there is.
template <class Rule>
struct Prepared {
  Rule rule;
  std::int64_t count;
  int parts;
  Prepared(const Rule& of, const Site& site)
      : rule(of),
        count(static_cast<std::int64_t>(bytes(site.input(0).type, site.input(0).layout) / sizeof(float))),
        parts(parts_of(site, count, pieces())) {}

  // Parts begin at cache lines.
  std::int64_t pieces() const { return (count + 15) / 16; }
  std::int64_t begin(int part) const { return part_begin(pieces(), parts, part) * 16; }
  std::int64_t end(int part) const { return std::min(begin(part + 1), count); }
};

const float* in(const Args& args, std::size_t i) { return static_cast<const float*>(args.in[i]); }
float* out(const Args& args, std::size_t i) { return static_cast<float*>(args.out[i]); }

/// What the gradients are multiplied with. Where it is 0, the step is left out: the outputs become the inputs from which they step.
float scale_of(const Args& args, bool scaled) { return scaled ? in(args, args.in.size() - 1)[0] : 1.0f; }
void keep(const Args& args, std::initializer_list<std::size_t> from, std::int64_t at, std::int64_t n) {
  for (std::size_t o = 0; o < args.out.size(); ++o)
    if (const float* const source = in(args, from.begin()[o]); source != out(args, o)) std::copy_n(source + at, n, out(args, o) + at);
}

struct PreparedSgd : Prepared<SgdRule> {
  using Prepared::Prepared;
  decltype(&portable::sgd) step = NEURIM_DISPATCH(sgd);
  decltype(&portable::sgd_momentum) momentum_step = NEURIM_DISPATCH(sgd_momentum);
};

Launch prepare_sgd(Site& site) {
  if (!alike(site)) return {};
  auto prepared = std::make_shared<PreparedSgd>(static_cast<const SgdStep&>(site.op()).rule, site);
  const auto launch = [](const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const PreparedSgd*>(self);
    const std::int64_t at = own.begin(part), n = own.end(part) - at;
    const float scale = scale_of(args, own.rule.scaled);
    if (scale == 0) return keep(args, {0, 2}, at, n);
    const SgdNumbers numbers{in(args, own.rule.momentum == 0 ? 2 : 3)[0], static_cast<float>(own.rule.momentum),
                             static_cast<float>(1 - own.rule.dampening),
                             static_cast<float>(own.rule.weight_decay), scale};
    if (own.rule.momentum == 0)
      own.step(numbers, in(args, 0) + at, in(args, 1) + at, out(args, 0) + at, n);
    else
      own.momentum_step(numbers, own.rule.nesterov, in(args, 0) + at, in(args, 1) + at, in(args, 2) + at,
                        out(args, 0) + at, out(args, 1) + at, n);
  };
  return {launch, prepared, prepared->parts};
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

Launch prepare_adam(Site& site) {
  if (!alike(site)) return {};
  auto prepared = std::make_shared<PreparedAdam>(static_cast<const AdamStep&>(site.op()).rule, site);
  const auto launch = [](const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const PreparedAdam*>(self);
    const std::int64_t at = own.begin(part), n = own.end(part) - at;
    const double step = static_cast<double>(*static_cast<const std::int64_t*>(args.in[5]));
    const float scale = scale_of(args, own.rule.scaled);
    if (scale == 0) return keep(args, {0, 2, 3}, at, n);
    own.step(adam_numbers(own.rule, static_cast<double>(in(args, 4)[0]), step, scale), in(args, 0) + at,
             in(args, 1) + at, in(args, 2) + at, in(args, 3) + at, out(args, 0) + at, out(args, 1) + at,
             out(args, 2) + at, n);
  };
  return {launch, prepared, prepared->parts};
}

/// Tensors as they lie: what pads a layout is zero.
struct AllFinite {
  std::vector<std::int64_t> counts;
  int parts;

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const AllFinite*>(self);
    auto* const found = static_cast<char*>(args.scratch);
    if (part == own.parts) {
      *static_cast<bool*>(args.out[0]) = std::all_of(found, found + own.parts, [](char finite) { return finite != 0; });
      return;
    }
    bool all = true;
    for (std::size_t i = 0; i < own.counts.size() && all; ++i) {
      const std::int64_t begin = part_begin(own.counts[i], own.parts, part);
      all = NEURIM_DISPATCH(all_finite)(in(args, i) + begin, part_begin(own.counts[i], own.parts, part + 1) - begin);
    }
    found[part] = all;
  }
};

bool wants_all_finite(Site& site) {
  for (const Spec& value : site.values)
    if (value.layout.rounded) return decline(site, "takes no rounded tensors"), false;
  return true;
}

Launch prepare_all_finite(Site& site) {
  const auto all = std::make_shared<AllFinite>();
  std::int64_t count = 0;
  for (int i = 0; i < std::ssize(site.in); ++i) {
    if (site.input(i).type.dtype != DType::f32) return decline(site, "takes f32 only");
    all->counts.push_back(static_cast<std::int64_t>(bytes(site.input(i).type, site.input(i).layout) / sizeof(float)));
    count += all->counts.back();
  }
  all->parts = parts_of(site, count, count);
  site.scratch = static_cast<std::size_t>(all->parts);
  return {AllFinite::run, all, all->parts, 1};
}

}  // namespace

void cpu_optimizer() {
  add({.op = "all_finite", .name = "cpu", .device = 0, .rank = 20, .prepare = prepare_all_finite, .wants = wants_all_finite});
  add({.op = "sgd_step", .name = "cpu", .device = 0, .rank = 20, .prepare = prepare_sgd, .wants = wants_sgd});
  add({.op = "adam_step",
       .name = "cpu",
       .device = 0,
       .rank = 20,
       .prepare = prepare_adam,
       .wants = wants_adam});
}

}  // namespace neurim
