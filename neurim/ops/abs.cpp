#include "neurim/ops/abs.h"

#include "neurim/ops/common/rules.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/sign.h"

namespace neurim {

namespace {

class Abs final : public UnaryOp {
 public:
  std::string_view name() const override { return "abs"; }
  Tensors grad(const Gradient& g) const override { return {g.dout[0] * sign(g.in[0])}; }
  Onnx onnx() const override { return {"Abs", 13}; }

 protected:
  bool takes_integers() const override { return true; }
};

}  // namespace

Tensor abs(const Tensor& x) { return apply1(std::make_shared<Abs>(), {x}); }

void define_abs() { define<Abs>(); }

}  // namespace neurim
