#include "neurim/ops/sign.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

class Sign final : public UnaryOp {
 public:
  std::string_view name() const override { return "sign"; }
  Tensors grad(const Gradient&) const override { return {Tensor()}; }
  Onnx onnx() const override { return {"Sign", 13}; }

 protected:
  bool takes_integers() const override { return true; }
};

}  // namespace

Tensor sign(const Tensor& x) { return apply1(std::make_shared<Sign>(), {x}); }

void define_sign() { define<Sign>(); }

}  // namespace neurim
