#include "neurim/ops/matmul.h"

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

void matmul_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const auto& matmul = static_cast<const Matmul&>(op);
  const View& y = out[0];
  const std::vector<double> a = in[0].values(), b = in[1].values();
  const std::int64_t rows = y.shape()[-2], columns = y.shape()[-1], inner = in[0].shape()[matmul.transpose_a ? -2 : -1];
  auto batch_of = [](const Shape& shape) { return Shape(std::span(shape.begin(), shape.end() - 2)); };
  const Shape batch = batch_of(y.shape());
  const reference::BroadcastIndex batch_a(batch_of(in[0].shape()), batch), batch_b(batch_of(in[1].shape()), batch);
  const std::int64_t row_a = matmul.transpose_a ? 1 : inner, step_a = matmul.transpose_a ? rows : 1,
                     column_b = matmul.transpose_b ? inner : 1, step_b = matmul.transpose_b ? 1 : columns;
  for (std::int64_t n = 0; n < batch.numel(); ++n) {
    const double *of_a = a.data() + batch_a(n) * rows * inner, *of_b = b.data() + batch_b(n) * inner * columns;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        y.set((n * rows + i) * columns + j,
              reference::dot(inner, of_a + i * row_a, step_a, of_b + j * column_b, step_b));
  }
}

void linear_body(const Op&, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const View& y = out[0];
  const std::vector<double> x = in[0].values(), weight = in[1].values();
  const std::int64_t outputs = in[1].shape()[0], inputs = in[1].shape()[1], rows = y.numel() / outputs;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < outputs; ++j)
      y.set(i * outputs + j, reference::dot(inputs, x.data() + i * inputs, 1, weight.data() + j * inputs, 1,
                                            in.size() == 3 ? in[2][j] : 0));
}

}  // namespace

void reference_matmul() {
  reference::define_reference("matmul", matmul_body);
  reference::define_reference("linear", linear_body);
}

}  // namespace neurim
