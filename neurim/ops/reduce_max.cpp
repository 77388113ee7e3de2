#include "neurim/ops/reduce_max.h"

#include "neurim/base/error.h"
#include "neurim/graph/onnx.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/div.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/sum.h"

namespace neurim {

Types ExtremumOp::infer(std::span<const Type> in) const {
  const Types out = ReduceOp::infer(in);
  require(in[0].shape.numel() > 0 || out[0].shape.numel() == 0, name(), ": the input is ", in[0],
          ", and there is no extremum of nothing");
  return out;
}

Tensors ExtremumOp::grad(const Gradient& g) const {
  const Tensor& x = g.in[0];
  const Tensor hit = cast(equal(x, restored(g.out[0], x.shape())), x.dtype());
  return {hit * (restored(g.dout[0], x.shape()) / sum(hit, axes, true))};
}

namespace {

class ReduceMax final : public ExtremumOp {
 public:
  using ExtremumOp::ExtremumOp;
  std::string_view name() const override { return "reduce_max"; }
  Onnx onnx() const override { return {.composed = true}; }
  void write_onnx(OnnxNode& node) const override { write_reduction(node, "ReduceMax", 18); }
  std::vector<Sample> samples() const override { return samples_of<ReduceMax>({-1, 1, true}); }
};

}  // namespace

Tensor reduce_max(const Tensor& x, std::vector<std::int64_t> axes, bool keepdims) {
  return apply1(std::make_shared<ReduceMax>(std::move(axes), keepdims), {x});
}

void define_reduce_max() { define<ReduceMax>(); }

}  // namespace neurim
