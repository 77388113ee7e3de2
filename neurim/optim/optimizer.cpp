#include "neurim/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_set>

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/all_finite.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/div.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/where.h"

namespace neurim {

Optimizer::Optimizer(const Parameters& parameters, double lr, double weight_decay, bool decay_1d,
                     const Names& buffers) {
  require(weight_decay >= 0, "optimizer: weight_decay is ", weight_decay, ", it must not be negative");
  std::unordered_set<const Value*> seen;
  for (const Parameter& p : parameters) {
    if (p.role != Role::weight || !seen.insert(p.tensor.value()).second) continue;
    Weight slot{p.tensor, {}, decay_1d || p.tensor.rank() > 1 ? weight_decay : 0};
    for (const std::string& buffer : buffers) {
      slot.buffers.push_back(Tensor::full(p.tensor.type(), 0, p.tensor.device()));
      buffers_.push_back({text(p.name, '.', buffer), slot.buffers.back()});
    }
    weights_.push_back(p.tensor);
    slots_.push_back(std::move(slot));
  }
  require(!weights_.empty(), "optimizer: there is no weight to step; are all parameters frozen?");
  const Device device = weights_.front().device();
  lr_ = Tensor::scalar(0, DType::f32, device);
  steps_ = Tensor::scalar(0, DType::i64, device);
  set_lr(lr);
}

void Optimizer::set_lr(double lr) {
  require(std::isfinite(lr) && lr >= 0, "optimizer: the learning rate is ", lr, ", it must be finite and not negative");
  const float value = static_cast<float>(lr);
  lr_.write(&value);
}

void Optimizer::step(const Tensors& gradients) {
  require(gradients.size() == weights_.size(), "optimizer: got ", gradients.size(), " gradients for ", weights_.size(),
          " weights; give one per tensor of weights(), in order");
  step_where({}, gradients);
}

/// `finite`: of gradients of a scaled loss whether they are, as else nothing moves; undefined: they are of the loss
/// itself.
void Optimizer::step_where(const Tensor& finite, const Tensors& gradients) {
  const Common common{lr_, steps_ + 1, finite ? cast(finite, DType::f32) / loss_scale_ : Tensor()};
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (gradients[i]) update(slots_[i], gradients[i], common);
  steps_.assign(finite ? where(finite, common.step, steps_) : common.step);
}

void Optimizer::scale_losses() {
  loss_scale_ = Tensor::scalar(65536, DType::f32, lr_.device());
  finite_steps_ = Tensor::scalar(0, DType::i64, lr_.device());
}

void Optimizer::minimize(const Tensor& loss) {
  if (!loss_scale_) return step(gradients(std::span(&loss, 1), weights_));
  constexpr std::int64_t kPatience = 2000;
  const Tensor scaled = loss * loss_scale_;
  const Tensors all = gradients(std::span(&scaled, 1), weights_);
  Tensors known;
  std::copy_if(all.begin(), all.end(), std::back_inserter(known),
               [](const Tensor& gradient) { return static_cast<bool>(gradient); });
  const Tensor finite = all_finite(known);
  step_where(finite, all);
  const Tensor counted = where(finite, finite_steps_ + 1, scalar_like(finite_steps_, 0)),
               grows = greater_equal(counted, scalar_like(counted, kPatience));
  const Tensor doubled = where(grows, loss_scale_ * 2, loss_scale_);
  loss_scale_.assign(where(finite, doubled, loss_scale_ * 0.5));
  finite_steps_.assign(where(grows, scalar_like(counted, 0), counted));
}

void Optimizer::parts(Parts& p) {
  p("lr", lr_, Role::state)("step", steps_, Role::state);
  if (loss_scale_) p("loss_scale", loss_scale_, Role::state)("finite_steps", finite_steps_, Role::state);
  for (Buffer& buffer : buffers_) p(buffer.name, buffer.tensor, Role::state);
}

}  // namespace neurim
