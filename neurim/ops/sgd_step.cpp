#include "neurim/ops/sgd_step.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

Types SgdStep::infer(std::span<const Type> in) const {
  const std::size_t count = rule.momentum == 0 ? 3 : 4, all = count + rule.scaled;
  check_count(*this, in, all, all);
  check_floating(*this, in[0], "the weight");
  for (const Type& other : in.subspan(1, count - 2))
    require(other == in[0], "sgd_step: the weight is ", in[0], " but its gradient or buffer is ", other);
  check_floating_scalar(*this, in[count - 1], "the learning rate");
  if (rule.scaled) check_floating_scalar(*this, in.back(), "the scale");
  require(!rule.nesterov || (rule.momentum > 0 && rule.dampening == 0),
          "sgd_step: nesterov takes a momentum above 0 and no dampening; momentum is ", rule.momentum, ", dampening ",
          rule.dampening);
  if (rule.momentum == 0) return {in[0]};
  return {in[0], in[0]};
}

std::vector<Sample> SgdStep::samples() const {
  const auto row = [](const SgdRule& update) -> Sample {
    const Type weight{DType::f32, {3, 7}}, lr{DType::f32, {}};
    const auto op = std::make_shared<SgdStep>(update);
    Sample sample{op, {weight, weight, lr}, {{}, {}, {0.01, 0.5}}};
    if (update.momentum != 0) sample = {op, {weight, weight, weight, lr}, {{}, {}, {}, {0.01, 0.5}}};
    if (update.scaled) sample.in.push_back(lr), sample.fill.push_back({0.01, 0.5});
    return sample;
  };
  return {row({}),
          row({.weight_decay = 0.1}),
          row({.momentum = 0.9}),
          row({.momentum = 0.9, .dampening = 0.3}),
          row({.momentum = 0.8, .weight_decay = 0.01, .nesterov = true}),
          row({.weight_decay = 0.1, .scaled = true}),
          row({.momentum = 0.9, .weight_decay = 0.01, .scaled = true})};
}

SgdStepped sgd_step(const Tensor& weight, const Tensor& grad, const Tensor& buffer, const Tensor& lr,
                    const SgdRule& rule, const Tensor& scale) {
  const auto op = std::make_shared<SgdStep>(rule);
  op->rule.scaled = static_cast<bool>(scale);
  Tensors in{weight, grad};
  if (rule.momentum != 0) in.push_back(buffer);
  in.push_back(lr);
  if (scale) in.push_back(scale);
  const Tensors stepped = neurim::apply(op, in);
  return {stepped[0], rule.momentum != 0 ? stepped[1] : Tensor()};
}

void define_sgd_step() { define<SgdStep>(); }

}  // namespace neurim
