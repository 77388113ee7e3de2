#include "neurim/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/where.h"

namespace neurim {

/// Throws Error(usage) where no weight has a gradient.
static Tensors gradients_of_loss(const Tensor& loss, const Tensors& weights) {
  Tensors all = gradients(std::span(&loss, 1), weights);
  require(std::any_of(all.begin(), all.end(), [](const Tensor& each) { return static_cast<bool>(each); }),
          "optimizer: the loss has no gradient for any weight; detach(), or an op without one, such as a comparison or "
          "argmax, stands between them");
  return all;
}

Optimizer::Optimizer(const Parameters& parameters, double lr, double weight_decay, bool decay_1d,
                     const Names& buffers) {
  require(weight_decay >= 0, "optimizer: weight_decay is ", weight_decay, ", it must not be negative");
  std::unordered_set<const Value*> seen;
  for (const Parameter& p : parameters) {
    if (p.role != Role::weight || !seen.insert(p.tensor.value()).second) continue;
    Weight slot{p.tensor, {}, decay_1d || p.tensor.rank() > 1 ? weight_decay : 0};
    for (const std::string& buffer : buffers) {
      slot.buffers.push_back(Tensor::full(p.tensor.type(), 0, p.tensor.device()));
      buffers_.push_back({text(p.name, '.', buffer), slot.buffers.back(), weights_.size()});
    }
    weights_.push_back(p.tensor);
    names_.push_back(p.name);
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
  step(Gradients{gradients, {}});
}

void Optimizer::step(const Gradients& gradients) {
  const Common common{lr_, steps_ + 1, gradients.scale};
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (gradients.all[i] && slots_[i].kept) update(slots_[i], gradients.all[i], common);
  const Tensor& scale = common.scale;
  steps_.assign(scale ? where(equal(scale, scalar_like(scale, 0)), steps_, common.step) : common.step);
}

void Optimizer::add(std::unique_ptr<GradientTransform> transform) { chain_.push_back(std::move(transform)); }

void Optimizer::accumulate(std::size_t parts, AccumulateGradients::Order order) {
  auto link = std::make_unique<AccumulateGradients>(weights_, names_, parts, std::move(order));
  accumulate_ = link.get();
  add(std::move(link));
}

void Optimizer::hold(bool holds, std::size_t part) {
  require(accumulate_ || !holds, "optimizer: it does not add up gradients; call accumulate() first");
  if (accumulate_) accumulate_->hold(holds, part);
}

void Optimizer::scale_losses() {
  auto link = std::make_unique<ScaleLoss>(lr_.device());
  scale_loss_ = link.get();
  add(std::move(link));
}

void Optimizer::minimize(const Tensor& loss, double samples) {
  if (only_forward_) return;
  const Tensor scaled = this->scaled(loss);
  if (!sums_losses_) return go_through_chain({gradients_of_loss(scaled, weights_), {}}, samples);
  const Tensor sum = scaled * samples;
  go_through_chain({.all = gradients_of_loss(sum, weights_),
                    .scale = {},
                    .samples = Tensor::scalar(samples, DType::f32, loss.device())},
                   samples);
}

void Optimizer::follow() {
  Gradients none;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const bool elsewhere = accumulate_ && !accumulate_->has(i);
    none.all.push_back(elsewhere ? Tensor() : broadcast_to(scalar_like(weights_[i], 0), weights_[i].shape()));
  }
  go_through_chain(std::move(none), 0);
}

Tensors Optimizer::backward(const Tensors& of, const Tensors& seeds, double samples, const Tensors& wrt) {
  Tensors all = weights_;
  all.insert(all.end(), wrt.begin(), wrt.end());
  const Tensors found = neurim::gradients(of, all, seeds);
  const auto weights = static_cast<std::ptrdiff_t>(weights_.size());
  go_through_chain({.all = {found.begin(), found.begin() + weights},
                    .scale = {},
                    .samples = Tensor::scalar(samples, DType::f32, weights_.front().device())},
                   samples);
  return {found.begin() + weights, found.end()};
}

void Optimizer::go_through_chain(Gradients gradients, double samples) {
  for (const auto& link : chain_)
    if (!link->apply(gradients, samples)) return;
  gradients.as_means();
  step(gradients);
  for (const auto& link : chain_) link->after(weights_);
}

void Optimizer::keep(const std::vector<bool>& kept) {
  NEURIM_ASSERT(kept.size() == slots_.size());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].kept = kept[i];
    if (!kept[i]) slots_[i].buffers.clear();
  }
  for (Buffer& buffer : buffers_)
    if (!kept[buffer.weight]) buffer.tensor = {};
}

const std::vector<Optimizer::Buffer>& Optimizer::all_buffers() {
  for (Buffer& buffer : buffers_)
    if (!buffer.tensor)
      buffer.tensor = Tensor::full(weights_[buffer.weight].type(), 0, weights_[buffer.weight].device());
  return buffers_;
}

void Optimizer::parts(Parts& p) {
  p("lr", lr_, Role::state)("step", steps_, Role::state);
  for (const auto& link : chain_) link->parts(p);
  for (Buffer& buffer : buffers_)
    if (buffer.tensor) p(buffer.name, buffer.tensor, Role::state);
}

}  // namespace neurim
