#include "neurim/ops/erf.h"

#include <cmath>
#include <numbers>

#include "neurim/ops/common/rules.h"
#include "neurim/ops/exp.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/neg.h"
#include "neurim/ops/square.h"

namespace neurim {

namespace {

class Erf final : public UnaryOp {
 public:
  std::string_view name() const override { return "erf"; }
  Tensors grad(const Gradient& g) const override {
    return {g.dout[0] * exp(neg(square(g.in[0]))) * (2 / std::sqrt(std::numbers::pi))};
  }
  Onnx onnx() const override { return {"Erf", 13}; }

 protected:
  Fill domain() const override { return {-3, 3}; }
};

}  // namespace

Tensor erf(const Tensor& x) { return apply1(std::make_shared<Erf>(), {x}); }

void define_erf() { define<Erf>(); }

}  // namespace neurim
