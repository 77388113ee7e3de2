#include "neurim/ops/matmul.h"

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

void matmul_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const auto& matmul = static_cast<const Matmul&>(op);
  const View& y = out[0];
  const std::vector<double> a = in[0].values(), b = in[1].values();
  const std::int64_t rows = y.shape()[-2], columns = y.shape()[-1], inner = in[0].shape()[matmul.transpose_a ? -2 : -1];
  auto batch_of = [](const Shape& shape) { return Shape(std::span(shape.begin(), shape.end() - 2)); };
  const Shape batch = batch_of(y.shape());
  const reference::BroadcastIndex batch_a(batch_of(in[0].shape()), batch), batch_b(batch_of(in[1].shape()), batch);
  for (std::int64_t n = 0; n < batch.numel(); ++n) {
    const std::int64_t first_a = batch_a(n) * rows * inner, first_b = batch_b(n) * inner * columns;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < inner; ++k)
          sum += a[at(first_a + (matmul.transpose_a ? k * rows + i : i * inner + k))] *
                 b[at(first_b + (matmul.transpose_b ? j * inner + k : k * columns + j))];
        y.set((n * rows + i) * columns + j, sum);
      }
  }
}

void linear_body(const Op&, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const View& y = out[0];
  const std::vector<double> x = in[0].values(), weight = in[1].values();
  const std::int64_t outputs = in[1].shape()[0], inputs = in[1].shape()[1], rows = y.numel() / outputs;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < outputs; ++j) {
      double sum = in.size() == 3 ? in[2][j] : 0;
      for (std::int64_t k = 0; k < inputs; ++k) sum += x[at(i * inputs + k)] * weight[at(j * inputs + k)];
      y.set(i * outputs + j, sum);
    }
}

}  // namespace

void reference_matmul() {
  reference::define_reference("matmul", matmul_body);
  reference::define_reference("linear", linear_body);
}

}  // namespace neurim
