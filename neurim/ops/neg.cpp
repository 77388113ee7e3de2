#include "neurim/ops/neg.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

class Neg final : public UnaryOp {
 public:
  std::string_view name() const override { return "neg"; }
  Tensors grad(const Gradient& g) const override { return {neg(g.dout[0])}; }
  Onnx onnx() const override { return {"Neg", 13}; }

 protected:
  bool takes_integers() const override { return true; }
};

}  // namespace

Tensor neg(const Tensor& x) { return apply1(std::make_shared<Neg>(), {x}); }
Tensor operator-(const Tensor& x) { return neg(x); }

void define_neg() { define<Neg>(); }

}  // namespace neurim
