#include "neurim/ops/mul.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

class Mul final : public BinaryOp {
 public:
  std::string_view name() const override { return "mul"; }
  Tensors grad(const Gradient& g) const override {
    return {g.wanted[0] ? unbroadcast(g.dout[0] * g.in[1], g.in[0].shape()) : Tensor(),
            g.wanted[1] ? unbroadcast(g.dout[0] * g.in[0], g.in[1].shape()) : Tensor()};
  }
  Onnx onnx() const override { return {"Mul", 7}; }
};

}  // namespace

Tensor mul(const Tensor& a, const Tensor& b) { return apply1(std::make_shared<Mul>(), {a, b}); }
Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
Tensor operator*(const Tensor& a, double b) { return mul(a, scalar_like(a, b)); }
Tensor operator*(double a, const Tensor& b) { return mul(scalar_like(b, a), b); }

void define_mul() { define<Mul>(); }

}  // namespace neurim
