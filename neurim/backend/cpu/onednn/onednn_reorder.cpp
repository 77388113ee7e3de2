// Reorders between all layouts that oneDNN knows, one thread for each run of images or output channels.
#include <span>
#include <utility>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/onednn/common/onednn.h"

namespace neurim::cpu {

namespace {

struct Reorders {
  std::vector<Primitive> pieces;
  static void run(const void* self, const Args& args, int task) noexcept {
    void* data[] = {args.in[0], args.out[0]};
    static_cast<const Reorders*>(self)->pieces[task].run(data, args.status);
  }
};

/// Both descriptors, with the same axes: packed weights of groups have one more. Nothing if oneDNN does not know one of
/// them.
std::optional<std::pair<memory::desc, memory::desc>> forms(const TensorDesc& from, const TensorDesc& to) {
  auto source = known_descriptor(from.type, from.layout), target = known_descriptor(to.type, to.layout);
  if (!source || !target) return {};
  const auto plain_like = [&](const memory::desc& packed) {
    const memory::dims dims = packed.get_dims();
    return descriptor({from.type.dtype, Shape(std::span<const std::int64_t>(dims))}, {});
  };
  if (source->get_dims() != target->get_dims() && from.layout.kind == Layout::plain) source = plain_like(*target);
  if (source->get_dims() != target->get_dims() && to.layout.kind == Layout::plain) target = plain_like(*source);
  if (source->get_dims() != target->get_dims()) return {};
  return std::pair(*source, *target);
}

Launch prepare(KernelRequest& request) {
  const Creation creation;
  const TensorDesc &from = request.input(0), &to = request.output(0);
  if (from.type.dtype != DType::f32) return decline(request, "takes f32 only");
  if (from.type.shape.numel() == 0) return decline(request, "takes no empty tensors");
  for (const TensorDesc* desc : {&from, &to})
    if (desc->layout.kind == Layout::batch_blocked ||
        (desc->layout.kind == Layout::blocked && desc->layout != kBlocked))
      return decline(request, "takes no ", desc->layout);
  const auto both = forms(from, to);
  if (!both) return decline(request, "one of the forms is none of oneDNN's");
  // A piece is contiguous in both: whole images, or whole blocks of 16 output channels of weights.
  const memory::dims whole = both->first.get_dims();
  const bool weights = from.layout.kind == Layout::packed || to.layout.kind == Layout::packed;
  const bool cuts = !weights || (whole.size() == 4 && whole[0] % 16 == 0 && whole[1] % 16 == 0);
  const std::int64_t unit = weights ? 16 : 1, pieces = cuts ? whole[0] / unit : 1;
  const int count = tasks_of(request, from.type.shape.numel(), pieces);
  auto all = std::make_shared<Reorders>();
  try {
    for (int i = 0; i < count; ++i) {
      const std::int64_t begin = task_begin(pieces, count, i) * unit, end = task_begin(pieces, count, i + 1) * unit;
      memory::dims sizes = whole, offsets(whole.size(), 0);
      sizes[0] = end - begin, offsets[0] = begin;
      const memory::desc in = count == 1 ? both->first : both->first.submemory_desc(sizes, offsets),
                         out = count == 1 ? both->second : both->second.submemory_desc(sizes, offsets);
      const dnnl::reorder::primitive_desc described(engine(), in, engine(), out);
      all->pieces.emplace_back(dnnl::reorder(described),
                               std::vector<std::pair<int, memory::desc>>{{DNNL_ARG_FROM, in}, {DNNL_ARG_TO, out}});
    }
  } catch (const dnnl::error& error) {
    return decline(request, refusal(error));
  }
  return {Reorders::run, all, count};
}

}  // namespace

}  // namespace neurim::cpu

namespace neurim {

void cpu_onednn_reorder() { cpu::add_kernel({.op = "reorder", .name = "onednn", .prepare = cpu::prepare}); }

}  // namespace neurim
