#include "neurim/ops/shrink.h"

#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/tanh.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

/// x - bias where x > lambd, x + bias where x < -lambd, else 0: ONNX's form of both shrinks.
class Shrink final : public UnaryOp {
 public:
  double lambd, bias;

  explicit Shrink(double lambd_ = 0.5, double bias_ = 0) : lambd(lambd_), bias(bias_) {}
  std::string_view name() const override { return "shrink"; }
  void fields(Fields& f) override { f("lambd", lambd)("bias", bias); }
  Types infer(std::span<const Type> in) const override {
    require(lambd >= 0, "shrink: lambd is ", lambd, ", but has to be 0 or more");
    return UnaryOp::infer(in);
  }
  Tensors decompose(std::span<const Tensor> in) const override {
    const Tensor& x = in[0];
    const Tensor below = where(less(x, scalar_like(x, -lambd)), x + bias, scalar_like(x, 0));
    return {where(greater(x, scalar_like(x, lambd)), x - bias, below)};
  }
  Onnx onnx() const override { return {"Shrink", 9}; }
  std::vector<Sample> samples() const override {
    const Type x{DType::f32, {2, 3, 17}};
    return {{std::make_shared<Shrink>(0.5, 0), {x}},
            {std::make_shared<Shrink>(0.25, 0.25), {x}},
            {std::make_shared<Shrink>(0, 0), {x}}};
  }
};

}  // namespace

Tensor hardshrink(const Tensor& x, double lambd) { return apply1(std::make_shared<Shrink>(lambd, 0), {x}); }
Tensor softshrink(const Tensor& x, double lambd) { return apply1(std::make_shared<Shrink>(lambd, lambd), {x}); }
Tensor tanhshrink(const Tensor& x) {
  const Tensor y = wide(x);
  return cast(y - tanh(y), x.dtype());
}

void define_shrink() { define<Shrink>(); }

}  // namespace neurim
