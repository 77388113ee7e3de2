#include "neurim/ops/scatter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "neurim/backend/reference/view.h"
#include "neurim/core/launch.h"

namespace neurim {

namespace {

using reference::View;

double combined(std::string_view reduction, double a, double b) {
  if (reduction == "add") return a + b;
  if (reduction == "mul") return a * b;
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return reduction == "max" ? std::max(a, b) : std::min(a, b);
}

void scatter_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t& status) {
  const std::string& reduction = static_cast<const Scatter&>(op).reduction;
  std::memcpy(out[0].data, in[0].data, bytes(in[0].type));
  const std::int64_t rows = in[0].shape()[0], count = in[1].numel(), inner = rows == 0 ? 0 : in[0].numel() / rows;
  const std::size_t row_bytes = static_cast<std::size_t>(inner) * static_cast<std::size_t>(bits(in[0].type.dtype)) / 8;
  const auto* indices = static_cast<const std::int64_t*>(in[1].data);
  std::vector<double> sums;  // rounded once, however many rows meet
  if (reduction != "none") sums = in[0].values();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = indices[i] < 0 ? indices[i] + rows : indices[i];
    if (row < 0 || row >= rows) {
      status |= kStatusIndexOutOfRange;
      return;
    }
    if (reduction == "none") {
      std::memcpy(static_cast<std::byte*>(out[0].data) + static_cast<std::size_t>(row) * row_bytes,
                  static_cast<const std::byte*>(in[2].data) + static_cast<std::size_t>(i) * row_bytes, row_bytes);
      continue;
    }
    for (std::int64_t k = 0; k < inner; ++k)
      sums[row * inner + k] = combined(reduction, sums[row * inner + k], in[2][i * inner + k]);
  }
  if (reduction != "none") out[0].set(sums);
}

}  // namespace

void reference_scatter() { reference::define_reference("scatter", scatter_body); }

}  // namespace neurim
