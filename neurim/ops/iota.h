// Counting.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The op of iota. No input -> (n).
class Iota final : public Op {
 public:
  /// Sets the attributes.
  explicit Iota(Dim count = 0, DType element = DType::i64) : n(count), dtype(element) {}
  Dim n;        ///< how many numbers
  DType dtype;  ///< of the result

  std::string_view name() const override { return "iota"; }
  void fields(Fields& f) override { f("n", n)("dtype", dtype); }
  Types infer(std::span<const Type> in) const override;
  Onnx onnx() const override { return {.composed = true}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

/// 0, 1, …, n - 1 as (n). Throws Error(usage) when n is negative or the dtype is bool.
Tensor iota(Dim n, DType dtype = DType::i64);

}  // namespace neurim
