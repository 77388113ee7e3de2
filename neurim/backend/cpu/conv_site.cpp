#include "neurim/backend/cpu/conv_site.h"

#include <algorithm>

#include "neurim/base/text.h"

namespace neurim::cpu {

Direction direction_of(const Site& site) {
  if (ends_with(site.op().name(), "_input_grad")) return Direction::input_grad;
  return ends_with(site.op().name(), "_weight_grad") ? Direction::weight_grad : Direction::forward;
}

Operands operands_of(const Site& site) {
  const Step& step = site.steps[0];
  switch (direction_of(site)) {
    case Direction::forward:
      return {step.in[0], step.in[1], step.out[0]};
    case Direction::input_grad:
      return {step.out[0], step.in[1], step.in[0]};
    default:
      return {step.in[1], step.out[0], step.in[0]};
  }
}

bool read_epilogue(const Site& site, Epilogue& epilogue) {
  epilogue.bias = direction_of(site) == Direction::forward && site.steps[0].in.size() == 3;
  int value = site.steps[0].out[0];
  for (std::size_t s = 1; s < site.steps.size(); ++s) {
    const Step& step = site.steps[s];
    if (step.op->name() == "add" && !epilogue.add && !epilogue.relu) {
      const int other = step.in[0] == value ? step.in[1] : step.in[0];
      if (other == value || site.values[static_cast<std::size_t>(other)].type !=
                                site.values[static_cast<std::size_t>(value)].type)
        return false;
      epilogue.add = true;
      epilogue.residual =
          static_cast<int>(std::find(site.in.begin(), site.in.end(), other) - site.in.begin());
    } else if (step.op->name() == "relu" && !epilogue.relu) {
      epilogue.relu = true;
    } else {
      return false;
    }
    value = step.out[0];
  }
  return site.steps.size() == 1 || (site.out.size() == 1 && site.out[0] == value);
}

}  // namespace neurim::cpu
