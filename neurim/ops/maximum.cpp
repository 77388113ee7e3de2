#include "neurim/ops/maximum.h"

#include "neurim/ops/common/rules.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

class Maximum final : public BinaryOp {
 public:
  std::string_view name() const override { return "maximum"; }
  Tensors grad(const Gradient& g) const override {
    const Tensor &a = g.in[0], &b = g.in[1], &dy = g.dout[0];
    const Tensor zero = scalar_like(a, 0), tie = where(equal(a, b), dy * 0.5, zero);
    return {g.wanted[0] ? unbroadcast(where(greater(a, b), dy, tie), g.in[0].shape()) : Tensor(),
            g.wanted[1] ? unbroadcast(where(less(a, b), dy, tie), g.in[1].shape()) : Tensor()};
  }
  Onnx onnx() const override { return {"Max", 13}; }
};

}  // namespace

Tensor maximum(const Tensor& a, const Tensor& b) { return apply1(std::make_shared<Maximum>(), {a, b}); }

void define_maximum() { define<Maximum>(); }

}  // namespace neurim
