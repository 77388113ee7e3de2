#include "neurim/ops/softsign.h"

#include "neurim/ops/abs.h"
#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/div.h"

namespace neurim {

namespace {

class Softsign final : public UnaryOp {
 public:
  std::string_view name() const override { return "softsign"; }
  Tensors decompose(std::span<const Tensor> in) const override {
    const Tensor x = wide(in[0]);
    return {cast(x / (abs(x) + 1.0), in[0].dtype())};
  }
  Onnx onnx() const override { return {"Softsign", 1}; }

 protected:
  Fill domain() const override { return {-6, 6}; }
};

}  // namespace

Tensor softsign(const Tensor& x) { return apply1(std::make_shared<Softsign>(), {x}); }

void define_softsign() { define<Softsign>(); }

}  // namespace neurim
