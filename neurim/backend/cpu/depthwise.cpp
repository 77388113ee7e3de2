// The weight gradient of depthwise convolutions with kernels of more than 3x3, for which oneDNN has its
// reference loops only.
#include "neurim/backend/cpu/depthwise.h"

#include "neurim/backend/cpu/physical.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/conv.h"

namespace neurim {

namespace {

using namespace cpu;

const Conv2dWeightGrad& op_of(const Site& site) { return static_cast<const Conv2dWeightGrad&>(site.op()); }

bool wants(Site& site) {
  const Conv2dWeightGrad& op = op_of(site);
  const Shape& weight = op.weight_shape;
  Spec &dy = site.values[static_cast<std::size_t>(site.in[0])],
       &x = site.values[static_cast<std::size_t>(site.in[1])];
  if (x.type.dtype != DType::f32) return decline(site, "takes f32 only"), false;
  if (x.type.shape.numel() == 0 || dy.type.shape.numel() == 0)
    return decline(site, "takes no empty tensors"), false;
  if (weight[0] != op.options.groups || weight[1] != 1 || !fills_blocks(weight[0]))
    return decline(site, "takes one filter a channel, of 16 channels and more"), false;
  if (weight[2] <= 3 && weight[3] <= 3) return decline(site, "leaves kernels of up to 3x3 to oneDNN"), false;
  dy.layout = x.layout = kBlocked;
  Spec& dw = site.values[static_cast<std::size_t>(site.out[0])];
  dw.layout = depthwise_weights(dw.type);
  return true;
}

struct Depthwise {
  DepthwiseShape shape;
  decltype(&portable::depthwise_weight_grad) function;
  int parts;

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const Depthwise*>(self);
    own.function(own.shape, static_cast<const float*>(args.in[0]), static_cast<const float*>(args.in[1]),
                 static_cast<float*>(args.out[0]), part_begin(own.shape.blocks, own.parts, part),
                 part_begin(own.shape.blocks, own.parts, part + 1));
  }
};

Launch prepare(Site& site) {
  const Spec &dy = site.input(0), &x = site.input(1), &dw = site.output(0);
  if (dy.layout != kBlocked || x.layout != kBlocked || dw.layout != depthwise_weights(dw.type))
    return decline(site, "takes blocked16 to filters of 16 channels, not ", dy.layout, " and ", x.layout,
                   " to ", dw.layout);
  const Conv2dOptions& o = op_of(site).options;
  const Shape &in = x.type.shape, &out = dy.type.shape, &weight = dw.type.shape;
  Depthwise all{.shape = {.images = in[0],
                          .blocks = (in[1] + 15) / 16,
                          .height = in[2],
                          .width = in[3],
                          .out_height = out[2],
                          .out_width = out[3],
                          .kernel = {weight[2], weight[3]},
                          .stride = {o.stride[0], o.stride[1]},
                          .dilation = {o.dilation[0], o.dilation[1]},
                          .pad = {o.pad[0], o.pad[1]}},
                .function = NEURIM_DISPATCH(depthwise_weight_grad)};
  all.parts = parts_of(site, out.numel(), all.shape.blocks);
  return {Depthwise::run, std::make_shared<Depthwise>(all), all.parts};
}

}  // namespace

void cpu_depthwise() {
  add({.op = "conv2d_weight_grad", .name = "cpu depthwise", .rank = 20, .prepare = prepare, .wants = wants});
}

}  // namespace neurim
