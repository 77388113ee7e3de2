#include "neurim/ops/floor.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

class Floor final : public UnaryOp {
 public:
  std::string_view name() const override { return "floor"; }
  Tensors grad(const Gradient&) const override { return {Tensor()}; }
  Onnx onnx() const override { return {"Floor", 13}; }

 protected:
  Fill domain() const override { return {-5, 5}; }
};

}  // namespace

Tensor floor(const Tensor& x) { return apply1(std::make_shared<Floor>(), {x}); }

void define_floor() { define<Floor>(); }

}  // namespace neurim
