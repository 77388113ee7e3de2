#include "neurim/ops/deform_conv.h"

#include <cmath>

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

/// The elements around a place between them, and their shares.
struct Neighbours {
  std::array<std::int64_t, 8> at{};
  std::array<double, 8> share{};
  int count = 0;
};

/// Of a place in a plane of these sizes; elements outside of it are 0 and left out.
Neighbours neighbours_of(const std::array<double, 3>& place, const std::array<std::int64_t, 3>& sizes, int axes) {
  Neighbours all;
  for (int corner = 0; corner < 1 << axes; ++corner) {
    std::int64_t at = 0;
    double share = 1;
    bool inside = true;
    for (int axis = 0; axis < axes; ++axis) {
      const auto a = static_cast<std::size_t>(axis);
      const double low = std::floor(place[a]), after = place[a] - low, element = low + (corner >> axis & 1);
      share *= corner >> axis & 1 ? after : 1 - after;
      inside = inside && element >= 0 && element < static_cast<double>(sizes[a]);
      if (inside) at = at * sizes[a] + static_cast<std::int64_t>(element);
    }
    if (!inside || share == 0) continue;
    all.at[static_cast<std::size_t>(all.count)] = at;
    all.share[static_cast<std::size_t>(all.count++)] = share;
  }
  return all;
}

void deform_columns_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const auto& deform = static_cast<const DeformColumns&>(op);
  const Shape& x = in[0].shape();
  const int axes = static_cast<int>(deform.kernel.size());
  const std::int64_t taps = deform.taps(), places = out[0].shape()[3], channels = x[1] / deform.offset_groups;
  std::array<std::int64_t, 3> sizes{1, 1, 1}, windows{1, 1, 1};
  std::int64_t plane = 1;
  for (int axis = 0; axis < axes; ++axis) {
    sizes[static_cast<std::size_t>(axis)] = x[axis + 2];
    windows[static_cast<std::size_t>(axis)] = in[1].shape()[axis + 2];
    plane *= x[axis + 2];
  }
  for (std::int64_t of = 0; of < x[0] * deform.offset_groups; ++of)  // an image's group of offsets
    for (std::int64_t tap = 0; tap < taps; ++tap)
      for (std::int64_t place = 0; place < places; ++place) {
        std::array<double, 3> at{};
        std::int64_t window = place, within = tap;
        for (int axis = axes - 1; axis >= 0; --axis) {
          const auto a = static_cast<std::size_t>(axis);
          at[a] = static_cast<double>(window % windows[a] * deform.stride[a] - deform.pad[a] +
                                      within % deform.kernel[a] * deform.dilation[a]) +
                  in[1][((of * taps + tap) * axes + axis) * places + place];
          window /= windows[a], within /= deform.kernel[a];
        }
        const Neighbours near = neighbours_of(at, sizes, axes);
        const double factor = in.size() == 3 ? in[2][(of * taps + tap) * places + place] : 1;
        for (std::int64_t c = of * channels; c < (of + 1) * channels; ++c) {
          double sum = 0;
          for (int i = 0; i < near.count; ++i)
            sum += near.share[static_cast<std::size_t>(i)] * in[0][c * plane + near.at[static_cast<std::size_t>(i)]];
          out[0].set((c * taps + tap) * places + place, sum * factor);
        }
      }
}

}  // namespace

void reference_deform_conv() { reference::define_reference("deform_columns", deform_columns_body); }

}  // namespace neurim
