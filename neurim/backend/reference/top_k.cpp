#include "neurim/ops/top_k.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

template <class T>
void top_k_in(T, const Op& op, std::span<const View> in, std::span<const View> out) {
  const TopKOptions& options = static_cast<const TopK&>(op).options;
  const Shape& shape = in[0].shape();
  const int axis = normal_axis(options.axis, shape.rank(), "top_k");
  const std::int64_t size = shape[axis];
  std::int64_t inner = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const std::int64_t outer = in[0].numel() == 0 ? 0 : in[0].numel() / (size * inner);
  const std::size_t bytes = static_cast<std::size_t>(bits(in[0].type.dtype)) / 8;
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::vector<T> row(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < outer; ++i)
    for (std::int64_t k = 0; k < inner; ++k) {
      const std::int64_t first = i * size * inner + k;
      for (std::int64_t j = 0; j < size; ++j) row[j] = in[0].load<T>(first + j * inner);
      std::iota(order.begin(), order.end(), 0);
      const auto before = [&](std::int64_t a, std::int64_t b) {  // NaN is larger than all others
        const bool nan_a = std::isnan(row[a]), nan_b = std::isnan(row[b]);
        if (nan_a != nan_b) return options.largest ? nan_a : nan_b;
        if (nan_a || row[a] == row[b]) return a < b;
        return options.largest ? row[a] > row[b] : row[a] < row[b];
      };
      std::partial_sort(order.begin(), order.begin() + options.k, order.end(), before);
      for (std::int64_t j = 0; j < options.k; ++j) {
        const std::int64_t to = i * options.k * inner + j * inner + k, from = first + order[j] * inner;
        std::memcpy(static_cast<std::byte*>(out[0].data) + static_cast<std::size_t>(to) * bytes,
                    static_cast<const std::byte*>(in[0].data) + static_cast<std::size_t>(from) * bytes, bytes);
        static_cast<std::int64_t*>(out[1].data)[to] = order[j];
      }
    }
}

void top_k_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  reference::in_wide_enough(in, {}, [&](auto zero) { top_k_in(zero, op, in, out); });
}

}  // namespace

void reference_top_k() { reference::define_reference("top_k", top_k_body); }

}  // namespace neurim
