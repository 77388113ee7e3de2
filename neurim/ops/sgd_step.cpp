#include "neurim/ops/sgd_step.h"

#include "neurim/ops/rules.h"

namespace neurim {

Types SgdStep::infer(std::span<const Type> in) const {
  const std::size_t count = rule.momentum == 0 ? 3 : 4;
  check_count(*this, in, count, count);
  check_floating(*this, in[0], "the weight");
  for (const Type& other : in.subspan(1, count - 2))
    require(other == in[0], "sgd_step: the weight is ", in[0], " but its gradient or buffer is ", other);
  check_floating(*this, in.back(), "the learning rate");
  require(in.back().shape.empty(), "sgd_step: the learning rate is ", in.back(), ", not a scalar");
  require(!rule.nesterov || (rule.momentum > 0 && rule.dampening == 0),
          "sgd_step: nesterov takes a momentum above 0 and no dampening; momentum is ", rule.momentum,
          ", dampening ", rule.dampening);
  if (rule.momentum == 0) return {in[0]};
  return {in[0], in[0]};
}

std::vector<Sample> SgdStep::samples() const {
  const auto row = [](const SgdRule& update) -> Sample {
    const Type weight{DType::f32, {3, 7}}, lr{DType::f32, {}};
    const auto op = std::make_shared<SgdStep>(update);
    if (update.momentum == 0) return {op, {weight, weight, lr}, {{}, {}, {0.01, 0.5}}};
    return {op, {weight, weight, weight, lr}, {{}, {}, {}, {0.01, 0.5}}};
  };
  return {row({}), row({.weight_decay = 0.1}), row({.momentum = 0.9}),
          row({.momentum = 0.9, .dampening = 0.3}),
          row({.momentum = 0.8, .weight_decay = 0.01, .nesterov = true})};
}

SgdStepped sgd_step(const Tensor& weight, const Tensor& grad, const Tensor& buffer, const Tensor& lr,
                    const SgdRule& rule) {
  const auto op = std::make_shared<SgdStep>(rule);
  if (rule.momentum == 0) return {apply1(op, {weight, grad, lr}), {}};
  const Tensors stepped = apply(op, {weight, grad, buffer, lr});
  return {stepped[0], stepped[1]};
}

void define_sgd_step() { define<SgdStep>(); }

}  // namespace neurim
