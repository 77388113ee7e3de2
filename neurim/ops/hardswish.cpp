#include "neurim/ops/hardswish.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

/// dy times 0 where x <= -3, 1 where x >= 3, x / 3 + 1/2 between; inputs (x, dy).
class HardswishGrad final : public UnaryGradOp {
 public:
  std::string_view name() const override { return "hardswish_grad"; }

 protected:
  Fill domain() const override { return {-5, 5}; }
};

class Hardswish final : public UnaryOp {
 public:
  std::string_view name() const override { return "hardswish"; }
  Tensors grad(const Gradient& g) const override {
    return {apply1(std::make_shared<HardswishGrad>(), {g.in[0], g.dout[0]})};
  }
  Onnx onnx() const override { return {"HardSwish", 14}; }

 protected:
  Fill domain() const override { return {-5, 5}; }
};

}  // namespace

Tensor hardswish(const Tensor& x) { return apply1(std::make_shared<Hardswish>(), {x}); }

void define_hardswish() {
  define<Hardswish>();
  define<HardswishGrad>();
}

}  // namespace neurim
