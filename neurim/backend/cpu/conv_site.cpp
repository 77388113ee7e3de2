#include "neurim/backend/cpu/conv_site.h"

#include <algorithm>

#include "neurim/backend/cpu/physical.h"
#include "neurim/base/text.h"

namespace neurim::cpu {

Direction direction_of(const Site& site) {
  if (ends_with(site.op().name(), "_input_grad")) return Direction::input_grad;
  return ends_with(site.op().name(), "_weight_grad") ? Direction::weight_grad : Direction::forward;
}

Operands operands_of(const Site& site) {
  const Step& step = site.steps[static_cast<std::size_t>(site.anchor)];
  switch (direction_of(site)) {
    case Direction::forward:
      return {step.in[0], step.in[1], step.out[0]};
    case Direction::input_grad:
      return {step.out[0], step.in[1], step.in[0]};
    default:
      return {step.in[1], step.out[0], step.in[0]};
  }
}

bool is_activation(const Site& site, int value) {
  const Operands at = operands_of(site);
  const bool forward = direction_of(site) == Direction::forward;
  const int source = forward ? at.x : at.y, result = forward ? at.y : at.x;
  const auto like = [&](int other) {
    return site.values[static_cast<std::size_t>(value)].type == site.values[static_cast<std::size_t>(other)].type;
  };
  return value == source || like(result) || (site.anchor > 0 && like(source));
}

Layout blocked_layout(const Site& site, int value, const Layout& blocks) {
  const bool stands = site.place_in(value) >= 0 || site.place_out(value) >= 0;
  return site.half() != Half::exact && stands ? narrowed(site.values[static_cast<std::size_t>(value)], blocks) : blocks;
}

const Conv2dOptions& options_of(const Site& site) {
  switch (direction_of(site)) {
    case Direction::forward:
      return static_cast<const Conv2d&>(site.op()).options;
    case Direction::input_grad:
      return static_cast<const Conv2dInputGrad&>(site.op()).options;
    default:
      return static_cast<const Conv2dWeightGrad&>(site.op()).options;
  }
}

ConvSizes sizes_of(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& options) {
  return {x[0], x[1], y[1], x[2], x[3], y[2], y[3], options, {weight[2], weight[3]}};
}
ConvSizes sizes_of(const Site& site) {
  const Operands at = operands_of(site);
  const auto shape = [&](int value) -> const Shape& { return site.values[static_cast<std::size_t>(value)].type.shape; };
  return sizes_of(shape(at.x), shape(at.weight), shape(at.y), options_of(site));
}

bool read_epilogue(const Site& site, std::size_t conv, std::size_t last, Epilogue& epilogue) {
  epilogue.bias = direction_of(site) == Direction::forward && site.steps[conv].in.size() == 3;
  int value = site.steps[conv].out[0];
  for (std::size_t s = conv + 1; s < last; ++s) {
    const Step& step = site.steps[s];
    if (std::find(step.in.begin(), step.in.end(), value) == step.in.end()) return false;
    if (step.op->name() == "add" && !epilogue.add && !epilogue.relu.on) {
      const int other = step.in[0] == value ? step.in[1] : step.in[0];
      epilogue.add = true;
      epilogue.residual = site.place_in(other);
      if (epilogue.residual < 0 || other == value ||
          site.values[static_cast<std::size_t>(other)].type != site.values[static_cast<std::size_t>(value)].type)
        return false;
      epilogue.add_rounded = site.input(epilogue.residual).layout.rounded;
    } else if (epilogue.relu.on || !read_relu(*step.op, epilogue.relu)) {
      return false;
    }
    if (site.place_out(value) >= 0) return false;
    value = step.out[0];
  }
  return true;
}

bool read_epilogue(const Site& site, Epilogue& epilogue) {
  return read_epilogue(site, static_cast<std::size_t>(site.anchor), site.steps.size(), epilogue);
}

}  // namespace neurim::cpu
