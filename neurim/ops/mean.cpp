#include "neurim/ops/mean.h"

#include "neurim/graph/onnx.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/div.h"

namespace neurim {

namespace {

class Mean final : public ReduceOp {
 public:
  using ReduceOp::ReduceOp;
  std::string_view name() const override { return "mean"; }
  Types infer(std::span<const Type> in) const override {
    check_count(*this, in, 1, 1);
    check_floating(*this, in[0], "the input");
    return ReduceOp::infer(in);
  }
  Tensors grad(const Gradient& g) const override {
    const Tensor& x = g.in[0];
    const double count = static_cast<double>(x.numel()) / static_cast<double>(g.out[0].numel());
    return {broadcast_to(restored(g.dout[0] / count, x.shape()), x.shape())};
  }
  Onnx onnx() const override { return {.composed = true}; }
  void write_onnx(OnnxNode& node) const override { write_reduction(node, "ReduceMean", 18); }
  std::vector<Sample> samples() const override { return samples_of<Mean>(); }
};

}  // namespace

Tensor mean(const Tensor& x, std::vector<std::int64_t> axes, bool keepdims) {
  return apply1(std::make_shared<Mean>(std::move(axes), keepdims), {x});
}

void define_mean() { define<Mean>(); }

}  // namespace neurim
