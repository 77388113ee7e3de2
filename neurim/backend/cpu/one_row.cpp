#include "neurim/backend/cpu/one_row.h"

#include <algorithm>
#include <optional>

#include "neurim/backend/cpu/pair_weights.h"
#include "neurim/backend/cpu/physical.h"
#include "neurim/backend/cpu/pointwise.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kWorthAPart = 64 * 1024;  // weights

struct OneRow {
  std::int64_t in, out;
  int parts;
  bool bias;
  Half rounded;  ///< how the weights stand
  int result, last;  // outputs: where the product and where the last step goes
  std::optional<PointwiseSteps> steps;

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const OneRow*>(self);
    const auto in = [&](std::size_t argument) { return static_cast<const float*>(args.in[argument]); };
    const auto output = [&](int place) { return static_cast<float*>(args.out[static_cast<std::size_t>(place)]); };
    const std::int64_t first = part_begin(own.out, own.parts, part), last = part_begin(own.out, own.parts, part + 1);
    NEURIM_DISPATCH(row_times_weights)(in(0), in(1), own.rounded, own.bias ? in(2) : nullptr, own.in, first, last, output(own.result));
    if (own.steps) own.steps->run(args, output(own.result), output(own.last), first, last);
  }
};

/// Null, or why the kernel leaves the site to others.
const char* against(const Site& site) {
  for (const Spec& spec : site.values)
    if (spec.type.dtype != DType::f32) return "takes f32 only";
  if (site.steps[0].in[0] == site.steps[0].in[1]) return "takes two operands";
  const Shape &x = site.input(0).type.shape, &weight = site.input(1).type.shape;
  if (x.numel() == 0 || weight.numel() == 0) return "takes no empty tensors";
  if (x.numel() != x[-1]) return "takes one row";
  if (!operands_apart(site)) return "fuses steps behind a product of different operands only";
  return nullptr;
}

/// How weights that do not change stand: a row's time is that of reading them.
Layout weights_layout(const Site& site) {
  const Spec& weight = site.input(1);
  return site.half() && weight.constant ? rounded_rows(weight.type, site.half()) : Layout{};
}

bool wants(Site& site) {
  for (Spec& spec : site.values) spec.layout = {};
  if (const char* why = against(site)) return decline(site, why), false;
  site.values[static_cast<std::size_t>(site.in[1])].layout = weights_layout(site);
  return site.steps.size() == 1 || PointwiseSteps().read(site, 1, site.steps.size());
}

Launch prepare(Site& site) {
  if (const char* why = against(site)) return decline(site, why);
  const Shape& weight = site.input(1).type.shape;
  const Layout& layout = site.input(1).layout;
  if (layout != Layout{} && layout != weights_layout(site)) return decline(site, "takes plain weights, or rounded rows");
  const std::int64_t parts =
      std::clamp<std::int64_t>(weight.numel() / kWorthAPart, 1, std::min<std::int64_t>(weight[0], site.chunks));
  auto own = std::make_shared<OneRow>(OneRow{weight[1], weight[0], static_cast<int>(parts), site.steps[0].in.size() == 3,
                                             layout == Layout{} ? Half::exact : site.half(), memory_of(site, 0), memory_of(site, site.steps.size() - 1)});
  if (own->rounded) site.rounds = site.products;
  if (site.steps.size() > 1 && !own->steps.emplace().read(site, 1, site.steps.size())) return {};
  return {OneRow::run, own, own->parts};
}

}  // namespace

void cpu_one_row() {
  add({.op = "linear", .name = "cpu one row", .rank = 15, .prepare = prepare, .wants = wants, .fuses = true});
}

}  // namespace neurim
