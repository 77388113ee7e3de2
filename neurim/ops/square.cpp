#include "neurim/ops/square.h"

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/mul.h"

namespace neurim {

namespace {

class Square final : public UnaryOp {
 public:
  std::string_view name() const override { return "square"; }
  Tensors grad(const Gradient& g) const override { return {g.dout[0] * g.in[0] * 2.0}; }
  Onnx onnx() const override { return {.composed = true}; }
  void write_onnx(OnnxNode& node) const override { node.add("Mul", {node.in[0], node.in[0]}); }

 protected:
  bool takes_integers() const override { return true; }
};

}  // namespace

Tensor square(const Tensor& x) { return apply1(std::make_shared<Square>(), {x}); }

void define_square() { define<Square>(); }

}  // namespace neurim
