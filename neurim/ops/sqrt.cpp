#include "neurim/ops/sqrt.h"

#include "neurim/ops/common/rules.h"
#include "neurim/ops/div.h"
#include "neurim/ops/mul.h"

namespace neurim {

namespace {

class Sqrt final : public UnaryOp {
 public:
  std::string_view name() const override { return "sqrt"; }
  Tensors grad(const Gradient& g) const override { return {g.dout[0] / (g.out[0] * 2.0)}; }
  Onnx onnx() const override { return {"Sqrt", 13}; }

 protected:
  Fill domain() const override { return {0.1, 4}; }
};

}  // namespace

Tensor sqrt(const Tensor& x) { return apply1(std::make_shared<Sqrt>(), {x}); }

void define_sqrt() { define<Sqrt>(); }

}  // namespace neurim
