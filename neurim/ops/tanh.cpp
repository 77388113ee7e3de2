#include "neurim/ops/tanh.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

/// dy * (1 - y * y); inputs (y, dy).
class TanhGrad final : public UnaryGradOp {
 public:
  std::string_view name() const override { return "tanh_grad"; }
};

class Tanh final : public UnaryOp {
 public:
  std::string_view name() const override { return "tanh"; }
  Tensors grad(const Gradient& g) const override {
    return {apply1(std::make_shared<TanhGrad>(), {g.out[0], g.dout[0]})};
  }
  Onnx onnx() const override { return {"Tanh", 13}; }

 protected:
  Fill domain() const override { return {-4, 4}; }
};

}  // namespace

Tensor tanh(const Tensor& x) { return apply1(std::make_shared<Tanh>(), {x}); }

void define_tanh() {
  define<Tanh>();
  define<TanhGrad>();
}

}  // namespace neurim
