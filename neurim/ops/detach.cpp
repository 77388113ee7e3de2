#include "neurim/ops/detach.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

class Detach final : public Op {
 public:
  std::string_view name() const override { return "detach"; }
  Types infer(std::span<const Type> in) const override {
    check_count(*this, in, 1, 1);
    return {in[0]};
  }
  Tensors grad(const Gradient&) const override { return {Tensor()}; }
  Tensors decompose(std::span<const Tensor> in) const override { return {in[0]}; }
  Onnx onnx() const override { return {"Identity", 13}; }
  // Of integers, since finite differences know nothing of a gradient that is cut on purpose.
  std::vector<Sample> samples() const override { return {{shared_from_this(), {{DType::i64, {3, 5}}}, {{-5, 6}}}}; }
};

}  // namespace

Tensor detach(const Tensor& x) { return apply1(std::make_shared<Detach>(), {x}); }

void define_detach() { define<Detach>(); }

}  // namespace neurim
