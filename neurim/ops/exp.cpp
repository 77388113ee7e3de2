#include "neurim/ops/exp.h"

#include "neurim/ops/common/rules.h"
#include "neurim/ops/mul.h"

namespace neurim {

namespace {

class Exp final : public UnaryOp {
 public:
  std::string_view name() const override { return "exp"; }
  Tensors grad(const Gradient& g) const override { return {g.dout[0] * g.out[0]}; }
  Onnx onnx() const override { return {"Exp", 13}; }

 protected:
  Fill domain() const override { return {-3, 3}; }
};

}  // namespace

Tensor exp(const Tensor& x) { return apply1(std::make_shared<Exp>(), {x}); }

void define_exp() { define<Exp>(); }

}  // namespace neurim
