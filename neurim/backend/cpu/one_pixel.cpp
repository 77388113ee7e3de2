// 1x1 convolutions of a single pixel with constant weights, as in squeeze and excitation (Hu et al., "Squeeze-and-excitation
// networks", CVPR'18): so few multiply-adds that calling a library costs more. A part is a run of output channels.
#include <algorithm>
#include <optional>

#include "neurim/backend/cpu/block_product.h"
#include "neurim/backend/cpu/packed_weights.h"
#include "neurim/backend/cpu/physical.h"
#include "neurim/backend/cpu/pointwise.h"
#include "neurim/ops/conv.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kWorthAPart = 16 * 1024;  // weights

struct OnePixel {
  std::int64_t in_channels, out_channels;
  int x, weight, bias;  ///< arguments, or -1
  int result, last;     ///< outputs: where the product and where the last step goes
  int parts;
  std::optional<PointwiseSteps> steps;

  static void run(const void* self, const Args& args, int part) noexcept {
    static_cast<const OnePixel*>(self)->run_part(args, part);
  }

  void run_part(const Args& args, int part) const {
    const auto in = [&](int argument) { return static_cast<const float*>(args.in[static_cast<std::size_t>(argument)]); };
    const auto out = [&](int place) { return static_cast<float*>(args.out[static_cast<std::size_t>(place)]); };
    const std::int64_t blocks = blocks_of(out_channels), weight_block = blocks_of(in_channels) * kLanes * kLanes,
                       first = part_begin(blocks, parts, part), last_block = part_begin(blocks, parts, part + 1);
    BlockProduct product{1, in_channels, kLanes, weight_block, kLanes};
    for (std::int64_t block = first; block < last_block; block += 2) {
      const std::int64_t some = std::min<std::int64_t>(2, last_block - block),
                         there = std::min(some * kLanes, out_channels - block * kLanes);
      product.out_channels = out_channels - block * kLanes;
      alignas(64) float biases[2 * kLanes] = {}, y[2 * kLanes];
      if (bias >= 0) std::copy_n(in(bias) + block * kLanes, there, biases);
      NEURIM_DISPATCH(block_product)(product, some, in(x), in(weight) + block * weight_block, {biases}, y);
      std::copy_n(y, there, out(result) + block * kLanes);
    }
    if (steps) steps->run(args, out(result), out(last), first * kLanes, std::min(last_block * kLanes, out_channels));
  }
};

/// Null, or why the kernel leaves the site to others.
const char* against(const Site& site) {
  for (const Spec& spec : site.values)
    if (spec.type.dtype != DType::f32) return "takes f32 only";
  const Step& step = site.steps[0];
  const auto spec = [&](int value) -> const Spec& { return site.values[static_cast<std::size_t>(value)]; };
  const Shape &x = spec(step.in[0]).type.shape, &weight = spec(step.in[1]).type.shape, &y = spec(step.out[0]).type.shape;
  const Conv2dOptions& o = static_cast<const Conv2d&>(*step.op).options;
  if (!spec(step.in[1]).constant || step.in[0] == step.in[1]) return "takes constant weights";
  const bool alone = weight[2] == 1 && weight[3] == 1 && o.groups == 1 && o.pad == std::array<std::int64_t, 4>{};
  if (!alone || x.numel() != weight[1] || y.numel() != weight[0] || y.numel() == 0) return "takes 1x1 kernels and a single pixel";
  return nullptr;
}

Layout layout_of(const Site& site, int value) {
  return value == site.steps[0].in[1] ? forward_weights(site.values[static_cast<std::size_t>(value)].type) : Layout{};
}

bool wants(Site& site) {
  if (const char* why = against(site)) return decline(site, why), false;
  ask_layouts(site, layout_of);
  return site.steps.size() == 1 || PointwiseSteps().read(site, 1, site.steps.size());
}

Launch prepare(Site& site) {
  if (const char* why = against(site)) return decline(site, why);
  if (!has_layouts(site, layout_of)) return decline(site, "takes plain pixels");
  const Step& step = site.steps[0];
  const Shape& weight = site.values[static_cast<std::size_t>(step.in[1])].type.shape;
  const std::int64_t most = std::min<std::int64_t>((blocks_of(weight[0]) + 1) / 2, site.chunks);
  auto own = std::make_shared<OnePixel>(OnePixel{.in_channels = weight[1],
                                                 .out_channels = weight[0],
                                                 .x = site.place_in(step.in[0]),
                                                 .weight = site.place_in(step.in[1]),
                                                 .bias = step.in.size() == 3 ? site.place_in(step.in[2]) : -1,
                                                 .result = memory_of(site, 0),
                                                 .last = memory_of(site, site.steps.size() - 1)});
  own->parts = static_cast<int>(std::clamp<std::int64_t>(weight.numel() / kWorthAPart, 1, most));
  if (site.steps.size() > 1 && !own->steps.emplace().read(site, 1, site.steps.size())) return {};
  return {OnePixel::run, own, own->parts};
}

}  // namespace

void cpu_one_pixel() {
  add({.op = "conv2d", .name = "cpu one pixel", .rank = 22, .prepare = prepare, .wants = wants, .fuses = true});
}

}  // namespace neurim
