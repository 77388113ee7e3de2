#include "neurim/ops/adam_step.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

Types AdamStep::infer(std::span<const Type> in) const {
  const std::size_t count = rule.scaled ? 7 : 6;
  check_count(*this, in, count, count);
  check_floating(*this, in[0], "the weight");
  for (const Type& other : in.subspan(1, 3))
    require(other == in[0], "adam_step: the weight is ", in[0], " but its gradient or a moment is ", other);
  check_floating_scalar(*this, in[4], "the learning rate");
  if (rule.scaled) check_floating_scalar(*this, in[6], "the scale");
  require(in[5] == Type{DType::i64, {}}, "adam_step: the step is ", in[5], ", not an i64 scalar");
  for (double beta : {rule.beta1, rule.beta2})
    require(beta >= 0 && beta < 1, "adam_step: beta ", beta, " is outside [0, 1)");
  return {in[0], in[0], in[0]};
}

std::vector<Sample> AdamStep::samples() const {
  const auto row = [](const AdamRule& update) -> Sample {
    const Type weight{DType::f32, {3, 7}}, scalar{DType::f32, {}};
    Sample sample{std::make_shared<AdamStep>(update),
                  {weight, weight, weight, weight, scalar, {DType::i64, {}}},
                  {{}, {}, {}, {0.01, 1}, {0.01, 0.1}, {1, 10}}};
    if (update.scaled) sample.in.push_back(scalar), sample.fill.push_back({0.01, 0.5});
    return sample;
  };
  return {row({}), row({.weight_decay = 0.1}), row({.weight_decay = 0.1, .decoupled = true}),
          row({.beta1 = 0, .beta2 = 0.9, .eps = 1e-3}), row({.weight_decay = 0.1, .scaled = true})};
}

AdamStepped adam_step(const Tensor& weight, const Tensor& grad, const Tensor& m, const Tensor& v, const Tensor& lr,
                      const Tensor& step, const AdamRule& rule, const Tensor& scale) {
  const auto op = std::make_shared<AdamStep>(rule);
  op->rule.scaled = static_cast<bool>(scale);
  Tensors in{weight, grad, m, v, lr, step};
  if (scale) in.push_back(scale);
  const Tensors stepped = neurim::apply(op, in);
  return {stepped[0], stepped[1], stepped[2]};
}

void define_adam_step() { define<AdamStep>(); }

}  // namespace neurim
