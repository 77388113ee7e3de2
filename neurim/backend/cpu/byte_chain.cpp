#include "neurim/backend/cpu/byte_chain.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neurim/backend/cpu/physical.h"
#include "neurim/ops/quantize.h"

namespace neurim::cpu {

namespace {

constexpr std::int64_t kLanes = 16, kTerms = 1 << 16;  // of a sum that i32 has

/// One constant number.
bool is_number(const Spec& spec) { return spec.constant && spec.type.dtype == DType::f32 && spec.type.shape.numel() == 1; }

/// What makes u8 of the bits of bytes; it is also what their zero point grows by.
std::uint8_t flip_of(const Site& site, const Whole& bytes) { return spec_of(site, bytes.value).type.dtype == DType::i8 ? 0x80 : 0; }

/// What stands for a value before `last`; nothing: the value is none that a dequantize makes of bytes for this site.
bool read_whole(const Site& site, int value, std::size_t last, Whole& whole) {
  for (std::size_t s = 0; s < last; ++s) {
    const Step& step = site.steps[s];
    if (step.out[0] != value || step.op->name() != "dequantize") continue;
    whole = {step.in[0], step.in[1], static_cast<const Dequantize&>(*step.op).zero_point};
    return is_byte(spec_of(site, whole.value).type.dtype) && spec_of(site, whole.scale).type.dtype == DType::f32;
  }
  return false;
}

/// Null, or why not. What stands behind the anchor.
const char* read_behind(const Site& site, ByteChain& chain) {
  int value = site.steps[static_cast<std::size_t>(site.anchor)].out[0];
  bool done = false;
  for (std::size_t s = static_cast<std::size_t>(site.anchor) + 1; s < site.steps.size(); ++s) {
    const Step& step = site.steps[s];
    if (step.op->name() == "dequantize") continue;  // of the residual
    if (done || site.place_out(value) >= 0) return "takes quantize at the end";
    if (std::find(step.in.begin(), step.in.end(), value) == step.in.end()) return "takes steps one behind the other";
    if (step.op->name() == "add" && chain.residual.value < 0 && !chain.relu.on && !chain.plain) {
      const int other = step.in[0] == value ? step.in[1] : step.in[0];
      if (other == value || !read_whole(site, other, s, chain.residual) || chain.residual.value == chain.weight.value ||
          !is_number(spec_of(site, chain.residual.scale)) ||
          spec_of(site, chain.residual.value).type.shape != spec_of(site, value).type.shape)
        return "adds a residual of bytes of the same shape";
    } else if (step.op->name() == "quantize" && step.in[0] == value) {
      if (!is_number(spec_of(site, step.in[1]))) return "takes one constant scale of the result";
      chain.y = {step.out[0], step.in[1], static_cast<const Quantize&>(*step.op).zero_point};
      done = true;
    } else if (chain.relu.on || !read_relu(*step.op, chain.relu)) {
      return "takes a sum with a residual, a relu and quantize behind it";
    }
    value = step.out[0];
  }
  if (!done) chain.y = {value};
  return nullptr;
}

}  // namespace

const char* read_chain(const Site& site, ByteChain& chain) {
  const auto anchor = static_cast<std::size_t>(site.anchor);
  const Step& step = site.steps[anchor];
  chain.linear = site.op().name() == "linear";
  if (anchor != 2 || !read_whole(site, step.in[0], anchor, chain.x) || !read_whole(site, step.in[1], anchor, chain.weight))
    return "takes an activation and weights that dequantize makes of bytes";
  if (chain.x.value == chain.weight.value) return "takes two operands";
  const Spec &x = spec_of(site, chain.x.value), &weight = spec_of(site, chain.weight.value), &scale = spec_of(site, chain.weight.scale);
  const Shape &in = x.type.shape, &of = weight.type.shape, &out = spec_of(site, step.out[0]).type.shape;
  if (!is_number(spec_of(site, chain.x.scale))) return "takes one constant scale of the activation";
  if (weight.type.dtype != DType::i8 || chain.weight.zero_point != 0 || !weight.constant)
    return "takes constant weights of i8 around 0";
  const bool per_channel =
      scale.type.shape.rank() == of.rank() && scale.type.shape[0] == of[0] && scale.type.shape.numel() == of[0];
  if (!scale.constant || !(per_channel || is_number(scale)))
    return "takes a constant scale of the weights, one or one an output channel";
  if (step.in.size() == 3) {
    chain.bias = step.in[2];
    if (!spec_of(site, chain.bias).constant || spec_of(site, chain.bias).type.dtype != DType::f32)
      return "takes a constant bias of f32";
  }
  if (in.numel() == 0 || out.numel() == 0) return "takes no empty tensors";
  if (chain.linear) {
    if (in.rank() > 3) return "takes rows of features, or such of images";
    chain.plain = in.rank() < 3;
    const std::int64_t images = chain.plain ? 1 : in[0], rows = in.numel() / of[1] / images;
    chain.sizes = {images, of[1], of[0], 1, rows, 1, rows, {}, {1, 1}};
  } else {
    chain.sizes = sizes_of(site);
  }
  const ConvSizes& g = chain.sizes;
  chain.depthwise = g.options.groups > 1 && of[0] == g.options.groups && of[1] == 1;
  if (g.options.groups != 1 && !chain.depthwise) return "takes no groups but one filter a channel";
  if (!fills_blocks(g.out_channels) || !(chain.picture() || fills_blocks(g.in_channels)))
    return "takes 8 channels and more or pictures";
  if (chain.picture() && g.options.dilation[1] != 1) return "takes kernels without holes over pictures";
  if (of.numel() / of[0] > kTerms) return "takes sums that 32 bits have";
  return read_behind(site, chain);
}

Layout activation_layout(const ByteChain& chain, int value) {
  const bool activation = (value == chain.x.value && !chain.picture()) || value == chain.residual.value || value == chain.y.value;
  return !activation || chain.plain ? Layout{} : chain.linear ? kFeatures : kBlocked;
}

const char* ByteOperands::read(const Site& site, const ByteChain& chain) {
  x = site.place_in(chain.x.value), weight = site.place_in(chain.weight.value), y = site.place_out(chain.y.value);
  residual = chain.residual.value < 0 ? -1 : site.place_in(chain.residual.value);
  out_channels = chain.sizes.out_channels;
  for (const Whole& whole : {chain.x, chain.weight, chain.residual, chain.y})
    if (whole.scale >= 0 && !spec_of(site, whole.scale).known) return "takes known weights and scales";
  flip = flip_of(site, chain.x), zero = static_cast<std::uint8_t>(chain.x.zero_point + flip);
  const auto number = [&](int value, std::int64_t i) {
    const Spec& of = spec_of(site, value);
    return double{static_cast<const float*>(of.known)[of.type.shape.numel() == 1 ? 0 : i]};
  };
  const std::int64_t channels = chain.sizes.out_channels, lanes = blocks_of(channels) * kLanes;
  const bool bytes = chain.y.scale >= 0;
  const double y_scale = bytes ? number(chain.y.scale, 0) : 1, x_scale = number(chain.x.scale, 0);
  bool finite = y_scale > 0;
  const auto narrow = [&](double value) {  // times any sum it is finite
    finite = finite && std::abs(value) < std::exp2(96);
    return static_cast<float>(value);
  };
  if (chain.residual.value >= 0) {
    epilogue.add_flip = flip_of(site, chain.residual);
    epilogue.add_zero = static_cast<float>(chain.residual.zero_point + epilogue.add_flip);
    epilogue.add_scale = narrow(number(chain.residual.scale, 0) / y_scale);
  }
  start.assign(static_cast<std::size_t>(lanes), 0);
  scale.assign(static_cast<std::size_t>(lanes), 0), bias.assign(static_cast<std::size_t>(lanes), 0);
  for (std::int64_t c = 0; c < channels; ++c) {
    scale[static_cast<std::size_t>(c)] = narrow(x_scale * number(chain.weight.scale, c) / y_scale);
    bias[static_cast<std::size_t>(c)] = narrow(chain.bias < 0 ? 0 : number(chain.bias, c) / y_scale);
  }
  // Within u8, less the zero point that is added to them.
  epilogue.flip = flip_of(site, chain.y), epilogue.zero = static_cast<std::int32_t>(chain.y.zero_point + epilogue.flip);
  const float low = bytes ? static_cast<float>(-epilogue.zero) : -std::numeric_limits<float>::infinity(), high = bytes ? low + 255 : kNoLimit;
  epilogue.least = chain.relu.on ? std::max(low, 0.0f) : low;
  epilogue.most = chain.relu.most == chain.relu.most ? static_cast<float>(std::fmin(high, chain.relu.most / y_scale)) : high;
  epilogue.floats = !bytes;
  epilogue.cut = chain.plain;
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
