#include "neurim/ops/matmul.h"

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

/// Calls visit(place in y, first element in a, first in b) for each sum of a product, whose terms are step_a and step_b
/// elements apart.
struct Sums {
  std::int64_t inner, step_a, step_b;

  template <class Visit>
  Sums(const Matmul& matmul, const Shape& a, const Shape& b, const Shape& y, Visit visit) {
    const std::int64_t rows = y[-2], columns = y[-1];
    inner = a[matmul.transpose_a ? -2 : -1];
    const auto batch_of = [](const Shape& shape) { return Shape(std::span(shape.begin(), shape.end() - 2)); };
    const Shape batch = batch_of(y);
    const reference::BroadcastIndex batch_a(batch_of(a), batch), batch_b(batch_of(b), batch);
    step_a = matmul.transpose_a ? rows : 1, step_b = matmul.transpose_b ? 1 : columns;
    const std::int64_t row_a = matmul.transpose_a ? 1 : inner, column_b = matmul.transpose_b ? inner : 1;
    for (std::int64_t n = 0; n < batch.numel(); ++n) {
      const std::int64_t from_a = batch_a(n) * rows * inner, from_b = batch_b(n) * inner * columns;
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
          visit(*this, (n * rows + i) * columns + j, from_a + i * row_a, from_b + j * column_b);
    }
  }
};

/// Of integers, modulo the range of their type.
template <class T>
void whole_matmul(const Matmul& matmul, std::span<const View> in, const View& y) {
  const auto *a = static_cast<const T*>(in[0].data), *b = static_cast<const T*>(in[1].data);
  Sums(matmul, in[0].shape(), in[1].shape(), y.shape(),
       [&](const Sums& of, std::int64_t at, std::int64_t first_a, std::int64_t first_b) {
         std::uint64_t sum = 0;
         for (std::int64_t k = 0; k < of.inner; ++k)
           sum += static_cast<std::uint64_t>(a[first_a + k * of.step_a]) *
                  static_cast<std::uint64_t>(b[first_b + k * of.step_b]);
         static_cast<T*>(y.data)[at] = static_cast<T>(sum);
       });
}

void matmul_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const auto& matmul = static_cast<const Matmul&>(op);
  const View& y = out[0];
  switch (y.type.dtype) {
    case DType::i64: return whole_matmul<std::int64_t>(matmul, in, y);
    case DType::i32: return whole_matmul<std::int32_t>(matmul, in, y);
    case DType::i16: return whole_matmul<std::int16_t>(matmul, in, y);
    case DType::i8: return whole_matmul<std::int8_t>(matmul, in, y);
    case DType::u64: return whole_matmul<std::uint64_t>(matmul, in, y);
    case DType::u32: return whole_matmul<std::uint32_t>(matmul, in, y);
    case DType::u16: return whole_matmul<std::uint16_t>(matmul, in, y);
    case DType::u8: return whole_matmul<std::uint8_t>(matmul, in, y);
    default: break;
  }
  const std::vector<double> a = in[0].values(), b = in[1].values();
  Sums(matmul, in[0].shape(), in[1].shape(), y.shape(),
       [&](const Sums& of, std::int64_t at, std::int64_t first_a, std::int64_t first_b) {
         y.set(at, reference::dot(of.inner, a.data() + first_a, of.step_a, b.data() + first_b, of.step_b));
       });
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
