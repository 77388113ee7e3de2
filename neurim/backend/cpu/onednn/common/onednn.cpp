#include "neurim/backend/cpu/onednn/common/onednn.h"

#include <array>
#include <atomic>
#include <limits>
#include <new>

#include "neurim/backend/cpu/common/interned.h"
#include "neurim/backend/cpu/common/packed_weights.h"
#include "neurim/base/error.h"
#include "neurim/hardware/isa.h"

extern "C" {
void omp_set_num_threads(int);
int omp_get_max_threads();
}

namespace neurim::cpu {

dnnl::engine& engine() {
  static dnnl::engine& cpu = *new dnnl::engine([] {
    // NEURIM_ISA may ask for less than the machine has.
    if (isa() != Isa::avx512) dnnl::set_max_cpu_isa(isa() == Isa::avx2 ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::sse41);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }());
  return cpu;
}

void append_relu(dnnl::post_ops& after) {
  after.append_eltwise(dnnl::algorithm::eltwise_hardswish, std::numeric_limits<float>::max(), 0);
}

namespace {

dnnl_stream_t stream() {
  static const dnnl::stream& in_order = *new dnnl::stream(engine());
  return in_order.get();
}

/// One of our packed formats, and its oneDNN descriptor.
struct Packed {
  dnnl::memory::desc plain, packed;
  bool operator==(const Packed&) const = default;
};

void convert(const dnnl::memory::desc& from, const void* source, const dnnl::memory::desc& to, void* target) try {
  const OneThread one;
  dnnl::stream at(engine());
  dnnl::memory in(from, engine(), const_cast<void*>(source)), out(to, engine(), target);
  dnnl::reorder(in, out).execute(at, in, out);
  at.wait();
} catch (const dnnl::error& error) {
  refusal(error);
  throw;
}

void pack(const void* self, const void* plain, void* packed) {
  const auto& form = *static_cast<const Packed*>(self);
  convert(form.plain, plain, form.packed, packed);
}

void unpack(const void* self, const void* packed, void* plain) {
  const auto& form = *static_cast<const Packed*>(self);
  convert(form.packed, packed, form.plain, plain);
}

dnnl::memory::data_type data_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return dnnl::memory::data_type::f32;
    case DType::bf16: return dnnl::memory::data_type::bf16;
    case DType::f16: return dnnl::memory::data_type::f16;
    default: NEURIM_ASSERT(!"a dtype that the adapters decline");
  }
  return {};
}

/// oneDNN's descriptor of one of our formats.
memory::desc described(const PackedWeights& own) {
  using enum memory::format_tag;
  const Shape& s = own.weight.shape;
  if (own.form == PackedWeights::depthwise) return {{s[0], 1, 1, s[2], s[3]}, memory::data_type::f32, Goihw16g};
  return {
      {s[0], s[1], s[2], s[3]}, memory::data_type::f32, own.form == PackedWeights::forward ? OIhw16i16o : IOhw16o16i};
}

}  // namespace

Creation::Creation() {
  constexpr std::size_t kSmallObjects = 1 << 20;  // and for machine code
  ::operator delete(::operator new(kSmallObjects));
}

const char* refusal(const dnnl::error& error) {
  if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
  return error.what();
}

OneThread::OneThread() : saved_(omp_get_max_threads()) { omp_set_num_threads(1); }
OneThread::~OneThread() { omp_set_num_threads(saved_); }

std::optional<memory::desc> known_descriptor(const Type& type, const Layout& layout) {
  if (layout.storage) return std::nullopt;
  const memory::dims dims(type.shape.begin(), type.shape.end());
  if (layout.kind == Layout::packed) {
    if (const PackedWeights* const own = packed_weights_of(layout)) return described(*own);
    const Packed* const form = interned_for<Packed>(layout, pack);
    return form ? std::optional(form->packed) : std::nullopt;
  }
  if (layout.kind == Layout::blocked || layout.kind == Layout::channels_last) {
    using enum memory::format_tag;
    static constexpr memory::format_tag kTags[2][3] = {{aBc16b, aBcd16b, aBcde16b}, {acb, acdb, acdeb}};
    if (dims.size() < 3 || dims.size() > 5) return std::nullopt;
    return memory::desc(dims, data_type(type.dtype), kTags[layout.kind == Layout::channels_last][dims.size() - 3]);
  }
  if (layout.kind != Layout::plain) return std::nullopt;
  memory::dims steps;
  const auto dense = strides(type.shape);
  for (int axis = 0; axis < type.shape.rank(); ++axis) steps.push_back(dense[axis]);
  return memory::desc(dims, data_type(type.dtype), steps);
}

memory::desc descriptor(const Type& type, const Layout& layout) {
  const auto known = known_descriptor(type, layout);
  NEURIM_ASSERT(known);
  return *known;
}

Layout packed_layout(const Type& type, const dnnl::memory::desc& desc) {
  const dnnl::memory::desc plain = descriptor(type, {});
  if (desc == plain) return {};
  if (const Shape& s = type.shape; type.dtype == DType::f32 && s.rank() == 4) {
    for (const PackedWeights::Form form : {PackedWeights::forward, PackedWeights::gradient})
      if (desc == described({form, type}))
        return form == PackedWeights::forward ? forward_weights(type) : gradient_weights(type);
  } else if (type.dtype == DType::f32 && s.rank() == 5 && s[1] == 1 && s[2] == 1) {
    const Type weight{type.dtype, {s[0], 1, s[3], s[4]}};
    if (desc == described({PackedWeights::depthwise, weight})) return depthwise_weights(weight);
  }
  std::string name = text("onednn:", type, ':');  // spelled out, so that two equal descriptors give one format
  for (const auto stride : desc.get_strides()) append(name, stride), name += ',';
  for (const auto axis : desc.get_inner_idxs()) name += 'i', append(name, axis);
  for (const auto block : desc.get_inner_blks()) name += 'b', append(name, block);
  return {Layout::packed, 0, register_format({name, desc.get_size(), pack, unpack, interned(Packed{plain, desc})})};
}

void Primitive::run(void* const* data, std::uint32_t* status) const noexcept {
  if (execute(data)) return;
  // Execution fails only for lack of memory, whatever error oneDNN returns: the primitive and its arguments were
  // checked at creation.
  std::atomic_ref(*status).fetch_or(kStatusOutOfMemory, std::memory_order_relaxed);
}

bool Primitive::execute(void* const* data) const noexcept {
  constexpr std::size_t kMost = 8;
  NEURIM_ASSERT(arguments_.size() <= kMost);
  std::array<dnnl_exec_arg_t, kMost> arguments;
  std::size_t made = 0;
  bool done = false;
  const OneThread one;
  try {  // the C interface lets std::bad_alloc through
    for (const auto& [number, form] : arguments_) {
      arguments[made].arg = number;
      if (dnnl_memory_create(&arguments[made].memory, form.get(), engine().get(), data[made]) != dnnl_success) break;
      ++made;
    }
    done = made == arguments_.size() &&
           dnnl_primitive_execute(primitive_.get(), stream(), static_cast<int>(made), arguments.data()) == dnnl_success;
  } catch (const std::bad_alloc&) {
  }
  for (std::size_t i = 0; i < made; ++i) dnnl_memory_destroy(arguments[i].memory);
  return done;
}

}  // namespace neurim::cpu
