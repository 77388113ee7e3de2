// Matrix product, batched.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// a(…,M,K) times b(…,K,N) -> (…,M,N); the leading axes broadcast. `transpose_a` says that a is (…,K,M),
/// `transpose_b` that b is (…,N,K). One number dtype; sums of integers wrap around. A vector is a row on the left, a
/// column on the right, and its axis leaves the result, as in NumPy.
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);

/// Inputs (a, b), each of two or more axes.
class Matmul final : public Op {
 public:
  bool transpose_a = false,  ///< whether a is (…,K,M)
      transpose_b = false;   ///< whether b is (…,N,K)
  std::string_view name() const override { return "matmul"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::int64_t multiply_adds(std::span<const Type> in) const override;
  Onnx onnx() const override;
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
