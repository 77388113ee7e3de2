#include <cmath>
#include <limits>

#include "neurim/backend/reference/view.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/common/pool.h"
#include "neurim/ops/max_pool.h"

namespace neurim {

namespace {

using reference::View;

/// Calls visit(index in y, indices in x of the window's places inside the input, row by row, how many of its
/// places lie inside the input or the padding) for every window.
template <class Visit>
void each_window(const Pool2dOptions& given, const Shape& x, const Shape& y, Visit visit) {
  const Pool2dOptions o = resolved(given);
  std::vector<std::int64_t> places;
  for (std::int64_t plane = 0; plane < y[0] * y[1]; ++plane)
    for (std::int64_t row = 0; row < y[2]; ++row)
      for (std::int64_t column = 0; column < y[3]; ++column) {
        places.clear();
        std::int64_t padded = 0;
        for (std::int64_t i = 0; i < o.kernel[0]; ++i)
          for (std::int64_t j = 0; j < o.kernel[1]; ++j) {
            const std::int64_t h = row * o.stride[0] - o.pad[0] + i * o.dilation[0];
            const std::int64_t w = column * o.stride[1] - o.pad[1] + j * o.dilation[1];
            if (h < x[2] + o.pad[2] && w < x[3] + o.pad[3]) ++padded;
            if (h >= 0 && h < x[2] && w >= 0 && w < x[3]) places.push_back((plane * x[2] + h) * x[3] + w);
          }
        visit((plane * y[2] + row) * y[3] + column, places, padded);
      }
}

void max_pool2d_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const View& x = in[0];
  each_window(static_cast<const MaxPool2d&>(op).options, x.shape(), out[0].shape(),
              [&](std::int64_t at, const std::vector<std::int64_t>& places, std::int64_t) {
                double best = -std::numeric_limits<double>::infinity();
                for (const std::int64_t place : places)
                  if (x[place] > best || std::isnan(x[place])) best = x[place];
                out[0].set(at, best);
              });
}

void max_pool2d_grad_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const View &x = in[0], &dy = in[1];
  std::vector<double> dx(static_cast<std::size_t>(x.numel()), 0.0);
  each_window(static_cast<const MaxPool2dGrad&>(op).options, x.shape(), dy.shape(),
              [&](std::int64_t at, const std::vector<std::int64_t>& places, std::int64_t) {
                std::int64_t best = -1;  // the first maximum, or the first that is not a number
                for (const std::int64_t place : places)
                  if (best < 0 || x[place] > x[best] || (std::isnan(x[place]) && !std::isnan(x[best]))) best = place;
                if (best >= 0) dx[best] += dy[at];
              });
  out[0].set(dx);
}

void avg_pool2d_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const Pool2dOptions& options = static_cast<const AvgPool2d&>(op).options;
  each_window(options, in[0].shape(), out[0].shape(),
              [&](std::int64_t at, const std::vector<std::int64_t>& places, std::int64_t padded) {
                const std::int64_t divisor = options.count_include_pad ? padded
                                                                       : static_cast<std::int64_t>(places.size());
                double sum = 0;
                for (const std::int64_t place : places) sum += in[0][place];
                out[0].set(at, places.empty() ? 0 : sum / static_cast<double>(divisor));
              });
}

void avg_pool2d_grad_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const Pool2dOptions& options = static_cast<const AvgPool2dGrad&>(op).options;
  std::vector<double> dx(static_cast<std::size_t>(out[0].numel()), 0.0);
  each_window(options, out[0].shape(), in[0].shape(),
              [&](std::int64_t at, const std::vector<std::int64_t>& places, std::int64_t padded) {
                const std::int64_t divisor = options.count_include_pad ? padded
                                                                       : static_cast<std::int64_t>(places.size());
                for (const std::int64_t place : places) dx[place] += in[0][at] / static_cast<double>(divisor);
              });
  out[0].set(dx);
}

void global_avg_pool2d_body(const Op&, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const std::int64_t plane = in[0].shape()[2] * in[0].shape()[3];
  for (std::int64_t i = 0; i < out[0].numel(); ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < plane; ++j) sum += in[0][i * plane + j];
    out[0].set(i, sum / static_cast<double>(plane));
  }
}

}  // namespace

void reference_pool2d() {
  reference::define_reference("max_pool2d", max_pool2d_body);
  reference::define_reference("max_pool2d_grad", max_pool2d_grad_body);
  reference::define_reference("avg_pool2d", avg_pool2d_body);
  reference::define_reference("avg_pool2d_grad", avg_pool2d_grad_body);
  reference::define_reference("global_avg_pool2d", global_avg_pool2d_body);
}

}  // namespace neurim
