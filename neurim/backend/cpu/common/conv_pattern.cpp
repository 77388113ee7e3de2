#include "neurim/backend/cpu/common/conv_pattern.h"

#include <algorithm>

#include "neurim/base/text.h"

namespace neurim::cpu {

bool onednn_takes_blocks() {
  static const bool known = [] {
    const auto is_onednn = [](const Kernel& kernel) { return kernel.name == "onednn"; };
    const auto all = kernels("conv2d", 0);
    return isa() == Isa::avx512 && std::any_of(all.begin(), all.end(), is_onednn);
  }();
  return known;
}

Direction direction_of(const Op& op) {
  if (ends_with(op.name(), "_input_grad")) return Direction::input_grad;
  return ends_with(op.name(), "_weight_grad") ? Direction::weight_grad : Direction::forward;
}

ConvSizes sizes_of(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& options) {
  return {x[0], x[1], y[1], x[2], x[3], y[2], y[3], options, {weight[2], weight[3]}};
}

std::optional<Epilogue> read_epilogue(const KernelRequest& request, std::size_t layer, std::size_t end) {
  const Step& conv = request.steps[layer];
  const AddRelu read = read_add_relu(request, layer + 1, end, conv.out[0]);
  if (read.end != end) return std::nullopt;
  for (std::size_t s = layer; s + 1 < end; ++s)
    if (request.place_out(request.steps[s].out[0]) >= 0) return std::nullopt;
  Epilogue epilogue{.bias = direction_of(*conv.op) == Direction::forward && conv.in.size() == 3, .relu = read.relu};
  if (read.add >= 0) {
    epilogue.add = true;
    epilogue.residual = request.place_in(read.add);
    epilogue.add_rounded = request.input(epilogue.residual).layout.storage;
  }
  return epilogue;
}

bool ConvPattern::is_activation(const KernelRequest& request, int value) const {
  const int other = direction == Direction::forward ? y : x;
  const auto like = [&](int one) { return request.values[value].type == request.values[one].type; };
  return value == source() || like(other) || (prologue && like(source()));
}

namespace {

Conv2dOptions options_of(const Op& op, Direction direction) {
  switch (direction) {
    case Direction::forward: return static_cast<const Conv2d&>(op).options;
    case Direction::input_grad: return static_cast<const Conv2dInputGrad&>(op).options;
    default: return static_cast<const Conv2dWeightGrad&>(op).options;
  }
}

/// Reads what follows the anchor.
void match_epilogue(const KernelRequest& request, ConvPattern& pattern) {
  const std::size_t anchor = static_cast<std::size_t>(request.anchor), last = request.steps.size() - 1;
  const bool forward = pattern.direction == Direction::forward;
  const auto is = [&](std::size_t step, std::string_view name) { return request.steps[step].op->name() == name; };
  if (forward && last > anchor && is(anchor + 1, "batch_norm_train")) pattern.norm = anchor + 1;
  if (pattern.direction == Direction::input_grad && last > anchor && is(last, "batch_norm_grad")) pattern.norm = last;
  if (last > anchor && is(last, "max_pool2d")) pattern.pooling = last;
  pattern.epilogue = read_epilogue(request, anchor, pattern.pooling ? last : request.steps.size());
}

}  // namespace

ConvPattern match_conv(const KernelRequest& request) {
  const Step& step = request.steps[request.anchor];
  ConvPattern pattern;
  pattern.direction = direction_of(*step.op);
  pattern.linear = step.op->name() == "linear";
  switch (pattern.direction) {
    case Direction::forward: pattern.x = step.in[0], pattern.weight = step.in[1], pattern.y = step.out[0]; break;
    case Direction::input_grad: pattern.x = step.out[0], pattern.weight = step.in[1], pattern.y = step.in[0]; break;
    case Direction::weight_grad: pattern.x = step.in[1], pattern.weight = step.out[0], pattern.y = step.in[0]; break;
  }
  if (pattern.direction == Direction::forward && step.in.size() == 3) pattern.bias = request.place_in(step.in[2]);
  const auto desc = [&](int value) -> const TensorDesc& { return request.values[value]; };
  const Shape &x = desc(pattern.x).type.shape, &y = desc(pattern.y).type.shape;
  if (!pattern.linear && x.rank() == 4)
    pattern.sizes = sizes_of(x, desc(pattern.weight).type.shape, y, options_of(*step.op, pattern.direction));
  pattern.storage = request.storage();
  pattern.f32 = std::all_of(request.values.begin(), request.values.end(),
                            [](const TensorDesc& value) { return value.type.dtype == DType::f32; });
  pattern.empty = x.numel() == 0 || y.numel() == 0;
  pattern.distinct = step.in[0] != step.in[1];
  pattern.constant_weight = desc(pattern.weight).constant;
  pattern.prologue = request.anchor > 0;
  pattern.followed = static_cast<std::size_t>(request.anchor) + 1 < request.steps.size();
  match_epilogue(request, pattern);
  return pattern;
}

Layout blocked_layout(const KernelRequest& request, int value, const Layout& blocks) {
  const bool stands = request.place_in(value) >= 0 || request.place_out(value) >= 0;
  return request.storage() != StorageDtype::exact && stands ? narrowed(request.values[value], blocks) : blocks;
}

}  // namespace neurim::cpu
