#include "neurim/optim/gradient_transform.h"

#include <cmath>

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/all_finite.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/div.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/sqrt.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sum.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

constexpr double kFirstScale = 65536;
constexpr std::int64_t kPatience = 2000;

void check_bound(double most) {
  require(std::isfinite(most) && most > 0, "clip_grad: the bound is ", most, "; it is a number above 0");
}

/// `scale` where it lets the weights move, else still 0.
Tensor unless_still(const Tensor& before, const Tensor& scale) {
  if (!before) return scale;
  const Tensor still = scalar_like(before, 0);
  return where(equal(before, still), still, scale);
}

}  // namespace

Tensors Gradients::known() const {
  Tensors known;
  for (const Tensor& gradient : all)
    if (gradient) known.push_back(gradient);
  return known;
}

void Gradients::as_sums(double count) {
  if (samples) return;
  for (Tensor& gradient : all)
    if (gradient) gradient = gradient * count, samples = Tensor::scalar(count, DType::f32, gradient.device());
}

void Gradients::as_means() {
  if (!samples) return;
  multiply(scalar_like(samples, 1) / samples);
  samples = {};
}

void Gradients::multiply(const Tensor& factor) { scale = scale ? scale * factor : factor; }

AccumulateGradients::AccumulateGradients(const Tensors& weights, std::vector<std::string> names, std::size_t parts,
                                         Order order)
    : weights_(weights),
      names_(std::move(names)),
      sums_(parts),
      order_(std::move(order)),
      samples_(Tensor::scalar(0, DType::f32, weights.front().device())) {
  NEURIM_ASSERT(names_.size() == weights.size() && parts >= 1 && order_.size() + 1 == parts);
  for (Tensors& sums : sums_) sums.resize(weights.size());
  restore();
}

void AccumulateGradients::restore() {
  for (Tensors& sums : sums_)
    for (std::size_t i = 0; i < sums.size(); ++i)
      if (!sums[i]) sums[i] = Tensor::full(weights_[i].type(), 0, weights_[i].device());
}

void AccumulateGradients::hold(bool holds, std::size_t part) {
  NEURIM_ASSERT(part < sums_.size() && (holds || part + 1 == sums_.size()));
  holds_ = holds, part_ = part;
}

void AccumulateGradients::keep(const std::vector<bool>& kept) {
  for (Tensors& sums : sums_)
    for (std::size_t i = 0; i < sums.size(); ++i)
      if (!kept[i]) sums[i] = {};
}

void AccumulateGradients::forget() {
  for (const Tensors& sums : sums_)
    for (const Tensor& sum : sums)
      if (sum) sum.assign(broadcast_to(scalar_like(sum, 0), sum.shape()));
  samples_.assign(scalar_like(samples_, 0));
}

std::vector<float> AccumulateGradients::sums() const {
  std::vector<float> all;
  for (const Tensor& sum : sums_[0]) {
    if (!sum) continue;
    const std::vector<float> values = sum.values<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  all.push_back(static_cast<float>(samples_.item()));
  return all;
}

void AccumulateGradients::set_sums(std::span<const float> sums) {
  const float* at = sums.data();
  for (const Tensor& sum : sums_[0]) {
    if (!sum) continue;
    sum.write(at);
    at += std::int64_t{sum.numel()};
  }
  samples_.write(at++);
  NEURIM_ASSERT(at == sums.data() + sums.size());
}

bool AccumulateGradients::apply(Gradients& gradients, double samples) {
  gradients.as_sums(samples);
  const Tensor count = samples_ + samples;
  for (std::size_t i = 0; i < gradients.all.size(); ++i) {
    Tensor& gradient = gradients.all[i];
    if (!gradient) continue;
    const Tensor own = sums_[part_][i] + gradient;
    if (holds_) {
      sums_[part_][i].assign(own);
      continue;
    }
    Tensors all;
    for (std::size_t p = 0; p < sums_.size(); ++p) all.push_back(p == part_ ? own : sums_[p][i]);
    for (const auto& [into, other] : order_) all[into] = all[into] + all[other];
    gradient = all[0];
    for (const Tensors& sums : sums_) sums[i].assign(broadcast_to(scalar_like(gradient, 0), gradient.shape()));
  }
  samples_.assign(holds_ ? count : scalar_like(samples_, 0));
  gradients.samples = count;
  return !holds_;
}

void AccumulateGradients::parts(Parts& parts) {
  parts("samples", samples_, Role::state);
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (sums_[0][i]) parts(text(names_[i], ".gradient"), sums_[0][i], Role::state);
}

ScaleLoss::ScaleLoss(Device device)
    : scale_(Tensor::scalar(kFirstScale, DType::f32, device)), finite_steps_(Tensor::scalar(0, DType::i64, device)) {}

Tensor ScaleLoss::scaled(const Tensor& loss) const { return loss * scale_; }

bool ScaleLoss::apply(Gradients& gradients, double /*samples*/) {
  gradients.as_means();
  const Tensors known = gradients.known();
  Tensor finite = known.empty() ? equal(scale_, scale_) : all_finite(known);  // all are other processes'
  if (gradients.total) {
    const Tensor others = gradients.total(cast(finite, DType::f32) * -1 + 1);
    finite = equal(others, scalar_like(others, 0));
  }
  gradients.multiply(cast(finite, DType::f32) / scale_);
  const Tensor counted = where(finite, finite_steps_ + 1, scalar_like(finite_steps_, 0)),
               grows = greater_equal(counted, scalar_like(counted, kPatience));
  const Tensor doubled = where(grows, scale_ * 2, scale_);
  scale_.assign(where(finite, doubled, scale_ * 0.5));
  finite_steps_.assign(where(grows, scalar_like(counted, 0), counted));
  return true;
}

void ScaleLoss::parts(Parts& parts) {
  parts("loss_scale", scale_, Role::state)("finite_steps", finite_steps_, Role::state);
}

ClipGradientNorm::ClipGradientNorm(double most) : most_(most) { check_bound(most); }

bool ClipGradientNorm::apply(Gradients& gradients, double /*samples*/) {
  constexpr double kApart = 1e-6;  // PyTorch's
  gradients.as_means();
  Tensor squares;
  for (std::size_t i = 0; i < gradients.all.size(); ++i) {
    if (!gradients.all[i]) continue;
    Tensor own = sum(square(cast(gradients.all[i], DType::f32)));
    if (!gradients.copies.empty()) own = own * (1 / gradients.copies[i]);
    squares = squares ? squares + own : own;
  }
  if (!squares) squares = scalar_like(gradients.scale, 0);  // other processes have all gradients
  if (gradients.total) squares = gradients.total(squares);
  const Tensor scale = gradients.scale;
  const Tensor norm = scale ? sqrt(squares) * scale : sqrt(squares);
  const Tensor factor = clamp(scalar_like(norm, most_) / (norm + kApart), 0, 1) + norm * 0;  // NaN of an infinite norm
  gradients.multiply(factor);
  gradients.scale = unless_still(scale, gradients.scale);
  return true;
}

ClipGradientValue::ClipGradientValue(double most) : most_(most) { check_bound(most); }

bool ClipGradientValue::apply(Gradients& gradients, double /*samples*/) {
  gradients.as_means();
  const Tensor scale = gradients.scale;
  for (Tensor& gradient : gradients.all)
    if (gradient) gradient = clamp(scale ? gradient * cast(scale, gradient.dtype()) : gradient, -most_, most_);
  if (scale) gradients.scale = unless_still(scale, scalar_like(scale, 1));
  return true;
}

}  // namespace neurim
