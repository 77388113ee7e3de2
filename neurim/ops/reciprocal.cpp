#include "neurim/ops/reciprocal.h"

#include "neurim/ops/common/rules.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/neg.h"
#include "neurim/ops/square.h"

namespace neurim {

namespace {

class Reciprocal final : public UnaryOp {
 public:
  std::string_view name() const override { return "reciprocal"; }
  Tensors grad(const Gradient& g) const override { return {neg(g.dout[0] * square(g.out[0]))}; }
  Onnx onnx() const override { return {"Reciprocal", 13}; }

 protected:
  Fill domain() const override { return {0.2, 4}; }
};

}  // namespace

Tensor reciprocal(const Tensor& x) { return apply1(std::make_shared<Reciprocal>(), {x}); }

void define_reciprocal() { define<Reciprocal>(); }

}  // namespace neurim
