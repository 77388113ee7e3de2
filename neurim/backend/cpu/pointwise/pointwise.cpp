#include "neurim/backend/cpu/pointwise/pointwise.h"

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/common/relu.h"
#include "neurim/graph/kernel.h"

namespace neurim {

namespace {

using namespace cpu;

StepFunction function_named(std::string_view name) {
  const StepTable table = NEURIM_DISPATCH(step_table)();
  const auto row = std::find_if(table.rows, table.rows + table.count, [&](const StepRow& r) { return r.name == name; });
  return row == table.rows + table.count ? nullptr : row->run;
}
StepFunction function_of(const Op& op) { return function_named(formula_name(op)); }

Numbers numbers_of(const Op& op) {
  const Formula formula = op.formula();
  return {static_cast<float>(formula.a), static_cast<float>(formula.b)};
}

/// How a fusion group stores values of the dtype, if it can.
std::optional<PointwiseValue::Stored> stored_as(DType dtype) {
  switch (dtype) {
    case DType::f32: return PointwiseValue::f32;
    case DType::boolean: return PointwiseValue::truth;
    case DType::u8: return PointwiseValue::u8;
    case DType::i8: return PointwiseValue::i8;
    default: return std::nullopt;
  }
}
/// How the value is stored in memory.
PointwiseValue::Stored stored(const TensorDesc& value) {
  switch (value.layout.storage) {
    case StorageDtype::bf16: return PointwiseValue::bf16;
    case StorageDtype::f16: return PointwiseValue::f16;
    default: return *stored_as(value.type.dtype);
  }
}

TensorDesc& desc(const KernelRequest& request, int value) { return request.values[value]; }

/// The conditions that hold for any layout. If not met, sets request.why.
bool takes(KernelRequest& request) {
  const auto no = [&](const auto&... why) {
    request.why = text(why...);
    return false;
  };
  if (request.values.size() > static_cast<std::size_t>(kMostValues))
    return no("takes up to ", kMostValues, " values, not ", request.values.size());
  const Shape& shape = desc(request, request.steps[0].out[0]).type.shape;
  for (const Step& step : request.steps) {
    if (!function_of(*step.op)) return no("has no ", step.op->name());
    if (desc(request, step.out[0]).type.shape != shape) return no("takes steps of one shape");
    const bool to_floats = step.op->name() == "dequantize", to_bytes = step.op->name() == "quantize";
    for (const int in : step.in)
      if (!to_floats && is_byte(desc(request, in).type.dtype))
        return no("takes no ", desc(request, in).type.dtype, " in ", step.op->name());
    if (!to_bytes && is_byte(desc(request, step.out[0]).type.dtype))
      return no("gives no ", desc(request, step.out[0]).type.dtype, " in ", step.op->name());
  }
  for (const TensorDesc& value : request.values)
    if (!stored_as(value.type.dtype)) return no("takes f32, bool, u8 and i8, not ", value.type.dtype);
  return true;
}

bool propose_layouts(KernelRequest& request) {
  if (!takes(request)) return false;
  const Shape& shape = desc(request, request.steps[0].out[0]).type.shape;
  Layout layout;
  for (const int in : request.in) {
    const TensorDesc& operand = desc(request, in);
    if (layout.kind == Layout::plain && operand.type.shape == shape && loopable(shape, exact(operand.layout)))
      layout = exact(operand.layout);
  }
  for (TensorDesc& value : request.values)
    value.layout = value.type.shape != shape ? Layout{} : layout == kBlocked ? narrowed(value, layout) : layout;
  return true;
}

/// Sets the loops over the fusion group's memory and the strides of a smaller plain operand along them. Loops that the
/// operand can merge are merged; a blocked group's channel loops are not.
void set_loops(PointwiseValue& value, const Shape& operand, const Shape& shape, const Layout& layout) {
  const auto dense = strides(operand);
  const std::vector<PhysicalAxis> axes = physical_axes(shape, layout);
  const bool blocked = layout == kBlocked || layout == kFeatures;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = axes[i].axis - (shape.rank() - operand.rank());
    const std::int64_t stride = axis < 0 || operand[axis] == 1 ? 0 : dense[axis] * axes[i].unit;
    const bool fixed = blocked && (i < 2 || i + 1 == axes.size());
    const int last = value.axes - 1;
    if (!fixed && axes[i].size == 1) continue;
    if (!fixed && value.axes > (blocked ? 2 : 0) && value.stride[last] == stride * axes[i].size) {
      value.size[last] *= axes[i].size;
      value.stride[last] = stride;
    } else {
      value.size[value.axes] = axes[i].size;
      value.stride[value.axes++] = stride;
    }
  }
  const int last = value.axes - 1;
  if (blocked && value.stride[last] == 1 && value.stride[last - 1] == 0)
    value.run = value.size[last - 1] * value.size[last];
}

struct Prepared {
  PointwiseGroup group;
  decltype(&portable::run_pointwise) run;
  int tasks;
};

/// Assigns a block buffer to each value that needs one. A buffer is free again after the last step that reads it.
void assign_buffers(PointwiseGroup& group) {
  std::array<int, kMostValues> last_read;
  last_read.fill(-1);
  for (int s = 0; s < group.steps; ++s)
    for (const int in : group.step[s].in) last_read[in] = s;
  std::vector<int> released;
  int used = 0;
  const auto take = [&](PointwiseValue& value) {
    if (released.empty()) {
      value.buffer = used++;
    } else {
      value.buffer = released.back();
      released.pop_back();
    }
  };
  const auto in_memory = [](const PointwiseValue& value) {
    return value.form == PointwiseValue::whole && value.stored == PointwiseValue::f32;
  };
  for (int v = 0; v < group.values; ++v)
    if (group.value[v].in >= 0 && !in_memory(group.value[v])) take(group.value[v]);
  for (int s = 0; s < group.steps; ++s) {
    for (int v = 0; v < group.values; ++v) {
      const PointwiseValue& value = group.value[v];
      if (last_read[v] == s && value.buffer >= 0 && value.out < 0 && value.form != PointwiseValue::one &&
          value.run == 0)
        released.push_back(value.buffer);
    }
    PointwiseValue& result = group.value[group.step[s].out];
    if (!in_memory(result)) take(result);
  }
}

/// Fuses multiply, add and ReLU into one step if nothing else reads the intermediate value.
bool join(const KernelRequest& request, const Step& step, PointwiseGroup& group) {
  if (group.steps == 0) return false;
  PointwiseStep& before = group.step[group.steps - 1];
  int reads = 0;
  for (const Step& each : request.steps)
    reads += static_cast<int>(std::count(each.in.begin(), each.in.end(), before.out));
  if (reads != 1 || request.place_out(before.out) >= 0) return false;
  const StepFunction product = function_named("mul"), sum = function_named("mul add");
  Relu relu;
  if (before.run == product && step.op->name() == "add" && (step.in[0] == before.out || step.in[1] == before.out)) {
    before.run = sum;
    before.in[2] = step.in[step.in[0] == before.out ? 1 : 0];
  } else if (before.run == sum && read_relu(*step.op, relu) && step.in[0] == before.out) {
    before.run = function_named("mul add limited");
    before.numbers = {0, relu.most == relu.most ? relu.most : std::numeric_limits<float>::infinity()};
  } else {
    return false;
  }
  before.out = step.out[0];
  return true;
}

/// Makes a fusion group of the request's steps. If not possible, sets request.why.
bool make_group(KernelRequest& request, PointwiseGroup& group) {
  const auto no = [&](const auto&... why) {
    request.why = text(why...);
    return false;
  };
  if (!takes(request)) return false;
  const Type type{DType::f32, desc(request, request.steps[0].out[0]).type.shape};
  const Layout layout = exact(request.output(0).layout);
  if (!loopable(type.shape, layout)) return no("does not take the layout ", layout);
  group.values = static_cast<int>(request.values.size());
  for (int v = 0; v < group.values; ++v) group.value[v].stored = stored(desc(request, v));
  for (std::size_t i = 0; i < request.in.size(); ++i) {
    const TensorDesc& operand = desc(request, request.in[i]);
    const bool whole = operand.type.shape == type.shape;
    if (exact(operand.layout) != (whole ? layout : Layout{}))
      return no("operand ", i, " is ", operand.type, ' ', operand.layout, " beside ", type, ' ', layout);
    PointwiseValue& value = group.value[request.in[i]];
    value.in = static_cast<int>(i);
    value.axes = 0;
    value.form = whole                             ? PointwiseValue::whole
                 : operand.type.shape.numel() == 1 ? PointwiseValue::one
                                                   : PointwiseValue::spread;
    if (value.form == PointwiseValue::spread) set_loops(value, operand.type.shape, type.shape, layout);
  }
  for (std::size_t i = 0; i < request.out.size(); ++i) {
    if (exact(desc(request, request.out[i]).layout) != layout) return no("takes outputs of one layout");
    group.value[request.out[i]].form = PointwiseValue::whole;
    group.value[request.out[i]].out = static_cast<int>(i);
  }
  for (const Step& step : request.steps) {
    if (join(request, step, group)) continue;
    PointwiseStep& own = group.step[group.steps++];
    own = {function_of(*step.op), numbers_of(*step.op), {step.in[0], step.in[0], step.in[0]}, step.out[0]};
    std::copy(step.in.begin(), step.in.end(), own.in);
  }
  assign_buffers(group);
  group.count = static_cast<std::int64_t>(bytes(type, layout) / sizeof(float));
  if (std::int64_t channels; channel_blocks(type, layout, channels) && channels % 16 != 0) {
    group.blocks = blocks_of(channels);
    group.last_channels = static_cast<int>(channels % 16);
    group.block_elements = group.count / std::max<std::int64_t>(1, type.shape[0] * group.blocks);
  }
  return true;
}

Launch prepare(KernelRequest& request) {
  auto prepared = std::make_shared<Prepared>();
  const PointwiseGroup& group = prepared->group;
  if (!make_group(request, prepared->group)) return {};
  prepared->run = NEURIM_DISPATCH(run_pointwise);
  const std::int64_t blocks = (group.count + kPointwiseBlock - 1) / kPointwiseBlock;
  prepared->tasks = tasks_of(request, group.count, blocks);
  const auto run = [](const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Prepared*>(self);
    const std::int64_t all = (own.group.count + kPointwiseBlock - 1) / kPointwiseBlock;
    const std::int64_t first = task_begin(all, own.tasks, task), last = task_begin(all, own.tasks, task + 1);
    own.run(own.group, args.in.data(), args.out.data(), first * kPointwiseBlock,
            std::min(last * kPointwiseBlock, own.group.count));
  };
  return {run, prepared, prepared->tasks};
}

}  // namespace

bool cpu::operands_apart(const KernelRequest& request) {
  const std::vector<int>& in = request.steps[0].in;
  return request.steps.size() == 1 || request.place_in(in.back()) + 1 == std::ssize(in);
}

int cpu::memory_of(const KernelRequest& request, std::size_t step) {
  const int own = request.place_out(request.steps[step].out[0]);
  return own >= 0 ? own : request.place_out(request.steps.back().out[0]);
}

bool cpu::PointwiseSteps::read(KernelRequest& request, std::size_t first, std::size_t last,
                               std::optional<StorageDtype> rounds) {
  // The steps alone, with their values renumbered.
  std::vector<Step> steps;
  std::vector<TensorDesc> values;
  std::map<int, int> numbers;
  const auto number = [&](int value) {
    const auto [at, added] = numbers.emplace(value, static_cast<int>(values.size()));
    if (added) values.push_back(desc(request, value));
    return at->second;
  };
  has_x_ = first > 0;
  const int x = has_x_ ? request.steps[first - 1].out[0] : -1, y = request.steps[last - 1].out[0];
  std::vector<int> in, out;
  if (has_x_) in.push_back(number(x));
  for (const Step& step : request.steps.subspan(first, last - first)) {
    for (const int value : step.in)
      if (!numbers.count(value) && request.place_in(value) < 0) {
        request.why = "takes steps that read what they begin with and the request's inputs";
        return false;
      }
    Step& own = steps.emplace_back(Step{step.op, {}, {}});
    for (const int value : step.in) own.in.push_back(number(value));
    for (const int value : step.out) own.out.push_back(number(value));
  }
  in_.clear(), out_.clear();
  out.push_back(number(y));
  if (rounds) values[out[0]].layout.storage = *rounds;
  for (const auto& [value, own] : numbers) {
    const int read = request.place_in(value), written = request.place_out(value);
    if (read >= 0) in.push_back(own), in_.push_back(static_cast<std::size_t>(read));
    if (written >= 0 && value != x && value != y) out.push_back(own), out_.push_back(static_cast<std::size_t>(written));
  }
  KernelRequest alone{.steps = steps, .values = values, .in = in, .out = out, .chunks = request.chunks};
  const bool taken = make_group(alone, group_);
  request.why = alone.why;
  return taken;
}

void cpu::PointwiseSteps::run(const Args& args, float* x, float* y, std::int64_t begin, std::int64_t end) const {
  std::array<void*, kMostValues> in, out;
  in[0] = x, out[0] = y;
  for (std::size_t i = 0; i < in_.size(); ++i) in[i + has_x_] = args.in[in_[i]];
  for (std::size_t i = 0; i < out_.size(); ++i) out[i + 1] = args.out[out_[i]];
  NEURIM_DISPATCH(run_pointwise)(group_, in.data(), out.data(), begin, end);
}

void cpu_pointwise() {
  const StepTable table = NEURIM_DISPATCH(step_table)();
  for (const StepRow* row = table.rows; row != table.rows + table.count; ++row)
    if (std::string_view(row->name).find(' ') == std::string_view::npos)
      cpu::add_kernel(
          {.op = row->name, .name = "cpu", .prepare = prepare, .propose_layouts = propose_layouts, .fuses = true});
}

}  // namespace neurim
