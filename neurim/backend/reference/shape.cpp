// Reference kernels of the ops that move elements.
#include <cstring>

#include "neurim/backend/reference/view.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/pad.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"

namespace neurim {

namespace {

using reference::View;
using Index = std::array<std::int64_t, Shape::kMaxRank>;

/// Copies `count` elements as they are: exact for every dtype, where a detour over double would round large
/// i64.
void copy(const View& to, std::int64_t to_first, const View& from, std::int64_t from_first, std::int64_t count) {
  const std::size_t size = static_cast<std::size_t>(bits(to.type.dtype)) / 8;
  std::memcpy(static_cast<std::byte*>(to.data) + static_cast<std::size_t>(to_first) * size,
              static_cast<const std::byte*>(from.data) + static_cast<std::size_t>(from_first) * size,
              static_cast<std::size_t>(count) * size);
}

void zero(const View& view) { std::memset(view.data, 0, bytes(view.type)); }

/// Calls visit(flat index, index along each axis) for every element of the shape, in row-major order.
template <class Visit>
void each_index(const Shape& shape, Visit visit) {
  Index index{};
  for (std::int64_t flat = 0, count = shape.numel(); flat < count; ++flat) {
    visit(flat, index);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      std::int64_t& at = index[axis];
      if (++at < shape[axis]) break;
      at = 0;
    }
  }
}

/// The product of the sizes of the axes [first, last).
std::int64_t extent(const Shape& shape, int first, int last) {
  std::int64_t product = 1;
  for (int axis = first; axis < last; ++axis) product *= shape[axis];
  return product;
}

void reshape_body(const Op&, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  if (in[0].data != out[0].data) copy(out[0], 0, in[0], 0, out[0].numel());
}

void transpose_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const auto& perm = static_cast<const Transpose&>(op).perm;
  const Index stride = strides(in[0].shape());
  each_index(out[0].shape(), [&](std::int64_t flat, const Index& index) {
    std::int64_t from = 0;
    for (std::size_t axis = 0; axis < perm.size(); ++axis) from += index[axis] * stride[perm[axis]];
    copy(out[0], flat, in[0], from, 1);
  });
}

void concat_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const Shape& whole = out[0].shape();
  const int axis = normal_axis(static_cast<const Concat&>(op).axis, whole.rank(), "concat");
  const std::int64_t outer = extent(whole, 0, axis), inner = extent(whole, axis + 1, whole.rank());
  std::int64_t first = 0;
  for (const View& part : in) {
    const std::int64_t run = part.shape()[axis] * inner;
    for (std::int64_t i = 0; i < outer; ++i) copy(out[0], i * whole[axis] * inner + first, part, i * run, run);
    first += run;
  }
}

/// Calls visit(index in the part, index in the whole) for every element of a slice.
template <class Visit>
void each_sliced(const SliceOptions& options, const Shape& whole, Visit visit) {
  const SliceRange range = options.range(whole, "slice");
  const Index stride = strides(whole);
  each_index(range.shape, [&](std::int64_t flat, const Index& index) {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(whole.rank()); ++axis)
      at += (range.start[axis] + index[axis] * range.step[axis]) * stride[axis];
    visit(flat, at);
  });
}

void slice_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  each_sliced(static_cast<const Slice&>(op).options, in[0].shape(),
              [&](std::int64_t part, std::int64_t whole) { copy(out[0], part, in[0], whole, 1); });
}

void slice_grad_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  zero(out[0]);
  each_sliced(static_cast<const SliceGrad&>(op).options, out[0].shape(),
              [&](std::int64_t part, std::int64_t whole) { copy(out[0], whole, in[0], part, 1); });
}

void pad_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const auto& padding = static_cast<const Pad&>(op);
  const Shape& shape = in[0].shape();
  const Index stride = strides(shape);
  each_index(out[0].shape(), [&](std::int64_t flat, const Index& index) {
    std::int64_t from = 0;
    bool inside = true;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const std::size_t a = static_cast<std::size_t>(axis);
      const std::int64_t at = index[a] - padding.pads[a];
      inside = inside && at >= 0 && at < shape[axis];
      from += at * stride[a];
    }
    if (inside)
      copy(out[0], flat, in[0], from, 1);
    else
      out[0].set(flat, padding.value);
  });
}

/// How gather and its gradient walk: `outer` blocks of `size` slices of `inner` elements.
struct Gathering {
  std::int64_t outer, size, inner;
  Gathering(const Shape& whole, std::int64_t along) {
    const int axis = normal_axis(along, whole.rank(), "gather");
    outer = extent(whole, 0, axis), size = whole[axis], inner = extent(whole, axis + 1, whole.rank());
  }
  /// Calls visit(first element in the part, first element in the whole or -1) for every gathered slice.
  template <class Visit>
  void each(const View& indices, std::uint32_t& status, Visit visit) const {
    const std::int64_t count = indices.numel();
    for (std::int64_t i = 0; i < outer; ++i)
      for (std::int64_t j = 0; j < count; ++j) {
        std::int64_t index = indices.integer(j);
        if (index < 0) index += size;
        const bool inside = index >= 0 && index < size;
        if (!inside) status |= kStatusIndexOutOfRange;
        visit((i * count + j) * inner, inside ? (i * size + index) * inner : -1);
      }
  }
};

void gather_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t& status) {
  const Gathering gathering(in[0].shape(), static_cast<const Gather&>(op).axis);
  zero(out[0]);
  gathering.each(in[1], status, [&](std::int64_t part, std::int64_t whole) {
    if (whole >= 0) copy(out[0], part, in[0], whole, gathering.inner);
  });
}

void gather_grad_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t& status) {
  const Gathering gathering(out[0].shape(), static_cast<const GatherGrad&>(op).axis);
  std::vector<double> total(static_cast<std::size_t>(out[0].numel()));
  gathering.each(in[1], status, [&](std::int64_t part, std::int64_t whole) {
    if (whole < 0) return;
    for (std::int64_t k = 0; k < gathering.inner; ++k) total[whole + k] += in[0][part + k];
  });
  out[0].set(total);
}

void one_hot_body(const Op&, std::span<const View> in, std::span<const View> out, std::uint32_t& status) {
  const std::int64_t classes = out[0].shape()[-1];
  zero(out[0]);
  for (std::int64_t i = 0; i < in[0].numel(); ++i) {
    const std::int64_t index = in[0].integer(i);
    if (index >= 0 && index < classes)
      out[0].set(i * classes + index, 1);
    else
      status |= kStatusIndexOutOfRange;
  }
}

void broadcast_to_body(const Op&, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const reference::BroadcastIndex index(in[0].shape(), out[0].shape());
  for (std::int64_t i = 0; i < out[0].numel(); ++i) copy(out[0], i, in[0], index(i), 1);
}

void iota_body(const Op&, std::span<const View>, std::span<const View> out, std::uint32_t&) {
  for (std::int64_t i = 0; i < out[0].numel(); ++i) out[0].set(i, static_cast<double>(i));
}

}  // namespace

void reference_shape() {
  using reference::define_reference;
  define_reference("reshape", reshape_body);
  define_reference("transpose", transpose_body);
  define_reference("concat", concat_body);
  define_reference("slice", slice_body);
  define_reference("slice_grad", slice_grad_body);
  define_reference("pad", pad_body);
  define_reference("gather", gather_body);
  define_reference("gather_grad", gather_grad_body);
  define_reference("one_hot", one_hot_body);
  define_reference("broadcast_to", broadcast_to_body);
  define_reference("iota", iota_body);
}

}  // namespace neurim
