#include "neurim/ops/add.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

class Add final : public BinaryOp {
 public:
  std::string_view name() const override { return "add"; }
  Tensors grad(const Gradient& g) const override {
    return {g.wanted[0] ? unbroadcast(g.dout[0], g.in[0].shape()) : Tensor(),
            g.wanted[1] ? unbroadcast(g.dout[0], g.in[1].shape()) : Tensor()};
  }
  Onnx onnx() const override { return {"Add", 7}; }
};

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return apply1(std::make_shared<Add>(), {a, b}); }
Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor operator+(const Tensor& a, double b) { return add(a, scalar_like(a, b)); }
Tensor operator+(double a, const Tensor& b) { return add(scalar_like(b, a), b); }

void define_add() { define<Add>(); }

}  // namespace neurim
