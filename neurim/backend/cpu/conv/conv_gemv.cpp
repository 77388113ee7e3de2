// 1x1 convolutions of a single pixel with constant weights, as in squeeze and excitation (Hu et al.,
// "Squeeze-and-excitation networks", CVPR'18): a matrix-vector product, too small for a library call. A task is a range
// of output channels.
#include <algorithm>
#include <optional>

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/common/packed_weights.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/pointwise/pointwise.h"
#include "neurim/ops/conv.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kLeastTaskWeights = 16 * 1024;  // weights

struct Gemv {
  std::int64_t in_channels, out_channels;
  int x, weight, bias;  ///< arguments, or -1
  int result, last;     ///< the outputs of the product and of the last step
  int tasks;
  std::optional<PointwiseSteps> steps;

  static void run(const void* self, const Args& args, int task) noexcept {
    static_cast<const Gemv*>(self)->run_task(args, task);
  }

  void run_task(const Args& args, int task) const {
    const auto in = [&](int argument) { return static_cast<const float*>(args.in[argument]); };
    const auto out = [&](int place) { return static_cast<float*>(args.out[place]); };
    const std::int64_t blocks = blocks_of(out_channels), weight_block = blocks_of(in_channels) * kLanes * kLanes,
                       first = task_begin(blocks, tasks, task), last_block = task_begin(blocks, tasks, task + 1);
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

/// Null, or why the kernel leaves the request to others.
const char* against(const KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = pattern.against()) return why;
  if (!pattern.constant_weight) return "takes constant weights";
  const auto shape = [&](int value) -> const Shape& { return request.values[value].type.shape; };
  const Conv2dOptions& o = pattern.sizes.options;
  const Shape& weight = shape(pattern.weight);
  const bool plain = weight[2] == 1 && weight[3] == 1 && o.groups == 1 && o.pad == std::array<std::int64_t, 4>{};
  if (!plain || shape(pattern.x).numel() != weight[1] || shape(pattern.y).numel() != weight[0])
    return "takes 1x1 kernels and a single pixel";
  return nullptr;
}

Layout layout_of(const KernelRequest& request, const ConvPattern& pattern, int value) {
  return value == pattern.weight ? forward_weights(request.values[value].type) : Layout{};
}

bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(request, pattern)) return decline(request, why), false;
  ask_layouts(request, layout_of, pattern);
  return !pattern.followed || PointwiseSteps().read(request, 1, request.steps.size());
}

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(request, pattern)) return decline(request, why);
  if (!has_layouts(request, layout_of, pattern)) return decline(request, "takes plain pixels");
  const Shape& weight = request.values[pattern.weight].type.shape;
  const std::int64_t most = std::min<std::int64_t>((blocks_of(weight[0]) + 1) / 2, request.chunks);
  auto own = std::make_shared<Gemv>(Gemv{.in_channels = weight[1],
                                         .out_channels = weight[0],
                                         .x = request.place_in(pattern.x),
                                         .weight = request.place_in(pattern.weight),
                                         .bias = pattern.bias,
                                         .result = memory_of(request, 0),
                                         .last = memory_of(request, request.steps.size() - 1)});
  own->tasks = static_cast<int>(std::clamp<std::int64_t>(weight.numel() / kLeastTaskWeights, 1, most));
  if (pattern.followed && !own->steps.emplace().read(request, 1, request.steps.size())) return {};
  return {Gemv::run, own, own->tasks};
}

}  // namespace

void cpu_conv_gemv() { add_conv_kernel<prepare, propose_layouts>({.op = "conv2d", .name = "cpu gemv", .fuses = true}); }

}  // namespace neurim
