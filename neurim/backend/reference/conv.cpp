#include "neurim/ops/conv.h"

#include <algorithm>

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

/// One axis of a convolution; one that is not there has a single place.
struct Axis {
  std::int64_t x = 1, y = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
  /// Where tap i of window `at` lies in x, or -1.
  std::int64_t place(std::int64_t at, std::int64_t i) const {
    const std::int64_t p = at * stride - pad + i * dilation;
    return p < x ? std::max<std::int64_t>(p, -1) : -1;
  }
};

/// Calls visit(index in y, index in x, index in weight) for every product of the convolution; those of one element of y come
/// in the order of its channels and taps.
template <std::size_t N, class Visit>
void each_product(const ConvOptions<N>& o, const Shape& y, const Shape& x, const Shape& weight, Visit visit) {
  std::array<Axis, 3> axes;
  for (std::size_t axis = 0; axis < N; ++axis) {
    const int at = static_cast<int>(axis) + 2;
    axes[axis + 3 - N] = {x[at], y[at], weight[at], o.stride[axis], o.dilation[axis], o.pad[axis]};
  }
  const auto& [depth, height, width] = axes;
  const std::int64_t channels = weight[1], outputs = weight[0] / o.groups;
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t k = 0; k < y[1]; ++k)
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t of_y = n * y[1] + k, of_x = n * x[1] + k / outputs * channels + c, of_weight = k * channels + c;
        for (std::int64_t plane = 0; plane < depth.y; ++plane)
          for (std::int64_t row = 0; row < height.y; ++row)
            for (std::int64_t h = 0; h < depth.kernel; ++h)
              for (std::int64_t i = 0; i < height.kernel; ++i) {
                const std::int64_t d_x = depth.place(plane, h), h_x = height.place(row, i);
                if (d_x < 0 || h_x < 0) continue;
                const std::int64_t row_of_y = ((of_y * depth.y + plane) * height.y + row) * width.y,
                                   row_of_x = ((of_x * depth.x + d_x) * height.x + h_x) * width.x,
                                   row_of_weight = ((of_weight * depth.kernel + h) * height.kernel + i) * width.kernel;
                for (std::int64_t column = 0; column < width.y; ++column)
                  for (std::int64_t j = 0; j < width.kernel; ++j)
                    if (const std::int64_t w_x = width.place(column, j); w_x >= 0)
                      visit(static_cast<std::size_t>(row_of_y + column), static_cast<std::size_t>(row_of_x + w_x),
                            static_cast<std::size_t>(row_of_weight + j));
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
  each_product(static_cast<const Conv<N>&>(op).options, shape, in[0].shape(), in[1].shape(),
               [&](std::size_t at_y, std::size_t at_x, std::size_t at_weight) { y[at_y] += x[at_x] * weight[at_weight]; });
  out[0].set(y);
}

template <std::size_t N>
void conv_input_grad_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const std::vector<double> dy = in[0].values(), weight = in[1].values();
  std::vector<double> dx = zeros(out[0]);
  each_product(static_cast<const ConvInputGrad<N>&>(op).options, in[0].shape(), out[0].shape(), in[1].shape(),
               [&](std::size_t at_y, std::size_t at_x, std::size_t at_weight) { dx[at_x] += dy[at_y] * weight[at_weight]; });
  out[0].set(dx);
}

template <std::size_t N>
void conv_weight_grad_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const std::vector<double> dy = in[0].values(), x = in[1].values();
  std::vector<double> dweight = zeros(out[0]);
  each_product(static_cast<const ConvWeightGrad<N>&>(op).options, in[0].shape(), in[1].shape(), out[0].shape(),
               [&](std::size_t at_y, std::size_t at_x, std::size_t at_weight) { dweight[at_weight] += dy[at_y] * x[at_x]; });
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
