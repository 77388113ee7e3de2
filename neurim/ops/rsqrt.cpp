#include "neurim/ops/rsqrt.h"

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/square.h"

namespace neurim {

namespace {

class Rsqrt final : public UnaryOp {
 public:
  std::string_view name() const override { return "rsqrt"; }
  Tensors grad(const Gradient& g) const override { return {g.dout[0] * square(g.out[0]) * g.out[0] * -0.5}; }
  Onnx onnx() const override { return {.composed = true}; }
  void write_onnx(OnnxNode& node) const override { node.add("Reciprocal", {node.add("Sqrt", node.in)}); }

 protected:
  Fill domain() const override { return {0.1, 4}; }
};

}  // namespace

Tensor rsqrt(const Tensor& x) { return apply1(std::make_shared<Rsqrt>(), {x}); }

void define_rsqrt() { define<Rsqrt>(); }

}  // namespace neurim
