#include "neurim/ops/sum.h"

#include "neurim/graph/onnx.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

class Sum final : public ReduceOp {
 public:
  using ReduceOp::ReduceOp;
  std::string_view name() const override { return "sum"; }
  Tensors grad(const Gradient& g) const override {
    const Shape& shape = g.in[0].shape();
    return {broadcast_to(restored(g.dout[0], shape), shape)};
  }
  Onnx onnx() const override { return {.composed = true}; }
  void write_onnx(OnnxNode& node) const override { write_reduction(node, "ReduceSum", 13); }
  std::vector<Sample> samples() const override { return samples_of<Sum>(); }
};

}  // namespace

Tensor sum(const Tensor& x, std::vector<std::int64_t> axes, bool keepdims) {
  return apply1(std::make_shared<Sum>(std::move(axes), keepdims), {x});
}

void define_sum() { define<Sum>(); }

}  // namespace neurim
