#include "neurim/ops/matmul.h"

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

void matmul_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const auto& matmul = static_cast<const Matmul&>(op);
  const View &a = in[0], &b = in[1], &y = out[0];
  const std::int64_t rows = y.shape()[-2], columns = y.shape()[-1],
                     inner = a.shape()[matmul.transpose_a ? -2 : -1];
  auto batch_of = [](const Shape& shape) { return Shape(std::span(shape.begin(), shape.end() - 2)); };
  const Shape batch = batch_of(y.shape());
  const reference::BroadcastIndex batch_a(batch_of(a.shape()), batch), batch_b(batch_of(b.shape()), batch);
  for (std::int64_t n = 0; n < batch.numel(); ++n) {
    const std::int64_t first_a = batch_a(n) * rows * inner, first_b = batch_b(n) * inner * columns;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < inner; ++k)
          sum += a[first_a + (matmul.transpose_a ? k * rows + i : i * inner + k)] *
                 b[first_b + (matmul.transpose_b ? j * inner + k : k * columns + j)];
        y.set((n * rows + i) * columns + j, sum);
      }
  }
}

void linear_body(const Op&, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const View &x = in[0], &weight = in[1], &y = out[0];
  const std::int64_t outputs = weight.shape()[0], inputs = weight.shape()[1], rows = y.numel() / outputs;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < outputs; ++j) {
      double sum = in.size() == 3 ? in[2][j] : 0;
      for (std::int64_t k = 0; k < inputs; ++k) sum += x[i * inputs + k] * weight[j * inputs + k];
      y.set(i * outputs + j, sum);
    }
}

}  // namespace

void reference_matmul() {
  reference::define_reference("matmul", matmul_body);
  reference::define_reference("linear", linear_body);
}

}  // namespace neurim
