// Depthwise convolutions of more than 3x3, which oneDNN computes at a third of what the machine can do, with constant weights,
// and their weight gradient, for which it has its reference loops only.
#include "neurim/backend/cpu/depthwise.h"

#include <algorithm>

#include "neurim/backend/cpu/conv_site.h"
#include "neurim/backend/cpu/conv_steps.h"
#include "neurim/backend/cpu/physical.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/conv.h"

namespace neurim {

namespace {

using namespace cpu;

/// Null, or why the kernels leave the convolution to others.
const char* against(const Site& site, const Type& x, const Shape& weight, const Type& y, std::int64_t groups) {
  for (const Spec& spec : site.values)
    if (spec.type.dtype != DType::f32) return "takes f32 only";
  if (x.shape.numel() == 0 || y.shape.numel() == 0) return "takes no empty tensors";
  if (weight[0] != groups || weight[1] != 1 || !fills_blocks(weight[0]))
    return "takes one filter a channel, of 16 channels and more";
  if (weight[2] <= 3 && weight[3] <= 3) return "leaves kernels of up to 3x3 to oneDNN";
  return nullptr;
}

// --- forward ---

struct Forward {
  DepthwiseShape shape;
  std::int64_t channels;
  int x, weight, bias;  ///< arguments, or -1
  Epilogue epilogue;    ///< where it is all that follows; else `behind` has it
  Behind behind;
  int parts;

  static void run(const void* self, const Args& args, int part) noexcept {
    static_cast<const Forward*>(self)->run_part(args, part);
  }

  void run_part(const Args& args, int part) const {
    const auto in = [&](int argument) { return static_cast<const float*>(args.in[static_cast<std::size_t>(argument)]); };
    float *const room = static_cast<float*>(behind.own(args, part)), *const results = behind.results(args);
    const std::int64_t planes = shape.images * shape.blocks, from = shape.height * shape.width * 16,
                       to = shape.out_height * shape.out_width * 16, taps = shape.kernel[0] * shape.kernel[1] * 16;
    for (std::int64_t plane = part_begin(planes, parts, part); plane < part_begin(planes, parts, part + 1); ++plane) {
      const std::int64_t block = plane % shape.blocks;
      alignas(64) float biases[16] = {};
      if (bias >= 0) std::copy_n(in(bias) + block * 16, std::min<std::int64_t>(16, channels - block * 16), biases);
      NEURIM_DISPATCH(depthwise_plane)
      (shape, in(x) + plane * from, in(weight) + block * taps, biases, epilogue.relu, room, results + plane * to);
      behind.run(args, {}, block, 1, plane * to, (plane + 1) * to, false);
    }
  }
};

/// Null, or why not.
const char* against(const Site& site) {
  const Step& step = site.steps[0];
  const Spec &x = site.values[static_cast<std::size_t>(step.in[0])], &weight = site.values[static_cast<std::size_t>(step.in[1])];
  const Spec& y = site.values[static_cast<std::size_t>(step.out[0])];
  if (!weight.constant) return "takes constant weights";
  if (step.in[0] == step.in[1]) return "takes two operands";
  return against(site, x.type, weight.type.shape, y.type, static_cast<const Conv2d&>(site.op()).options.groups);
}

Layout layout_of(const Site& site, int value) {
  if (value == operands_of(site).weight) return depthwise_weights(site.values[static_cast<std::size_t>(value)].type);
  return is_activation(site, value) ? kBlocked : Layout{};
}

bool read_steps(Site& site, Forward& own) {
  if (!own.behind.read_steps(site)) return false;
  Epilogue epilogue;
  if (read_epilogue(site, epilogue) && !epilogue.add) own.epilogue = epilogue, own.behind.steps.reset();
  return !own.behind.norm || (decline(site, "takes no norm behind it"), false);
}

bool wants(Site& site) {
  if (const char* reason = against(site)) return decline(site, reason), false;
  ask_layouts(site, layout_of);
  Forward own;
  return read_steps(site, own);
}

Launch prepare(Site& site) {
  if (const char* reason = against(site)) return decline(site, reason);
  if (!has_layouts(site, layout_of)) return decline(site, "takes blocks of 16 channels");
  const Step& step = site.steps[0];
  const auto type = [&](int value) -> const Type& { return site.values[static_cast<std::size_t>(value)].type; };
  const Shape& y = type(step.out[0]).shape;
  auto own = std::make_shared<Forward>();
  if (!read_steps(site, *own)) return {};
  own->shape = depthwise_shape(sizes_of(site));
  own->channels = y[1];
  own->x = site.place_in(step.in[0]), own->weight = site.place_in(step.in[1]);
  own->bias = step.in.size() == 3 ? site.place_in(step.in[2]) : -1;
  own->parts = parts_of(site, depthwise_work(own->shape), own->shape.images * own->shape.blocks);
  own->behind.ask_scratch(site, own->parts, static_cast<std::size_t>(depthwise_room(own->shape)) * sizeof(float));
  return {Forward::run, own, own->parts};
}

// --- weight gradient ---

const Conv2dWeightGrad& op_of(const Site& site) { return static_cast<const Conv2dWeightGrad&>(site.op()); }

bool wants_grad(Site& site) {
  Spec &dy = site.values[static_cast<std::size_t>(site.in[0])], &x = site.values[static_cast<std::size_t>(site.in[1])];
  if (const char* reason = against(site, x.type, op_of(site).weight_shape, dy.type, op_of(site).options.groups))
    return decline(site, reason), false;
  dy.layout = x.layout = kBlocked;
  Spec& dw = site.values[static_cast<std::size_t>(site.out[0])];
  dw.layout = depthwise_weights(dw.type);
  return true;
}

struct WeightGrad {
  DepthwiseShape shape;
  decltype(&portable::depthwise_weight_grad) function;
  int parts;

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const WeightGrad*>(self);
    own.function(own.shape, static_cast<const float*>(args.in[0]), static_cast<const float*>(args.in[1]),
                 static_cast<float*>(args.out[0]), part_begin(own.shape.blocks, own.parts, part),
                 part_begin(own.shape.blocks, own.parts, part + 1));
  }
};

Launch prepare_grad(Site& site) {
  const Spec &dy = site.input(0), &x = site.input(1), &dw = site.output(0);
  if (dy.layout != kBlocked || x.layout != kBlocked || dw.layout != depthwise_weights(dw.type))
    return decline(site, "takes blocked16 to filters of 16 channels, not ", dy.layout, " and ", x.layout, " to ", dw.layout);
  WeightGrad all{.shape = depthwise_shape(sizes_of(site)),
                 .function = NEURIM_DISPATCH(depthwise_weight_grad)};
  all.parts = parts_of(site, depthwise_work(all.shape), all.shape.blocks);
  return {WeightGrad::run, std::make_shared<WeightGrad>(all), all.parts};
}

}  // namespace

DepthwiseShape cpu::depthwise_shape(const ConvSizes& sizes) {
  const Conv2dOptions& o = sizes.options;
  return {.images = sizes.images,
          .blocks = blocks_of(sizes.in_channels),
          .height = sizes.height,
          .width = sizes.width,
          .out_height = sizes.out_height,
          .out_width = sizes.out_width,
          .kernel = {sizes.kernel[0], sizes.kernel[1]},
          .stride = {o.stride[0], o.stride[1]},
          .dilation = {o.dilation[0], o.dilation[1]},
          .pad = {o.pad[0], o.pad[1]}};
}

void cpu_depthwise() {
  add({.op = "conv2d", .name = "cpu depthwise", .rank = 20, .prepare = prepare, .wants = wants, .fuses = true});
  add({.op = "conv2d_weight_grad", .name = "cpu depthwise", .rank = 20, .prepare = prepare_grad, .wants = wants_grad});
}

}  // namespace neurim
