#include "neurim/ops/max_unpool.h"

#include <cmath>
#include <cstring>

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

/// Calls visit(place in the plane by rows, place by columns) for the places of a window inside x, in row-major order.
template <class Visit>
void each_place(const MaxIndicesOptions& o, const Shape& x, const std::vector<std::int64_t>& window, Visit visit) {
  std::int64_t count = 1;
  for (const std::int64_t size : o.kernel) count *= size;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t left = i, rows = 0, columns = 0, row_step = 1;
    bool inside = true;
    for (std::size_t axis = o.kernel.size(); axis-- > 0;) {
      const std::int64_t size = x[static_cast<int>(axis) + 2],
                         at = window[axis] * o.stride[axis] - o.pad[axis] + left % o.kernel[axis] * o.dilation[axis];
      inside = inside && at >= 0 && at < size;
      rows += at * row_step;
      row_step *= size;
      left /= o.kernel[axis];
      columns = columns * size + at;
    }
    if (inside) visit(rows, columns);
  }
}

void max_pool_indices_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const MaxIndicesOptions& options = static_cast<const MaxPoolIndices&>(op).options;
  const Shape &x = in[0].shape(), &y = out[0].shape();
  const std::vector<double> values = in[0].values();
  std::int64_t plane = 1, windows = 1;
  for (int axis = 2; axis < x.rank(); ++axis) plane *= x[axis], windows *= y[axis];
  std::vector<std::int64_t> window(options.kernel.size());
  for (std::int64_t i = 0; i < out[0].numel(); ++i) {
    std::int64_t left = i % windows;
    for (std::size_t axis = window.size(); axis-- > 0;) {
      window[axis] = left % y[static_cast<int>(axis) + 2];
      left /= y[static_cast<int>(axis) + 2];
    }
    const std::int64_t first = i / windows * plane;
    std::int64_t best = -1, found = -1;
    each_place(options, x, window, [&](std::int64_t row_major, std::int64_t column_major) {
      const double value = values[static_cast<std::size_t>(first + row_major)],
                   most = best < 0 ? 0 : values[static_cast<std::size_t>(best)];
      if (best >= 0 && !(value > most) && !(std::isnan(value) && !std::isnan(most))) return;
      best = first + row_major;
      found = first + (options.column_major ? column_major : row_major);
    });
    static_cast<std::int64_t*>(out[0].data)[i] = found;
  }
}

void max_unpool_body(const Op&, std::span<const View> in, std::span<const View> out, std::uint32_t& status) {
  const std::size_t size = static_cast<std::size_t>(bits(out[0].type.dtype)) / 8;
  const auto* indices = static_cast<const std::int64_t*>(in[1].data);
  std::memset(out[0].data, 0, bytes(out[0].type));
  for (std::int64_t i = 0; i < in[0].numel(); ++i) {
    if (indices[i] < 0 || indices[i] >= out[0].numel()) {
      status |= kStatusIndexOutOfRange;
      continue;
    }
    std::memcpy(static_cast<std::byte*>(out[0].data) + static_cast<std::size_t>(indices[i]) * size,
                static_cast<const std::byte*>(in[0].data) + static_cast<std::size_t>(i) * size, size);
  }
}

}  // namespace

void reference_max_unpool() {
  reference::define_reference("max_pool_indices", max_pool_indices_body);
  reference::define_reference("max_unpool", max_unpool_body);
}

}  // namespace neurim
