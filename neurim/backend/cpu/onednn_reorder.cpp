// Reorders to and between packed weights, one thread to a run of output channels.
#include <algorithm>

#include "neurim/backend/cpu/onednn.h"

namespace neurim::cpu {

namespace {

struct Reorders {
  std::vector<Primitive> pieces;
  static void run(const void* self, const Args& args, int part) noexcept {
    void* data[] = {args.in[0], args.out[0]};
    static_cast<const Reorders*>(self)->pieces[static_cast<std::size_t>(part)].run(data);
  }
};

Launch prepare(Site& site) {
  const OneThread one;
  const Spec &from = site.input(0), &to = site.output(0);
  if (from.type.dtype != DType::f32) return decline(site, "takes f32 only");
  if (from.layout.kind != Layout::packed && to.layout.kind != Layout::packed) return decline(site, "takes packed weights only");
  const auto source = known_descriptor(from.type, from.layout), target = known_descriptor(to.type, to.layout);
  if (!source || !target || source->get_dims() != target->get_dims()) return decline(site, "a packed form is not of weights");
  // Whole blocks of 16 output channels, so that a piece is a piece in both forms.
  memory::dims whole = source->get_dims();
  const std::int64_t blocks = whole.size() == 4 && whole[0] % 16 == 0 && whole[1] % 16 == 0 ? whole[0] / 16 : 1;
  const std::int64_t count = std::min<std::int64_t>(blocks, site.chunks), unit = whole[0] / blocks;
  auto all = std::make_shared<Reorders>();
  try {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t begin = blocks * i / count * unit, end = blocks * (i + 1) / count * unit;
      memory::dims sizes = whole, offsets(whole.size(), 0);
      sizes[0] = end - begin, offsets[0] = begin;
      const memory::desc in = count == 1 ? *source : source->submemory_desc(sizes, offsets),
                         out = count == 1 ? *target : target->submemory_desc(sizes, offsets);
      const dnnl::reorder::primitive_desc described(engine(), in, engine(), out);
      all->pieces.emplace_back(dnnl::reorder(described), std::vector<std::pair<int, memory::desc>>{{DNNL_ARG_FROM, in}, {DNNL_ARG_TO, out}});
    }
  } catch (const dnnl::error& error) {
    return decline(site, error.what());
  }
  return {Reorders::run, all, static_cast<int>(count)};
}

}  // namespace

}  // namespace neurim::cpu

namespace neurim {

void cpu_onednn_reorder() {
  add({.op = "reorder", .name = "onednn", .rank = 10, .prepare = cpu::prepare});
}

}  // namespace neurim
