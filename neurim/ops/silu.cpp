#include "neurim/ops/silu.h"

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

/// dy * silu'(x); inputs (x, dy).
class SiluGrad final : public UnaryGradOp {
 public:
  std::string_view name() const override { return "silu_grad"; }

 protected:
  Fill domain() const override { return {-6, 6}; }
};

class Silu final : public UnaryOp {
 public:
  std::string_view name() const override { return "silu"; }
  Tensors grad(const Gradient& g) const override {
    return {apply1(std::make_shared<SiluGrad>(), {g.in[0], g.dout[0]})};
  }
  Onnx onnx() const override { return {.composed = true}; }
  void write_onnx(OnnxNode& node) const override { node.add("Mul", {node.in[0], node.add("Sigmoid", node.in)}); }

 protected:
  Fill domain() const override { return {-6, 6}; }
};

}  // namespace

Tensor silu(const Tensor& x) { return apply1(std::make_shared<Silu>(), {x}); }

void define_silu() {
  define<Silu>();
  define<SiluGrad>();
}

}  // namespace neurim
