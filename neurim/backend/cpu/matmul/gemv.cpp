#include "neurim/backend/cpu/matmul/gemv.h"

#include <algorithm>
#include <optional>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/packing/vnni_weights.h"
#include "neurim/backend/cpu/pointwise/pointwise.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLeastTaskWeights = 64 * 1024;  // weights of a task

struct OneRow {
  std::int64_t in, out;
  int tasks;
  bool bias;
  StorageDtype rounded;  ///< storage of the weights
  int result, last;      // indices of outputs: of the product and of the last step
  std::optional<PointwiseSteps> steps;

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const OneRow*>(self);
    const auto in = [&](std::size_t argument) { return static_cast<const float*>(args.in[argument]); };
    const auto output = [&](int place) { return static_cast<float*>(args.out[place]); };
    const std::int64_t first = task_begin(own.out, own.tasks, task), last = task_begin(own.out, own.tasks, task + 1);
    NEURIM_DISPATCH(row_times_weights)
    (in(0), in(1), own.rounded, own.bias ? in(2) : nullptr, own.in, first, last, output(own.result));
    if (own.steps) own.steps->run(args, output(own.result), output(own.last), first, last);
  }
};

/// Null, or why the kernel declines the request.
const char* against(const KernelRequest& request) {
  for (const TensorDesc& desc : request.values)
    if (desc.type.dtype != DType::f32) return "takes f32 only";
  if (request.steps[0].in[0] == request.steps[0].in[1]) return "takes two operands";
  const Shape &x = request.input(0).type.shape, &weight = request.input(1).type.shape;
  if (x.numel() == 0 || weight.numel() == 0) return "takes no empty tensors";
  if (x.numel() != x[-1]) return "takes one row";
  if (!operands_apart(request)) return "fuses steps after a product of different operands only";
  return nullptr;
}

/// The layout of constant weights. Reading them takes nearly all the time, so 16-bit storage pays.
Layout weights_layout(const KernelRequest& request) {
  const TensorDesc& weight = request.input(1);
  return request.storage() && weight.constant ? rounded_rows(weight.type, request.storage()) : Layout{};
}

bool propose_layouts(KernelRequest& request) {
  for (TensorDesc& desc : request.values) desc.layout = {};
  if (const char* why = against(request)) return decline(request, why), false;
  request.values[request.in[1]].layout = weights_layout(request);
  return request.steps.size() == 1 || PointwiseSteps().read(request, 1, request.steps.size());
}

Launch prepare(KernelRequest& request) {
  if (const char* why = against(request)) return decline(request, why);
  const Shape& weight = request.input(1).type.shape;
  const Layout& layout = request.input(1).layout;
  if (layout != Layout{} && layout != weights_layout(request))
    return decline(request, "takes plain weights, or rounded rows");
  const std::int64_t tasks = std::clamp<std::int64_t>(weight.numel() / kLeastTaskWeights, 1,
                                                      std::min<std::int64_t>(weight[0], request.chunks));
  auto own = std::make_shared<OneRow>(OneRow{weight[1], weight[0], static_cast<int>(tasks),
                                             request.steps[0].in.size() == 3,
                                             layout == Layout{} ? StorageDtype::exact : request.storage(),
                                             memory_of(request, 0), memory_of(request, request.steps.size() - 1)});
  if (own->rounded) request.used_dtype = request.compute_dtype;
  if (request.steps.size() > 1 && !own->steps.emplace().read(request, 1, request.steps.size())) return {};
  return {OneRow::run, own, own->tasks};
}

}  // namespace

void cpu_gemv() {
  cpu::add_kernel(
      {.op = "linear", .name = "cpu gemv", .prepare = prepare, .propose_layouts = propose_layouts, .fuses = true});
}

}  // namespace neurim
