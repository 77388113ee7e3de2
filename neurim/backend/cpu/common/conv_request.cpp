#include "neurim/backend/cpu/common/conv_request.h"

#include <algorithm>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/base/text.h"

namespace neurim::cpu {

Direction direction_of(const KernelRequest& request) {
  if (ends_with(request.op().name(), "_input_grad")) return Direction::input_grad;
  return ends_with(request.op().name(), "_weight_grad") ? Direction::weight_grad : Direction::forward;
}

Operands operands_of(const KernelRequest& request) {
  const Step& step = request.steps[request.anchor];
  switch (direction_of(request)) {
    case Direction::forward: return {step.in[0], step.in[1], step.out[0]};
    case Direction::input_grad: return {step.out[0], step.in[1], step.in[0]};
    default: return {step.in[1], step.out[0], step.in[0]};
  }
}

bool is_activation(const KernelRequest& request, int value) {
  const Operands at = operands_of(request);
  const bool forward = direction_of(request) == Direction::forward;
  const int source = forward ? at.x : at.y, result = forward ? at.y : at.x;
  const auto like = [&](int other) { return request.values[value].type == request.values[other].type; };
  return value == source || like(result) || (request.anchor > 0 && like(source));
}

Layout blocked_layout(const KernelRequest& request, int value, const Layout& blocks) {
  const bool stands = request.place_in(value) >= 0 || request.place_out(value) >= 0;
  return request.storage() != StorageDtype::exact && stands ? narrowed(request.values[value], blocks) : blocks;
}

const Conv2dOptions& options_of(const KernelRequest& request) {
  switch (direction_of(request)) {
    case Direction::forward: return static_cast<const Conv2d&>(request.op()).options;
    case Direction::input_grad: return static_cast<const Conv2dInputGrad&>(request.op()).options;
    default: return static_cast<const Conv2dWeightGrad&>(request.op()).options;
  }
}

ConvSizes sizes_of(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& options) {
  return {x[0], x[1], y[1], x[2], x[3], y[2], y[3], options, {weight[2], weight[3]}};
}
ConvSizes sizes_of(const KernelRequest& request) {
  const Operands at = operands_of(request);
  const auto shape = [&](int value) -> const Shape& { return request.values[value].type.shape; };
  return sizes_of(shape(at.x), shape(at.weight), shape(at.y), options_of(request));
}

bool read_epilogue(const KernelRequest& request, std::size_t conv, std::size_t last, Epilogue& epilogue) {
  epilogue.bias = direction_of(request) == Direction::forward && request.steps[conv].in.size() == 3;
  int value = request.steps[conv].out[0];
  for (std::size_t s = conv + 1; s < last; ++s) {
    const Step& step = request.steps[s];
    if (std::find(step.in.begin(), step.in.end(), value) == step.in.end()) return false;
    if (step.op->name() == "add" && !epilogue.add && !epilogue.relu.on) {
      const int other = step.in[0] == value ? step.in[1] : step.in[0];
      epilogue.add = true;
      epilogue.residual = request.place_in(other);
      if (epilogue.residual < 0 || other == value || request.values[other].type != request.values[value].type)
        return false;
      epilogue.add_rounded = request.input(epilogue.residual).layout.storage;
    } else if (epilogue.relu.on || !read_relu(*step.op, epilogue.relu)) {
      return false;
    }
    if (request.place_out(value) >= 0) return false;
    value = step.out[0];
  }
  return true;
}

bool read_epilogue(const KernelRequest& request, Epilogue& epilogue) {
  return read_epilogue(request, static_cast<std::size_t>(request.anchor), request.steps.size(), epilogue);
}

}  // namespace neurim::cpu
