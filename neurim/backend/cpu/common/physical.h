// The axes of a tensor in the order in which its memory runs.
#pragma once
#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "neurim/backend/cpu/common/isa.h"
#include "neurim/graph/kernel.h"

namespace neurim::cpu {

/// One loop over memory: a step of it moves `unit` along the logical axis `axis`.
struct PhysicalAxis {
  int axis;
  std::int64_t size, unit;
};

inline constexpr Layout kBlocked{Layout::blocked, 16}, kImages{Layout::batch_blocked, 16},
    kFeatures{Layout::last_blocked, 16};

/// The same layout with f32 storage.
inline Layout exact(Layout layout) {
  layout.storage = Layout::exact;
  return layout;
}
inline Layout rounded(Layout layout, Layout::StorageDtype storage) {
  layout.storage = storage;
  return layout;
}
inline bool is_byte(DType dtype) { return dtype == DType::u8 || dtype == DType::i8; }

/// The layout in 16-bit storage if the value may have it, else unchanged.
inline Layout narrowed(const TensorDesc& value, const Layout& layout) { return rounded(layout, value.may_store_as); }

/// The same for a request whose values share a layout: in 16-bit storage if all in memory may have it.
inline Layout narrowed(const KernelRequest& request, const Layout& layout) {
  const auto may = [&](int value) { return request.values[value].may_store_as != Layout::exact; };
  const bool all = std::all_of(request.in.begin(), request.in.end(), may) &&
                   std::all_of(request.out.begin(), request.out.end(), may);
  return all ? rounded(layout, request.storage()) : layout;
}

/// Element number `at` of a tensor, of floats or of bf16 or f16 values at the same pointer.
template <class T>
T* element(T* tensor, std::int64_t at, Layout::StorageDtype rounded) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return tensor ? reinterpret_cast<T*>(reinterpret_cast<Byte*>(tensor) + at * (rounded ? 2 : 4)) : nullptr;
}

/// Rows of f32 with a line of zeros between them: a distance that is a multiple of 1 KiB would put the beginnings of
/// all in four places of the first-level cache, or fewer. Of others, plain.
inline Layout apart_rows(const Shape& shape) {
  constexpr std::int64_t kApart = 256, kLine = 16, kMost = 1 << 15;  // floats
  const std::int64_t row = shape[-1];
  if (row == 0 || row % kApart != 0 || row > kMost) return {};
  return {Layout::last_blocked, static_cast<std::uint16_t>(row + kLine)};
}
/// Whether rows of the last axis are contiguous; gives the elements from one to the next.
inline bool in_rows(const TensorDesc& desc) {
  const Layout& layout = desc.layout;
  return layout == Layout{} ||
         (layout.kind == Layout::last_blocked && !layout.storage && layout.block >= desc.type.shape[-1]);
}
inline std::int64_t row_distance(const TensorDesc& desc) {
  return desc.layout == Layout{} ? desc.type.shape[-1] : Dim(desc.layout.block);
}

/// Whether so many channels are kept in blocks of 16, padded with zeros. At worst half of the lanes are padding, which
/// costs less than reorders and oneDNN's loops for other layouts (docs/decisions/0009-pieces.md).
inline bool fills_blocks(std::int64_t channels) { return channels >= 8; }
/// Whether no kernel for few channels does better, which wastes no lanes.
inline bool many_channels(std::int64_t channels) { return channels >= 16; }

/// The number of blocks of 16 that hold so many channels.
inline std::int64_t blocks_of(std::int64_t channels) { return (channels + 15) / 16; }

/// Rounded up to whole cache lines.
inline std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// The loops over a tensor, outermost first. A blocked layout has two loops along the axis that it splits; the inner
/// one runs beyond the axis when its size is no multiple of the block. Not for packed layouts.
inline std::vector<PhysicalAxis> physical_axes(const Shape& shape, const Layout& layout) {
  const int rank = shape.rank(), last = rank - 1, given = split_axis(layout).value_or(rank),
            split = given < 0 ? last : given;
  const PhysicalAxis blocks{split, split < rank ? (shape[split] + layout.block - 1) / layout.block : Dim(0),
                            layout.block};
  std::vector<PhysicalAxis> axes;
  for (int axis = 0; axis < rank; ++axis) {
    if (axis != split && (axis != 1 || layout.kind != Layout::channels_last)) axes.push_back({axis, shape[axis], 1});
    if (axis == split ? given >= 0 : given < 0 && axis == 0) axes.push_back(blocks);
  }
  if (layout.kind == Layout::channels_last) axes.push_back({1, shape[1], 1});
  if (split < rank) axes.push_back({split, layout.block, 1});
  return axes;
}

/// Whether kernels that loop over physical_axes() take this layout of the shape.
inline bool loopable(const Shape& shape, const Layout& layout) {
  if (layout.kind == Layout::plain) return true;
  if (shape.rank() < 2) return false;
  if (layout == kImages) return shape[0] % layout.block == 0;  // no tail to keep zero
  return layout.kind == Layout::channels_last || layout == kBlocked || (layout == kFeatures && shape.rank() > 2);
}

/// Whether the channels are in blocks of 16 after axis 0, the last one padded. Sets `channels` to their number.
inline bool channel_blocks(const Type& type, const Layout& layout, std::int64_t& channels) {
  if (layout != kBlocked && layout != kFeatures) return false;
  channels = type.shape[*split_axis(layout)];
  return true;
}

/// Asks for the layout that layout_of(request, known..., value) gives each value of the request.
template <class LayoutOf, class... Known>
void ask_layouts(KernelRequest& request, const LayoutOf& layout_of, const Known&... known) {
  for (int value = 0; value < std::ssize(request.values); ++value)
    request.values[value].layout = layout_of(request, known..., value);
}
/// Whether all values have these layouts.
template <class LayoutOf, class... Known>
bool has_layouts(const KernelRequest& request, const LayoutOf& layout_of, const Known&... known) {
  for (int value = 0; value < std::ssize(request.values); ++value)
    if (request.values[value].layout != layout_of(request, known..., value)) return false;
  return true;
}

/// Into how many tasks to cut work whose tasks do not meet: a few a chunk, each large enough to be worth a
/// thread.
inline int tasks_of(const KernelRequest& request, std::int64_t elements, std::int64_t pieces) {
  constexpr std::int64_t kWorthIt = 16384;
  const std::int64_t most = std::min(elements / kWorthIt, pieces);
  return static_cast<int>(std::clamp<std::int64_t>(most, 1, 4 * request.chunks));
}

/// Where task number `task` begins when `pieces` are cut into `tasks`.
inline std::int64_t task_begin(std::int64_t pieces, int tasks, int task) { return pieces * task / tasks; }

}  // namespace neurim::cpu
