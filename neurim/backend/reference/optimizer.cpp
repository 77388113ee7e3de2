// Reference kernels of the optimizer steps.
#include <cmath>

#include "neurim/backend/reference/view.h"
#include "neurim/ops/adam_step.h"
#include "neurim/ops/all_finite.h"
#include "neurim/ops/sgd_step.h"

namespace neurim {

namespace {

using reference::View;

// Both bodies read every input of an element before they write its outputs: the outputs may lie over the
// inputs.

/// What a step that is left out gives: for each output the input from which it steps.
void keep(std::span<const View> in, std::span<const View> out, std::initializer_list<std::size_t> from) {
  for (std::size_t o = 0; o < out.size(); ++o)
    for (std::int64_t i = 0; i < out[o].numel(); ++i) out[o].set(i, in[from.begin()[o]][i]);
}

void sgd_step_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const SgdRule& rule = static_cast<const SgdStep&>(op).rule;
  const double lr = in[rule.momentum == 0 ? 2 : 3][0], scale = rule.scaled ? in.back()[0] : 1;
  if (scale == 0) return keep(in, out, {0, 2});
  for (std::int64_t i = 0; i < out[0].numel(); ++i) {
    const double weight = in[0][i];
    const double gradient = scale * in[1][i] + rule.weight_decay * weight;
    double step = gradient;
    if (rule.momentum != 0) {
      const double buffer = rule.momentum * in[2][i] + (1 - rule.dampening) * gradient;
      step = rule.nesterov ? gradient + rule.momentum * buffer : buffer;
      out[1].set(i, buffer);
    }
    out[0].set(i, weight - lr * step);
  }
}

void adam_step_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const AdamRule& rule = static_cast<const AdamStep&>(op).rule;
  const double lr = in[4][0], step = in[5][0], scale = rule.scaled ? in[6][0] : 1;
  if (scale == 0) return keep(in, out, {0, 2, 3});
  const double correction1 = 1 - std::pow(rule.beta1, step), correction2 = 1 - std::pow(rule.beta2, step);
  for (std::int64_t i = 0; i < out[0].numel(); ++i) {
    double weight = in[0][i], gradient = scale * in[1][i];
    if (rule.decoupled)
      weight *= 1 - lr * rule.weight_decay;
    else
      gradient += rule.weight_decay * weight;
    const double m = rule.beta1 * in[2][i] + (1 - rule.beta1) * gradient;
    const double v = rule.beta2 * in[3][i] + (1 - rule.beta2) * gradient * gradient;
    out[0].set(i, weight - lr / correction1 * m / (std::sqrt(v / correction2) + rule.eps));
    out[1].set(i, m);
    out[2].set(i, v);
  }
}

void all_finite_body(const Op&, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  bool all = true;
  for (const View& each : in)
    for (std::int64_t i = 0; i < each.numel(); ++i) all = all && std::isfinite(each[i]);
  out[0].set(0, all);
}

}  // namespace

void reference_optimizer() {
  reference::define_reference("all_finite", all_finite_body);
  reference::define_reference("sgd_step", sgd_step_body);
  reference::define_reference("adam_step", adam_step_body);
}

}  // namespace neurim
