#include "neurim/ops/div.h"

#include "neurim/ops/common/rules.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/neg.h"

namespace neurim {

namespace {

class Div final : public BinaryOp {
 public:
  std::string_view name() const override { return "div"; }
  Tensors grad(const Gradient& g) const override {
    return {g.wanted[0] ? unbroadcast(g.dout[0] / g.in[1], g.in[0].shape()) : Tensor(),
            g.wanted[1] ? unbroadcast(neg(g.dout[0] * g.out[0] / g.in[1]), g.in[1].shape()) : Tensor()};
  }
  Onnx onnx() const override { return {"Div", 7}; }

 protected:
  Fill right() const override { return {0.3, 3}; }
};

}  // namespace

Tensor div(const Tensor& a, const Tensor& b) { return apply1(std::make_shared<Div>(), {a, b}); }
Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
Tensor operator/(const Tensor& a, double b) { return div(a, scalar_like(a, b)); }
Tensor operator/(double a, const Tensor& b) { return div(scalar_like(b, a), b); }

void define_div() { define<Div>(); }

}  // namespace neurim
