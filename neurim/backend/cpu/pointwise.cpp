#include "neurim/backend/cpu/pointwise.h"

#include <string>

#include "neurim/backend/cpu/physical.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/elu.h"
#include "neurim/ops/gelu.h"
#include "neurim/ops/leaky_relu.h"

namespace neurim {

namespace {

using namespace cpu;

/// The name of an op's row in the table of functions.
std::string row_name(const Op& op) {
  std::string_view variant;
  if (const auto* gelu = dynamic_cast<const Gelu*>(&op)) variant = gelu->approximate;
  if (const auto* gelu = dynamic_cast<const GeluGrad*>(&op)) variant = gelu->approximate;
  if (const auto* cast = dynamic_cast<const Cast*>(&op)) variant = name(cast->dtype);
  const bool own_row = variant == "tanh" || variant == "bool";
  return own_row ? text(op.name(), ' ', variant) : std::string(op.name());
}

StepFunction function_of(const Op& op) {
  const std::string name = row_name(op);
  const StepTable table = NEURIM_DISPATCH(step_table)();
  const auto row =
      std::find_if(table.rows, table.rows + table.count, [&](const StepRow& r) { return r.name == name; });
  return row == table.rows + table.count ? nullptr : row->run;
}

Numbers numbers_of(const Op& op) {
  const auto pair = [](double a, double b) { return Numbers{static_cast<float>(a), static_cast<float>(b)}; };
  if (const auto* clamp = dynamic_cast<const Clamp*>(&op)) return pair(clamp->low, clamp->high);
  if (const auto* clamp = dynamic_cast<const ClampGrad*>(&op)) return pair(clamp->low, clamp->high);
  if (const auto* relu = dynamic_cast<const LeakyRelu*>(&op)) return pair(relu->slope, 0);
  if (const auto* relu = dynamic_cast<const LeakyReluGrad*>(&op)) return pair(relu->slope, 0);
  if (const auto* elu = dynamic_cast<const Elu*>(&op)) return pair(elu->alpha, 0);
  return {};
}

Spec& spec(const Site& site, int value) { return site.values[static_cast<std::size_t>(value)]; }

/// What holds whatever the layouts are; on no, says why.
bool takes(Site& site) {
  const auto no = [&](const auto&... why) {
    site.why = text(why...);
    return false;
  };
  if (site.values.size() > static_cast<std::size_t>(kMostValues))
    return no("takes up to ", kMostValues, " values, not ", site.values.size());
  const Shape& shape = spec(site, site.steps[0].out[0]).type.shape;
  for (const Step& step : site.steps) {
    if (!function_of(*step.op)) return no("has no ", step.op->name());
    if (spec(site, step.out[0]).type.shape != shape) return no("takes steps of one shape");
  }
  for (const Spec& value : site.values)
    if (value.type.dtype != DType::f32 && value.type.dtype != DType::boolean)
      return no("takes f32 and bool, not ", value.type.dtype);
  return true;
}

bool wants(Site& site) {
  if (!takes(site)) return false;
  const Shape& shape = spec(site, site.steps[0].out[0]).type.shape;
  Layout layout;
  for (const int in : site.in) {
    const Spec& operand = spec(site, in);
    if (layout.kind == Layout::plain && operand.type.shape == shape && loopable(shape, operand.layout))
      layout = operand.layout;
  }
  for (Spec& value : site.values) value.layout = value.type.shape == shape ? layout : Layout{};
  return true;
}

/// The loops over memory of the chain and the strides of a smaller plain operand along them; neighbours that
/// the operand does not tell apart become one. A blocked chain keeps its channel loops apart.
void set_loops(PointwiseValue& value, const Shape& operand, const Shape& shape, const Layout& layout) {
  const auto dense = strides(operand);
  const std::vector<PhysicalAxis> axes = physical_axes(shape, layout);
  const bool blocked = layout.kind == Layout::blocked;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = axes[i].axis - (shape.rank() - operand.rank());
    const std::int64_t stride =
        axis < 0 || operand[axis] == 1 ? 0 : dense[static_cast<std::size_t>(axis)] * axes[i].unit;
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
}

struct Prepared {
  PointwiseChain chain;
  decltype(&portable::run_pointwise) run;
  int parts;
};

/// Gives every value that needs one a block buffer; a buffer is free again after the last step that reads it.
void assign_buffers(PointwiseChain& chain) {
  std::array<int, kMostValues> last_read;
  last_read.fill(-1);
  for (int s = 0; s < chain.steps; ++s)
    for (const int in : chain.step[s].in) last_read[static_cast<std::size_t>(in)] = s;
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
    return value.form == PointwiseValue::whole && !value.boolean;
  };
  for (int v = 0; v < chain.values; ++v)
    if (chain.value[v].in >= 0 && !in_memory(chain.value[v])) take(chain.value[v]);
  for (int s = 0; s < chain.steps; ++s) {
    for (int v = 0; v < chain.values; ++v) {
      const PointwiseValue& value = chain.value[v];
      if (last_read[static_cast<std::size_t>(v)] == s && value.buffer >= 0 && value.out < 0 &&
          value.form != PointwiseValue::one)
        released.push_back(value.buffer);
    }
    PointwiseValue& result = chain.value[chain.step[s].out];
    if (!in_memory(result)) take(result);
  }
}

Launch prepare(Site& site) {
  if (!takes(site)) return {};
  const Type type{DType::f32, spec(site, site.steps[0].out[0]).type.shape};
  const Layout layout = site.output(0).layout;
  if (!loopable(type.shape, layout)) return decline(site, "does not take the layout ", layout);
  auto prepared = std::make_shared<Prepared>();
  PointwiseChain& chain = prepared->chain;
  chain.values = static_cast<int>(site.values.size());
  for (int v = 0; v < chain.values; ++v) chain.value[v].boolean = spec(site, v).type.dtype == DType::boolean;
  for (std::size_t i = 0; i < site.in.size(); ++i) {
    const Spec& operand = spec(site, site.in[i]);
    const bool whole = operand.type.shape == type.shape;
    if (operand.layout != (whole ? layout : Layout{}))
      return decline(site, "operand ", i, " is ", operand.type, ' ', operand.layout, " beside ", type, ' ',
                     layout);
    PointwiseValue& value = chain.value[site.in[i]];
    value.in = static_cast<int>(i);
    value.axes = 0;
    value.form = whole                             ? PointwiseValue::whole
                 : operand.type.shape.numel() == 1 ? PointwiseValue::one
                                                   : PointwiseValue::spread;
    if (value.form == PointwiseValue::spread) set_loops(value, operand.type.shape, type.shape, layout);
  }
  for (std::size_t i = 0; i < site.out.size(); ++i) {
    if (spec(site, site.out[i]).layout != layout) return decline(site, "takes outputs of one layout");
    chain.value[site.out[i]].form = PointwiseValue::whole;
    chain.value[site.out[i]].out = static_cast<int>(i);
  }
  for (const Step& step : site.steps) {
    PointwiseStep& own = chain.step[chain.steps++];
    own = {function_of(*step.op), numbers_of(*step.op), {step.in[0], step.in[0], step.in[0]}, step.out[0]};
    std::copy(step.in.begin(), step.in.end(), own.in);
  }
  assign_buffers(chain);
  chain.count = static_cast<std::int64_t>(bytes(type, layout) / sizeof(float));
  if (layout.kind == Layout::blocked && type.shape[1] % layout.block != 0) {
    chain.blocks = (type.shape[1] + layout.block - 1) / layout.block;
    chain.last_channels = static_cast<int>(type.shape[1] % layout.block);
    chain.block_elements = chain.count / std::max<std::int64_t>(1, type.shape[0] * chain.blocks);
  }
  prepared->run = NEURIM_DISPATCH(run_pointwise);
  const std::int64_t blocks = (chain.count + kPointwiseBlock - 1) / kPointwiseBlock;
  prepared->parts = parts_of(site, chain.count, blocks);
  const auto run = [](const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const Prepared*>(self);
    const std::int64_t all = (own.chain.count + kPointwiseBlock - 1) / kPointwiseBlock;
    const std::int64_t first = part_begin(all, own.parts, part), last = part_begin(all, own.parts, part + 1);
    own.run(own.chain, args.in.data(), args.out.data(), first * kPointwiseBlock,
            std::min(last * kPointwiseBlock, own.chain.count));
  };
  return {run, prepared, prepared->parts};
}

}  // namespace

void cpu_pointwise() {
  const StepTable table = NEURIM_DISPATCH(step_table)();
  for (const StepRow* row = table.rows; row != table.rows + table.count; ++row)
    if (std::string_view(row->name).find(' ') == std::string_view::npos)
      add({.op = row->name, .name = "cpu", .device = 0, .rank = 20, .prepare = prepare, .wants = wants, .fuses = true});
}

}  // namespace neurim
