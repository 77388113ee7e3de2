#include "neurim/ops/mish.h"

#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/softplus.h"
#include "neurim/ops/tanh.h"

namespace neurim {

namespace {

class Mish final : public UnaryOp {
 public:
  std::string_view name() const override { return "mish"; }
  Tensors decompose(std::span<const Tensor> in) const override {
    const Tensor x = wide(in[0]);
    return {cast(x * tanh(softplus(x)), in[0].dtype())};
  }
  Onnx onnx() const override { return {"Mish", 18}; }

 protected:
  Fill domain() const override { return {-6, 6}; }
};

}  // namespace

Tensor mish(const Tensor& x) { return apply1(std::make_shared<Mish>(), {x}); }

void define_mish() { define<Mish>(); }

}  // namespace neurim
