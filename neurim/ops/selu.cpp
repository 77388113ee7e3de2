#include "neurim/ops/selu.h"

#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/elu.h"
#include "neurim/ops/maximum.h"
#include "neurim/ops/minimum.h"
#include "neurim/ops/mul.h"

namespace neurim {

namespace {

constexpr double kAlpha = 1.6732632423543772, kScale = 1.0507009873554805;

class Selu final : public UnaryOp {
 public:
  std::string_view name() const override { return "selu"; }
  Tensors decompose(std::span<const Tensor> in) const override {
    return {cast(elu(wide(in[0]), kAlpha) * kScale, in[0].dtype())};
  }
  Onnx onnx() const override { return {"Selu", 6}; }

 protected:
  Fill domain() const override { return {-3, 3}; }
};

class Celu final : public UnaryOp {
 public:
  double alpha;

  explicit Celu(double alpha_ = 1) : alpha(alpha_) {}
  std::string_view name() const override { return "celu"; }
  void fields(Fields& f) override { f("alpha", alpha); }
  Types infer(std::span<const Type> in) const override {
    require(alpha > 0, "celu: alpha is ", alpha, ", but has to be above 0");
    return UnaryOp::infer(in);
  }
  Tensors decompose(std::span<const Tensor> in) const override {
    const Tensor x = wide(in[0]), zero = scalar_like(x, 0);
    const Tensor below = minimum(elu(x * (1 / alpha)) * alpha, zero);
    return {cast(maximum(x, zero) + below, in[0].dtype())};
  }
  Onnx onnx() const override { return {"Celu", 12}; }
  std::vector<Sample> samples() const override {
    const Type x{DType::f32, {2, 3, 17}};
    return {{std::make_shared<Celu>(), {x}, {{-3, 3}}}, {std::make_shared<Celu>(0.4), {x}, {{-3, 3}}}};
  }
};

}  // namespace

Tensor selu(const Tensor& x) { return apply1(std::make_shared<Selu>(), {x}); }
Tensor celu(const Tensor& x, double alpha) { return apply1(std::make_shared<Celu>(alpha), {x}); }

void define_selu() {
  define<Selu>();
  define<Celu>();
}

}  // namespace neurim
