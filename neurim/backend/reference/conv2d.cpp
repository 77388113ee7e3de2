#include "neurim/ops/conv2d.h"

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

/// Calls visit(index in y, index in x, index in weight) for every product of the convolution.
template <class Visit>
void each_product(const Conv2dOptions& o, const Shape& y, const Shape& x, const Shape& weight, Visit visit) {
  const std::int64_t channels = weight[1], outputs = weight[0] / o.groups;
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t k = 0; k < y[1]; ++k)
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t row = 0; row < y[2]; ++row)
          for (std::int64_t column = 0; column < y[3]; ++column)
            for (std::int64_t i = 0; i < weight[2]; ++i)
              for (std::int64_t j = 0; j < weight[3]; ++j) {
                const std::int64_t h = row * o.stride[0] - o.pad[0] + i * o.dilation[0];
                const std::int64_t w = column * o.stride[1] - o.pad[1] + j * o.dilation[1];
                if (h < 0 || h >= x[2] || w < 0 || w >= x[3]) continue;
                const std::int64_t channel = k / outputs * channels + c;
                visit(((n * y[1] + k) * y[2] + row) * y[3] + column,
                      ((n * x[1] + channel) * x[2] + h) * x[3] + w,
                      ((k * channels + c) * weight[2] + i) * weight[3] + j);
              }
}

void store(const std::vector<double>& values, const View& out) {
  for (std::int64_t i = 0; i < out.numel(); ++i) out.set(i, values[static_cast<std::size_t>(i)]);
}

void conv2d_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const View &x = in[0], &weight = in[1];
  const Shape& shape = out[0].shape();
  std::vector<double> y(static_cast<std::size_t>(shape.numel()), 0.0);
  if (in.size() == 3)
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = in[2][static_cast<std::int64_t>(i) / (shape[2] * shape[3]) % shape[1]];
  each_product(static_cast<const Conv2d&>(op).options, shape, x.shape(), weight.shape(),
               [&](std::int64_t at_y, std::int64_t at_x, std::int64_t at_weight) {
                 y[static_cast<std::size_t>(at_y)] += x[at_x] * weight[at_weight];
               });
  store(y, out[0]);
}

void conv2d_input_grad_body(const Op& op, std::span<const View> in, std::span<const View> out,
                            std::uint32_t&) {
  const View &dy = in[0], &weight = in[1];
  std::vector<double> dx(static_cast<std::size_t>(out[0].numel()), 0.0);
  each_product(static_cast<const Conv2dInputGrad&>(op).options, dy.shape(), out[0].shape(), weight.shape(),
               [&](std::int64_t at_y, std::int64_t at_x, std::int64_t at_weight) {
                 dx[static_cast<std::size_t>(at_x)] += dy[at_y] * weight[at_weight];
               });
  store(dx, out[0]);
}

void conv2d_weight_grad_body(const Op& op, std::span<const View> in, std::span<const View> out,
                             std::uint32_t&) {
  const View &dy = in[0], &x = in[1];
  std::vector<double> dweight(static_cast<std::size_t>(out[0].numel()), 0.0);
  each_product(static_cast<const Conv2dWeightGrad&>(op).options, dy.shape(), x.shape(), out[0].shape(),
               [&](std::int64_t at_y, std::int64_t at_x, std::int64_t at_weight) {
                 dweight[static_cast<std::size_t>(at_weight)] += dy[at_y] * x[at_x];
               });
  store(dweight, out[0]);
}

}  // namespace

void reference_conv2d() {
  reference::define_reference("conv2d", conv2d_body);
  reference::define_reference("conv2d_input_grad", conv2d_input_grad_body);
  reference::define_reference("conv2d_weight_grad", conv2d_weight_grad_body);
}

}  // namespace neurim
