#include "neurim/ops/hardsigmoid.h"

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/div.h"
#include "neurim/ops/logical.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

class Hardsigmoid final : public UnaryOp {
 public:
  std::string_view name() const override { return "hardsigmoid"; }
  Tensors grad(const Gradient& g) const override {
    const Tensor &x = g.in[0], zero = scalar_like(x, 0);
    const Tensor inside = logical_and(greater(x, scalar_like(x, -3)), less(x, scalar_like(x, 3)));
    return {where(inside, g.dout[0] / 6.0, zero)};
  }
  Onnx onnx() const override { return {.composed = true}; }
  void write_onnx(OnnxNode& node) const override {
    node.add("HardSigmoid", node.in, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
  }

 protected:
  Fill domain() const override { return {-5, 5}; }
};

}  // namespace

Tensor hardsigmoid(const Tensor& x) { return apply1(std::make_shared<Hardsigmoid>(), {x}); }

void define_hardsigmoid() { define<Hardsigmoid>(); }

}  // namespace neurim
