#include "neurim/backend/cpu/common/int8_group.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/ops/quantize.h"

namespace neurim::cpu {

namespace {

constexpr std::int64_t kLanes = 16, kTerms = 1 << 16;  // of a sum that i32 has

/// One constant number.
bool is_number(const TensorDesc& desc) {
  return desc.constant && desc.type.dtype == DType::f32 && desc.type.shape.numel() == 1;
}

/// What makes u8 of the bits of bytes; it is also what their zero point grows by.
std::uint8_t flip_of(const KernelRequest& request, const Whole& bytes) {
  return desc_of(request, bytes.value).type.dtype == DType::i8 ? 0x80 : 0;
}

/// Finds the 8-bit value from which a dequantize before `last` makes this value. False if there is none.
bool read_whole(const KernelRequest& request, int value, std::size_t last, Whole& whole) {
  for (std::size_t s = 0; s < last; ++s) {
    const Step& step = request.steps[s];
    if (step.out[0] != value || step.op->name() != "dequantize") continue;
    whole = {step.in[0], step.in[1], static_cast<const Dequantize&>(*step.op).zero_point};
    return is_byte(desc_of(request, whole.value).type.dtype) && desc_of(request, whole.scale).type.dtype == DType::f32;
  }
  return false;
}

/// Null, or why not. What follows the anchor.
const char* read_behind(const KernelRequest& request, Int8Group& group) {
  int value = request.steps[request.anchor].out[0];
  bool done = false;
  for (std::size_t s = static_cast<std::size_t>(request.anchor) + 1; s < request.steps.size(); ++s) {
    const Step& step = request.steps[s];
    if (step.op->name() == "dequantize") continue;  // of the residual
    if (done || request.place_out(value) >= 0) return "takes quantize at the end";
    if (std::find(step.in.begin(), step.in.end(), value) == step.in.end()) return "takes steps one after the other";
    if (step.op->name() == "add" && group.residual.value < 0 && !group.relu.on && !group.plain) {
      const int other = step.in[0] == value ? step.in[1] : step.in[0];
      if (other == value || !read_whole(request, other, s, group.residual) ||
          group.residual.value == group.weight.value || !is_number(desc_of(request, group.residual.scale)) ||
          desc_of(request, group.residual.value).type.shape != desc_of(request, value).type.shape)
        return "adds a residual of bytes of the same shape";
    } else if (step.op->name() == "quantize" && step.in[0] == value) {
      if (!is_number(desc_of(request, step.in[1]))) return "takes one constant scale of the result";
      group.y = {step.out[0], step.in[1], static_cast<const Quantize&>(*step.op).zero_point};
      done = true;
    } else if (group.relu.on || !read_relu(*step.op, group.relu)) {
      return "takes a sum with a residual, a relu and quantize after it";
    }
    value = step.out[0];
  }
  if (!done) group.y = {value};
  return nullptr;
}

}  // namespace

const char* read_group(const KernelRequest& request, const ConvPattern& pattern, Int8Group& group) {
  const auto anchor = static_cast<std::size_t>(request.anchor);
  const Step& step = request.steps[anchor];
  group.linear = pattern.linear;
  if (anchor != 2 || !read_whole(request, step.in[0], anchor, group.x) ||
      !read_whole(request, step.in[1], anchor, group.weight))
    return "takes an activation and weights that dequantize makes of bytes";
  if (group.x.value == group.weight.value) return "takes two operands";
  const TensorDesc &x = desc_of(request, group.x.value), &weight = desc_of(request, group.weight.value),
                   &scale = desc_of(request, group.weight.scale);
  const Shape &in = x.type.shape, &of = weight.type.shape;
  if (!is_number(desc_of(request, group.x.scale))) return "takes one constant scale of the activation";
  if (weight.type.dtype != DType::i8 || group.weight.zero_point != 0 || !weight.constant)
    return "takes constant weights of i8 around 0";
  const bool per_channel = scale.type.shape.rank() == of.rank() && scale.type.shape[0] == of[0] &&
                           scale.type.shape.numel() == of[0];
  if (!scale.constant || !(per_channel || is_number(scale)))
    return "takes a constant scale of the weights, one or one an output channel";
  if (step.in.size() == 3) {
    group.bias = step.in[2];
    if (!desc_of(request, group.bias).constant || desc_of(request, group.bias).type.dtype != DType::f32)
      return "takes a constant bias of f32";
  }
  if (pattern.empty) return "takes no empty tensors";
  if (group.linear) {
    if (in.rank() > 3) return "takes rows of features, or such of images";
    group.plain = in.rank() < 3;
    const std::int64_t images = group.plain ? Dim(1) : in[0], rows = in.numel() / of[1] / images;
    group.sizes = {images, of[1], of[0], 1, rows, 1, rows, {}, {1, 1}};
  } else {
    group.sizes = pattern.sizes;
  }
  const ConvSizes& g = group.sizes;
  group.depthwise = g.options.groups > 1 && of[0] == g.options.groups && of[1] == 1;
  if (g.options.groups != 1 && !group.depthwise) return "takes no groups but one filter a channel";
  if (!fills_blocks(g.out_channels) || !(group.image() || fills_blocks(g.in_channels)))
    return "takes 8 channels and more or images";
  if (group.image() && g.options.dilation[1] != 1) return "takes kernels without holes over images";
  if (of.numel() / of[0] > kTerms) return "takes sums that 32 bits have";
  return read_behind(request, group);
}

Layout activation_layout(const Int8Group& group, int value) {
  const bool activation = (value == group.x.value && !group.image()) || value == group.residual.value ||
                          value == group.y.value;
  return !activation || group.plain ? Layout{} : group.linear ? kFeatures : kBlocked;
}

const char* ByteOperands::read(const KernelRequest& request, const Int8Group& group) {
  x = request.place_in(group.x.value), weight = request.place_in(group.weight.value),
  y = request.place_out(group.y.value);
  residual = group.residual.value < 0 ? -1 : request.place_in(group.residual.value);
  out_channels = group.sizes.out_channels;
  for (const Whole& whole : {group.x, group.weight, group.residual, group.y})
    if (whole.scale >= 0 && !desc_of(request, whole.scale).known) return "takes known weights and scales";
  flip = flip_of(request, group.x), zero = static_cast<std::uint8_t>(group.x.zero_point + flip);
  const auto number = [&](int value, std::int64_t i) {
    const TensorDesc& of = desc_of(request, value);
    return double{static_cast<const float*>(of.known)[of.type.shape.numel() == 1 ? 0 : i]};
  };
  const std::int64_t channels = group.sizes.out_channels, lanes = blocks_of(channels) * kLanes;
  const bool bytes = group.y.scale >= 0;
  const double y_scale = bytes ? number(group.y.scale, 0) : 1, x_scale = number(group.x.scale, 0);
  bool finite = y_scale > 0;
  const auto narrow = [&](double value) {  // times any sum it is finite
    finite = finite && std::abs(value) < std::exp2(96);
    return static_cast<float>(value);
  };
  if (group.residual.value >= 0) {
    epilogue.add_flip = flip_of(request, group.residual);
    epilogue.add_zero = static_cast<float>(group.residual.zero_point + epilogue.add_flip);
    epilogue.add_scale = narrow(number(group.residual.scale, 0) / y_scale);
  }
  start.assign(lanes, 0);
  scale.assign(lanes, 0), bias.assign(lanes, 0);
  for (std::int64_t c = 0; c < channels; ++c) {
    scale[c] = narrow(x_scale * number(group.weight.scale, c) / y_scale);
    bias[c] = narrow(group.bias < 0 ? 0 : number(group.bias, c) / y_scale);
  }
  // Within u8, less the zero point that is added to them.
  epilogue.flip = flip_of(request, group.y),
  epilogue.zero = static_cast<std::int32_t>(group.y.zero_point + epilogue.flip);
  const float low = bytes ? static_cast<float>(-epilogue.zero) : -std::numeric_limits<float>::infinity(),
              high = bytes ? low + 255 : kNoLimit;
  epilogue.least = group.relu.on ? std::max(low, 0.0f) : low;
  epilogue.most = group.relu.most == group.relu.most ? static_cast<float>(std::fmin(high, group.relu.most / y_scale))
                                                     : high;
  epilogue.floats = !bytes;
  epilogue.cut = group.plain;
  return finite ? nullptr : "takes scales and biases below 2^96, and a positive scale of the result";
}

ByteEpilogue ByteOperands::after(const Args& args, std::int64_t block, std::int64_t at) const {
  ByteEpilogue result = epilogue;
  const std::int64_t channel = block * kLanes;
  result.start = start.data() + channel, result.scale = scale.data() + channel, result.bias = bias.data() + channel;
  result.channels = out_channels - channel;
  if (residual >= 0) result.add = in(args, residual) + at;
  return result;
}

}  // namespace neurim::cpu
