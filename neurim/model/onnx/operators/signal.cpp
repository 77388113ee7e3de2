// Fourier transforms and windows.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/pad.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/transpose.h"

namespace neurim {

namespace {

/// The matrix (n*parts, bins*2) of a transform of n numbers of one or two parts to complex bins.
Tensor transform(std::int64_t n, std::int64_t bins, std::int64_t parts, bool inverse, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(n * parts * bins * 2));
  const double sign = inverse ? 1 : -1, scale = inverse ? 1 / static_cast<double>(n) : 1;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t k = 0; k < bins; ++k) {
      const double angle = sign * 2 * std::numbers::pi * static_cast<double>(i * k % n) / static_cast<double>(n);
      const double real = std::cos(angle) * scale, imaginary = std::sin(angle) * scale;
      const auto at = [&](std::int64_t part, std::int64_t of) -> double& {
        return values[static_cast<std::size_t>(((i * parts + part) * bins + k) * 2 + of)];
      };
      at(0, 0) = real, at(0, 1) = imaginary;
      if (parts == 2) at(1, 0) = -imaginary, at(1, 1) = real;
    }
  return cast(Tensor::from({DType::f64, {n * parts, bins * 2}}, values.data()), dtype);
}

/// x with its axis moved before the last one, or back.
Tensor before_last(const Tensor& x, int axis, bool back) {
  const int to = x.rank() - 2;
  if (axis == to) return x;
  std::vector<std::int64_t> order;
  for (int i = 0; i + 1 < x.rank(); ++i)
    if (i != axis) order.push_back(i);
  order.insert(order.end(), {axis, to + 1});
  if (!back) return transpose(x, order);
  std::vector<std::int64_t> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return transpose(x, inverse);
}

/// Of real or complex rows (…,n,parts): (…,bins,2).
Tensor transformed(const Tensor& rows, std::int64_t bins, bool inverse) {
  const std::int64_t n = rows.size(-2), parts = rows.size(-1);
  Shape flat, out;
  for (int i = 0; i + 2 < rows.rank(); ++i) flat.push_back(rows.size(i)), out.push_back(rows.size(i));
  flat.push_back(n * parts), out.push_back(bins), out.push_back(2);
  return reshape(matmul(reshape(rows, flat), transform(n, bins, parts, inverse, rows.dtype())), out);
}

OnnxValues dft_rule(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  const bool inverse = call.integer("inverse", std::int64_t{0}) != 0,
             onesided = call.integer("onesided", std::int64_t{0}) != 0;
  const std::int64_t wanted = call.version() < 20 ? call.integer("axis", std::int64_t{1}) : call.integer(2, -2);
  const int axis = call.axis(wanted);
  require(axis < x.rank() - 1 && (x.size(-1) == 1 || x.size(-1) == 2), "the input is ", x.shape(), " and the axis ",
          wanted);
  Tensor rows = before_last(x, axis, false);
  // A spectrum of one side stands for both: the other is its mirror image, conjugated.
  const std::int64_t given = rows.size(-2);
  const bool to_real = inverse && onesided;
  const std::int64_t n = call.integer(1, to_real ? 2 * (given - 1) : given);
  require(n > 0, "the length of the transform is ", n);
  const std::int64_t needed = to_real ? n / 2 + 1 : n;
  std::vector<std::int64_t> pads(2 * static_cast<std::size_t>(rows.rank()));
  pads[pads.size() - 2] = needed - given;
  if (needed != given) rows = pad(rows, pads, 0);
  if (to_real) {
    std::vector<std::int64_t> places;
    for (std::int64_t i = n / 2 + 1; i < n; ++i) places.push_back(n - i);
    if (!places.empty()) {
      const Tensor mirror = gather(rows, Tensor::from({std::ssize(places)}, places), rows.rank() - 2);
      rows = concat({rows, mirror * cast(Tensor::from({2}, std::vector<float>{1, -1}), rows.dtype())}, -2);
    }
    const Tensor all = transformed(rows, n, true);
    return {before_last(slice(all, {0}, {1}, {-1}), axis, true)};
  }
  return {before_last(transformed(rows, onesided ? n / 2 + 1 : n, inverse), axis, true)};
}

OnnxValues stft_rule(const OnnxCall& call) {
  const Tensor& signal = call.tensor(0);
  require(signal.rank() == 2 || signal.rank() == 3, "the signal is ", signal.shape());
  const std::int64_t samples = signal.size(1), parts = signal.rank() == 3 ? std::int64_t{signal.size(2)} : 1,
                     step = call.integer(1, 1);
  const std::int64_t length = call.has(3)   ? call.integer(3, 0)
                              : call.has(2) ? std::int64_t{call.tensor(2).size(0)}
                                            : samples;
  require(step > 0 && length > 0 && length <= samples, "frames of ", length, " every ", step, " of ", samples,
          " samples");
  const std::int64_t frames = (samples - length) / step + 1;
  std::vector<std::int64_t> places;
  for (std::int64_t f = 0; f < frames; ++f)
    for (std::int64_t i = 0; i < length; ++i) places.push_back(f * step + i);
  const Tensor cut = gather(reshape(signal, {signal.size(0), samples, parts}), Tensor::from({frames, length}, places),
                            1);
  const Tensor windowed = call.has(2) ? cut * reshape(cast(call.tensor(2), cut.dtype()), {length, 1}) : cut;
  const bool onesided = call.integer("onesided", std::int64_t{1}) != 0;
  return {transformed(windowed, onesided ? length / 2 + 1 : length, false)};
}

/// a0 - a1 cos(2πi/N) + a2 cos(4πi/N).
OnnxRule window(double a0, double a1, double a2) {
  return [=](const OnnxCall& call) {
    const std::int64_t size = call.integer(0, 0);
    require(size >= 0, "the size is ", size);
    const bool periodic = call.integer("periodic", std::int64_t{1}) != 0;
    const auto n = static_cast<double>(periodic ? size : std::max<std::int64_t>(size - 1, 1));
    std::vector<double> values(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / n;
      values[i] = a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle);
    }
    const auto element = static_cast<OnnxElement>(call.integer("output_datatype", std::int64_t{1}));
    return OnnxValues{cast(Tensor::from({DType::f64, {size}}, values.data()), dtype_of(element))};
  };
}

OnnxValues mel_weights(const OnnxCall& call) {
  const std::int64_t bins = call.integer(0, 0), length = call.integer(1, 0), rate = call.integer(2, 0),
                     rows = length / 2 + 1;
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(call.number(3, 0)), high = mel(call.number(4, 0));
  require(bins > 0 && rows > 0 && rate > 0, bins, " bins of ", length, " at ", rate, " Hz");
  std::vector<std::int64_t> edges;
  for (std::int64_t i = 0; i < bins + 2; ++i) {
    const double at = low + static_cast<double>(i) * (high - low) / static_cast<double>(bins + 2);
    const double hertz = 700 * (std::pow(10, at / 2595) - 1);
    edges.push_back(
        static_cast<std::int64_t>(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
  }
  std::vector<double> values(static_cast<std::size_t>(rows * bins));
  const auto set = [&](std::int64_t row, std::int64_t bin, double value) {
    if (row >= 0 && row < rows) values[static_cast<std::size_t>(row * bins + bin)] = value;
  };
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    const std::int64_t first = edges[bin], top = edges[bin + 1], last = edges[bin + 2];
    if (top == first) set(top, bin, 1);
    for (std::int64_t row = first; row <= top && top > first; ++row)
      set(row, bin, static_cast<double>(row - first) / static_cast<double>(top - first));
    for (std::int64_t row = top; row < last; ++row)
      set(row, bin, static_cast<double>(last - row) / static_cast<double>(last - top));
  }
  const auto element = static_cast<OnnxElement>(call.integer("output_datatype", std::int64_t{1}));
  return {cast(Tensor::from({DType::f64, {rows, bins}}, values.data()), dtype_of(element))};
}

}  // namespace

void add_signal_operators(OnnxOperators& to) {
  to.add("DFT", 17, dft_rule);
  to.add("STFT", 17, stft_rule);
  to.add("HannWindow", 17, window(0.5, 0.5, 0));
  to.add("HammingWindow", 17, window(25.0 / 46, 21.0 / 46, 0));
  to.add("BlackmanWindow", 17, window(0.42, 0.5, 0.08));
  to.add("MelWeightMatrix", 17, mel_weights);
}

}  // namespace neurim
