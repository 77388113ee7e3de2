// Softmax, log_softmax and their gradients.
#include "neurim/ops/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neurim/backend/reference/view.h"

namespace neurim::reference {

namespace {

/// The places of the elements of one line along an axis: from `first` in steps to `end`.
struct Line {
  std::int64_t first, end, step;
};

/// Calls visit(line) for every line of x along the axis of the op.
template <class Visit>
void for_each_line(const Op& op, const View& x, Visit visit) {
  const int axis = normal_axis(static_cast<const SoftmaxOp&>(op).axis, x.shape().rank(), op.name());
  const std::int64_t size = x.shape()[axis], step = strides(x.shape())[axis];
  const std::int64_t lines = size == 0 ? 0 : x.numel() / size;
  for (std::int64_t line = 0; line < lines; ++line) {
    const std::int64_t first = line / step * size * step + line % step;
    visit(Line{first, first + size * step, step});
  }
}

/// The largest element of a line, and the sum of e^(x - largest).
struct Normaliser {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  Normaliser(const View& x, const Line& line) {
    for (std::int64_t i = line.first; i < line.end; i += line.step) largest = std::max(largest, x[i]);
    for (std::int64_t i = line.first; i < line.end; i += line.step) sum += std::exp(x[i] - largest);
  }
};

void softmax(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const View &x = in[0], &y = out[0];
  for_each_line(op, x, [&](const Line& line) {
    const Normaliser n(x, line);
    for (std::int64_t i = line.first; i < line.end; i += line.step) y.set(i, std::exp(x[i] - n.largest) / n.sum);
  });
}

void log_softmax(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const View &x = in[0], &y = out[0];
  for_each_line(op, x, [&](const Line& line) {
    const Normaliser n(x, line);
    for (std::int64_t i = line.first; i < line.end; i += line.step) y.set(i, x[i] - n.largest - std::log(n.sum));
  });
}

void softmax_grad(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const View &y = in[0], &dy = in[1], &dx = out[0];
  for_each_line(op, y, [&](const Line& line) {
    double dot = 0;
    for (std::int64_t i = line.first; i < line.end; i += line.step) dot += y[i] * dy[i];
    for (std::int64_t i = line.first; i < line.end; i += line.step) dx.set(i, y[i] * (dy[i] - dot));
  });
}

void log_softmax_grad(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const View &y = in[0], &dy = in[1], &dx = out[0];
  for_each_line(op, y, [&](const Line& line) {
    double total = 0;
    for (std::int64_t i = line.first; i < line.end; i += line.step) total += dy[i];
    for (std::int64_t i = line.first; i < line.end; i += line.step) dx.set(i, dy[i] - std::exp(y[i]) * total);
  });
}

}  // namespace

}  // namespace neurim::reference

namespace neurim {

void reference_softmax() {
  reference::define_reference("softmax", reference::softmax);
  reference::define_reference("softmax_grad", reference::softmax_grad);
  reference::define_reference("log_softmax", reference::log_softmax);
  reference::define_reference("log_softmax_grad", reference::log_softmax_grad);
}

}  // namespace neurim
