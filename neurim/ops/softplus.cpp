#include "neurim/ops/softplus.h"

#include "neurim/ops/common/rules.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/sigmoid.h"

namespace neurim {

namespace {

class Softplus final : public UnaryOp {
 public:
  std::string_view name() const override { return "softplus"; }
  Tensors grad(const Gradient& g) const override { return {g.dout[0] * sigmoid(g.in[0])}; }
  Onnx onnx() const override { return {"Softplus", 1}; }

 protected:
  Fill domain() const override { return {-8, 8}; }
};

}  // namespace

Tensor softplus(const Tensor& x) { return apply1(std::make_shared<Softplus>(), {x}); }

void define_softplus() { define<Softplus>(); }

}  // namespace neurim
