#include "neurim/ops/max_roi_pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

/// The pixels of a part of a side of a box: from the first to before the last.
struct Part {
  std::int64_t first, last;
};

Part part_of(double low, double high, double scale, std::int64_t part, std::int64_t parts, std::int64_t pixels) {
  const double begin = std::round(low * scale), size = std::max(std::round(high * scale) - begin + 1, 1.0),
               step = size / static_cast<double>(parts);
  const auto pixel = [&](double at) {  // NaN: 0
    const double place = at + begin;
    return place >= 0 ? static_cast<std::int64_t>(std::min(place, static_cast<double>(pixels))) : 0;
  };
  return {pixel(std::floor(static_cast<double>(part) * step)), pixel(std::ceil(static_cast<double>(part + 1) * step))};
}

void max_roi_pool_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t& status) {
  const auto& pool = static_cast<const MaxRoiPool&>(op);
  const Shape& x = in[0].shape();
  const std::int64_t channels = x[1], height = x[2], width = x[3], parts = pool.height * pool.width;
  const std::vector<double> values = in[0].values();
  for (std::int64_t box = 0; box < in[1].shape()[0]; ++box) {
    const auto number = [&](std::int64_t i) { return in[1][box * 5 + i]; };
    const bool inside = number(0) >= 0 && number(0) < static_cast<double>(std::int64_t{x[0]});
    if (!inside) status |= kStatusIndexOutOfRange;
    const std::int64_t image = inside ? static_cast<std::int64_t>(number(0)) : 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      const auto [top, bottom] = part_of(number(2), number(4), pool.scale, part / pool.width, pool.height, height);
      const auto [left, right] = part_of(number(1), number(3), pool.scale, part % pool.width, pool.width, width);
      for (std::int64_t c = 0; c < channels; ++c) {
        const bool empty = !inside || top >= bottom || left >= right;
        double most = empty ? 0 : -std::numeric_limits<double>::infinity();
        for (std::int64_t row = top; row < bottom && !empty; ++row)
          for (std::int64_t column = left; column < right; ++column)
            most = std::max(most,
                            values[static_cast<std::size_t>(((image * channels + c) * height + row) * width + column)]);
        out[0].set((box * channels + c) * parts + part, most);
      }
    }
  }
}

}  // namespace

void reference_max_roi_pool() { reference::define_reference("max_roi_pool", max_roi_pool_body); }

}  // namespace neurim
