#include "neurim/ops/reduce_min.h"

#include "neurim/graph/onnx.h"
#include "neurim/ops/reduce_max.h"

namespace neurim {

namespace {

class ReduceMin final : public ExtremumOp {
 public:
  using ExtremumOp::ExtremumOp;
  std::string_view name() const override { return "reduce_min"; }
  Onnx onnx() const override { return {.composed = true}; }
  void write_onnx(OnnxNode& node) const override { write_reduction(node, "ReduceMin", 18); }
  std::vector<Sample> samples() const override { return samples_of<ReduceMin>({-1, 1, true}); }
};

}  // namespace

Tensor reduce_min(const Tensor& x, std::vector<std::int64_t> axes, bool keepdims) {
  return apply1(std::make_shared<ReduceMin>(std::move(axes), keepdims), {x});
}

void define_reduce_min() { define<ReduceMin>(); }

}  // namespace neurim
