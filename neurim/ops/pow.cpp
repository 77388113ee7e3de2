#include "neurim/ops/pow.h"

#include "neurim/ops/common/rules.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/log.h"
#include "neurim/ops/logical.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

class Pow final : public BinaryOp {
 public:
  std::string_view name() const override { return "pow"; }
  Tensors grad(const Gradient& g) const override {
    const Tensor &a = g.in[0], &b = g.in[1], &y = g.out[0], &dy = g.dout[0];
    const Tensor zero = scalar_like(a, 0);
    Tensors dx(2);
    // At a = 0 the plain formulas give 0 * infinity where the limit is 0.
    if (g.wanted[0]) dx[0] = unbroadcast(where(equal(b, zero), zero, dy * b * pow(a, b - 1.0)), a.shape());
    if (g.wanted[1]) {
      const Tensor flat = logical_and(equal(a, zero), greater_equal(b, zero));
      dx[1] = unbroadcast(where(flat, zero, dy * y * log(a)), b.shape());
    }
    return dx;
  }
  Onnx onnx() const override { return {"Pow", 7}; }

 protected:
  Fill left() const override { return {0.2, 3}; }
  Fill right() const override { return {-2, 3}; }
};

}  // namespace

Tensor pow(const Tensor& a, const Tensor& b) { return apply1(std::make_shared<Pow>(), {a, b}); }

void define_pow() { define<Pow>(); }

}  // namespace neurim
