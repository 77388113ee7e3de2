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

/// Calls visit(index in y, index in x, index in weight) for every product of the convolution.
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
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t plane = 0; plane < depth.y; ++plane)
          for (std::int64_t row = 0; row < height.y; ++row)
            for (std::int64_t column = 0; column < width.y; ++column)
              for (std::int64_t h = 0; h < depth.kernel; ++h)
                for (std::int64_t i = 0; i < height.kernel; ++i)
                  for (std::int64_t j = 0; j < width.kernel; ++j) {
                    const std::int64_t d_x = depth.place(plane, h), h_x = height.place(row, i),
                                       w_x = width.place(column, j);
                    if (d_x < 0 || h_x < 0 || w_x < 0) continue;
                    const std::int64_t channel = k / outputs * channels + c;
                    visit((((n * y[1] + k) * depth.y + plane) * height.y + row) * width.y + column,
                          (((n * x[1] + channel) * depth.x + d_x) * height.x + h_x) * width.x + w_x,
                          (((k * channels + c) * depth.kernel + h) * height.kernel + i) * width.kernel + j);
                  }
}

void store(const std::vector<double>& values, const View& out) {
  for (std::int64_t i = 0; i < out.numel(); ++i) out.set(i, values[static_cast<std::size_t>(i)]);
}

template <std::size_t N>
void conv_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const View &x = in[0], &weight = in[1];
  const Shape& shape = out[0].shape();
  std::vector<double> y(static_cast<std::size_t>(shape.numel()), 0.0);
  const std::int64_t plane = shape.numel() / std::max<std::int64_t>(shape[0] * shape[1], 1);
  if (in.size() == 3)
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = in[2][static_cast<std::int64_t>(i) / plane % shape[1]];
  each_product(static_cast<const Conv<N>&>(op).options, shape, x.shape(), weight.shape(),
               [&](std::int64_t at_y, std::int64_t at_x, std::int64_t at_weight) {
                 y[static_cast<std::size_t>(at_y)] += x[at_x] * weight[at_weight];
               });
  store(y, out[0]);
}

template <std::size_t N>
void conv_input_grad_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const View &dy = in[0], &weight = in[1];
  std::vector<double> dx(static_cast<std::size_t>(out[0].numel()), 0.0);
  each_product(static_cast<const ConvInputGrad<N>&>(op).options, dy.shape(), out[0].shape(), weight.shape(),
               [&](std::int64_t at_y, std::int64_t at_x, std::int64_t at_weight) {
                 dx[static_cast<std::size_t>(at_x)] += dy[at_y] * weight[at_weight];
               });
  store(dx, out[0]);
}

template <std::size_t N>
void conv_weight_grad_body(const Op& op, std::span<const View> in, std::span<const View> out,
                           std::uint32_t&) {
  const View &dy = in[0], &x = in[1];
  std::vector<double> dweight(static_cast<std::size_t>(out[0].numel()), 0.0);
  each_product(static_cast<const ConvWeightGrad<N>&>(op).options, dy.shape(), x.shape(), out[0].shape(),
               [&](std::int64_t at_y, std::int64_t at_x, std::int64_t at_weight) {
                 dweight[static_cast<std::size_t>(at_weight)] += dy[at_y] * x[at_x];
               });
  store(dweight, out[0]);
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
