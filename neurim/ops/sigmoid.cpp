#include "neurim/ops/sigmoid.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

/// dy * y * (1 - y); inputs (y, dy).
class SigmoidGrad final : public UnaryGradOp {
 public:
  std::string_view name() const override { return "sigmoid_grad"; }

 protected:
  Fill domain() const override { return {0, 1}; }
};

class Sigmoid final : public UnaryOp {
 public:
  std::string_view name() const override { return "sigmoid"; }
  Tensors grad(const Gradient& g) const override {
    return {apply1(std::make_shared<SigmoidGrad>(), {g.out[0], g.dout[0]})};
  }
  Onnx onnx() const override { return {"Sigmoid", 13}; }

 protected:
  Fill domain() const override { return {-6, 6}; }
};

}  // namespace

Tensor sigmoid(const Tensor& x) { return apply1(std::make_shared<Sigmoid>(), {x}); }

void define_sigmoid() {
  define<Sigmoid>();
  define<SigmoidGrad>();
}

}  // namespace neurim
