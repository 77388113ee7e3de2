// Class numbers as indicator vectors.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The op of one_hot. Input (indices).
class OneHot final : public Op {
 public:
  /// Sets the attributes.
  explicit OneHot(std::int64_t count = 0, DType element = DType::f32) : classes(count), dtype(element) {}
  std::int64_t classes;  ///< the size of the new last axis
  DType dtype;           ///< of the result

  std::string_view name() const override { return "one_hot"; }
  void fields(Fields& f) override { f("classes", classes)("dtype", dtype); }
  Types infer(std::span<const Type> in) const override;
  bool checks_data() const override { return true; }
  std::string data_fault(std::span<const Tensor> in) const override;
  Onnx onnx() const override { return {.composed = true}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

/// indices (…), i64 or i32, as (…, classes): 1 at the index, 0 elsewhere. An index outside [0, classes) sets
/// kStatusIndexOutOfRange. No gradient.
Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype = DType::f32);

}  // namespace neurim
