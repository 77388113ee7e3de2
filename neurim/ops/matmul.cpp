#include "neurim/ops/matmul.h"

#include "neurim/base/error.h"
#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/reshape.h"

namespace neurim {

namespace {

/// The axes before the last two.
Shape batch_of(const Shape& shape) { return Shape(std::span(shape.begin(), shape.end() - 2)); }

std::shared_ptr<Matmul> make(bool transpose_a, bool transpose_b) {
  auto op = std::make_shared<Matmul>();
  op->transpose_a = transpose_a;
  op->transpose_b = transpose_b;
  return op;
}

}  // namespace

void Matmul::fields(Fields& f) { f("transpose_a", transpose_a)("transpose_b", transpose_b); }

Types Matmul::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_number(*this, in[0], "a");
  check_same_dtype(*this, in[0], in[1]);
  const Shape &a = in[0].shape, &b = in[1].shape;
  require(a.rank() >= 2 && b.rank() >= 2, name(), ": takes a(…,M,K) and b(…,K,N), got ", a, " and ", b);
  const Dim inner_a = a[transpose_a ? -2 : -1], inner_b = b[transpose_b ? -1 : -2];
  require(inner_a == inner_b, name(), ": a ", a, transpose_a ? " transposed" : "", " has ", inner_a, " columns, b ", b,
          transpose_b ? " transposed" : "", " has ", inner_b, " rows; they have to be equal");
  Shape out = broadcast(batch_of(a), batch_of(b), name());
  out.push_back(a[transpose_a ? -1 : -2]);
  out.push_back(b[transpose_b ? -2 : -1]);
  return {{in[0].dtype, out}};
}

Tensors Matmul::grad(const Gradient& g) const {
  const Tensor &a = g.in[0], &b = g.in[1], &dy = g.dout[0];
  Tensors d(2);
  if (g.wanted[0])
    d[0] = unbroadcast(transpose_a ? matmul(b, dy, transpose_b, true) : matmul(dy, b, false, !transpose_b), a.shape());
  if (g.wanted[1])
    d[1] = unbroadcast(transpose_b ? matmul(dy, a, true, transpose_a) : matmul(a, dy, !transpose_a, false), b.shape());
  return d;
}

std::int64_t Matmul::multiply_adds(std::span<const Type> in) const {
  return infer(in)[0].shape.numel() * in[0].shape[transpose_a ? -2 : -1];
}

Onnx Matmul::onnx() const { return transpose_a || transpose_b ? Onnx{.composed = true} : Onnx{"MatMul", 13}; }

std::vector<Sample> Matmul::samples() const {
  std::vector<Sample> all;
  auto row = [&](bool ta, bool tb, const Shape& a, const Shape& b) {
    all.push_back({make(ta, tb), {{DType::f32, a}, {DType::f32, b}}});
  };
  row(false, false, {3, 5}, {5, 7});
  row(true, false, {5, 3}, {5, 7});
  row(false, true, {3, 5}, {7, 5});
  row(true, true, {5, 3}, {7, 5});
  row(false, false, {1, 1}, {1, 1});
  row(false, false, {1, 17}, {17, 1});
  row(false, false, {17, 1}, {1, 33});
  row(false, false, {16, 32}, {32, 16});
  row(false, false, {130, 9}, {9, 70});  // from here on many rows: several blocks of each axis, with tails
  row(false, true, {129, 257}, {17, 257});
  row(true, false, {257, 131}, {257, 19});
  row(true, true, {5, 128}, {3, 5});
  row(false, false, {2, 3, 5}, {2, 5, 4});
  row(true, true, {2, 5, 3}, {2, 4, 5});
  row(false, false, {4, 3, 5}, {5, 6});          // one b for all
  row(false, true, {3, 5}, {2, 3, 6, 5});        // one a for all
  row(true, false, {2, 1, 5, 3}, {1, 4, 5, 2});  // both broadcast
  for (const DType dtype : {DType::i64, DType::i32})
    all.push_back({make(false, true), {{dtype, {2, 3, 5}}, {dtype, {4, 5}}}, {{0, 6}, {0, 6}}});
  return all;
}

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  require(a.rank() > 0 && b.rank() > 0, "matmul: takes no scalars, got ", a.shape(), " and ", b.shape());
  const bool row = a.rank() == 1, column = b.rank() == 1;
  require(!(row && transpose_a) && !(column && transpose_b), "matmul: a vector has no transpose, got ", a.shape(),
          " and ", b.shape());
  const Tensor product = apply1(make(transpose_a, transpose_b), {row ? reshape(a, Shape{1, a.size(0)}) : a,
                                                                 column ? reshape(b, Shape{b.size(0), 1}) : b});
  if (!row && !column) return product;
  Shape out = batch_of(product.shape());
  if (!row) out.push_back(product.size(-2));
  if (!column) out.push_back(product.size(-1));
  return reshape(product, out);
}

void Matmul::write_onnx(OnnxNode& node) const {
  const auto side = [&](std::size_t i, bool transpose) {
    return transpose ? node.transposed(node.in[i], node.types[i].shape.rank()) : node.in[i];
  };
  const std::string a = side(0, transpose_a), b = side(1, transpose_b);
  node.add("MatMul", {a, b});
}

void define_matmul() { define<Matmul>(); }

}  // namespace neurim
