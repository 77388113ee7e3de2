#include "neurim/ops/conv.h"

#include <algorithm>

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

/// One axis of a convolution; one that is not there has a single place.
struct Axis {
  std::int64_t x = 1, y = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
  /// Where tap i of window `at` lies in x, inside of it or not.
  std::int64_t place(std::int64_t at, std::int64_t i) const { return at * stride - pad + i * dilation; }
  /// The windows whose tap i lies in x: from the first to before the last.
  std::pair<std::int64_t, std::int64_t> windows(std::int64_t i) const {
    const auto from = [&](std::int64_t p) {
      return std::clamp<std::int64_t>((p - place(0, i) + stride - 1) / stride, 0, y);
    };
    return {place(0, i) < 0 ? from(0) : 0, place(0, i) < x ? from(x) : 0};
  }
};

/// Calls visit(count, index in y, index in x, step in x, index in weight) for the windows of a row of y that one tap of
/// the weight meets: neighbours in y, a step apart in x. Those of one element of y come in the order of its channels
/// and taps.
template <std::size_t N, class Visit>
void each_row(const ConvOptions<N>& o, const Shape& y, const Shape& x, const Shape& weight, Visit visit) {
  std::array<Axis, 3> axes;
  for (std::size_t axis = 0; axis < N; ++axis) {
    const int at = static_cast<int>(axis) + 2;
    axes[axis + 3 - N] = {x[at], y[at], weight[at], o.stride[axis], o.dilation[axis], o.pad[axis]};
  }
  const auto& [depth, height, width] = axes;
  const auto inside = [](const Axis& axis, std::int64_t place) { return place >= 0 && place < axis.x; };
  const std::int64_t channels = weight[1], outputs = weight[0] / o.groups;
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t k = 0; k < y[1]; ++k)
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t of_y = n * y[1] + k, of_x = n * x[1] + k / outputs * channels + c,
                           of_weight = k * channels + c;
        for (std::int64_t plane = 0; plane < depth.y; ++plane)
          for (std::int64_t row = 0; row < height.y; ++row)
            for (std::int64_t h = 0; h < depth.kernel; ++h)
              for (std::int64_t i = 0; i < height.kernel; ++i) {
                const std::int64_t d_x = depth.place(plane, h), h_x = height.place(row, i);
                if (!inside(depth, d_x) || !inside(height, h_x)) continue;
                const std::int64_t row_of_y = ((of_y * depth.y + plane) * height.y + row) * width.y,
                                   row_of_x = ((of_x * depth.x + d_x) * height.x + h_x) * width.x,
                                   row_of_weight = ((of_weight * depth.kernel + h) * height.kernel + i) * width.kernel;
                for (std::int64_t j = 0; j < width.kernel; ++j)
                  if (const auto [first, last] = width.windows(j); first < last)
                    visit(last - first, row_of_y + first, row_of_x + width.place(first, j), width.stride,
                          row_of_weight + j);
              }
      }
}

std::vector<double> zeros(const View& like) { return std::vector<double>(static_cast<std::size_t>(like.numel())); }

template <std::size_t N>
void conv_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const Shape& shape = out[0].shape();
  const std::vector<double> x = in[0].values(), weight = in[1].values();
  std::vector<double> y = zeros(out[0]);
  const std::int64_t plane = shape.numel() / std::max<std::int64_t>(shape[0] * shape[1], 1);
  if (in.size() == 3)
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = in[2][static_cast<std::int64_t>(i) / plane % shape[1]];
  each_row(static_cast<const Conv<N>&>(op).options, shape, in[0].shape(), in[1].shape(),
           [y = y.data(), x = x.data(), weight = weight.data()](auto count, auto at_y, auto at_x, auto step,
                                                                auto at_weight) {
             reference::add_scaled(count, weight[at_weight], x + at_x, step, y + at_y, 1);
           });
  out[0].set(y);
}

template <std::size_t N>
void conv_input_grad_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const std::vector<double> dy = in[0].values(), weight = in[1].values();
  std::vector<double> dx = zeros(out[0]);
  each_row(static_cast<const ConvInputGrad<N>&>(op).options, in[0].shape(), out[0].shape(), in[1].shape(),
           [dx = dx.data(), dy = dy.data(), weight = weight.data()](auto count, auto at_y, auto at_x, auto step,
                                                                    auto at_weight) {
             reference::add_scaled(count, weight[at_weight], dy + at_y, 1, dx + at_x, step);
           });
  out[0].set(dx);
}

template <std::size_t N>
void conv_weight_grad_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const std::vector<double> dy = in[0].values(), x = in[1].values();
  std::vector<double> dweight = zeros(out[0]);
  each_row(static_cast<const ConvWeightGrad<N>&>(op).options, in[0].shape(), in[1].shape(), out[0].shape(),
           [dweight = dweight.data(), dy = dy.data(), x = x.data()](auto count, auto at_y, auto at_x, auto step,
                                                                    auto at_weight) {
             dweight[at_weight] = reference::dot(count, dy + at_y, 1, x + at_x, step, dweight[at_weight]);
           });
  out[0].set(dweight);
}

template <std::size_t N>
void define_all() {
  reference::define_reference(Conv<N>().name(), conv_body<N>);
  reference::define_reference(ConvInputGrad<N>().name(), conv_input_grad_body<N>);
  reference::define_reference(ConvWeightGrad<N>().name(), conv_weight_grad_body<N>);
}

}  // namespace

void reference_conv() {
  define_all<1>();
  define_all<2>();
  define_all<3>();
}

}  // namespace neurim
