#include "neurim/ops/sub.h"

#include "neurim/ops/common/rules.h"
#include "neurim/ops/neg.h"

namespace neurim {

namespace {

class Sub final : public BinaryOp {
 public:
  std::string_view name() const override { return "sub"; }
  Tensors grad(const Gradient& g) const override {
    return {g.wanted[0] ? unbroadcast(g.dout[0], g.in[0].shape()) : Tensor(),
            g.wanted[1] ? unbroadcast(neg(g.dout[0]), g.in[1].shape()) : Tensor()};
  }
  Onnx onnx() const override { return {"Sub", 7}; }
};

}  // namespace

Tensor sub(const Tensor& a, const Tensor& b) { return apply1(std::make_shared<Sub>(), {a, b}); }
Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
Tensor operator-(const Tensor& a, double b) { return sub(a, scalar_like(a, b)); }
Tensor operator-(double a, const Tensor& b) { return sub(scalar_like(b, a), b); }

void define_sub() { define<Sub>(); }

}  // namespace neurim
