#include "neurim/ops/log.h"

#include "neurim/ops/common/rules.h"
#include "neurim/ops/div.h"

namespace neurim {

namespace {

class Log final : public UnaryOp {
 public:
  std::string_view name() const override { return "log"; }
  Tensors grad(const Gradient& g) const override { return {g.dout[0] / g.in[0]}; }
  Onnx onnx() const override { return {"Log", 13}; }

 protected:
  Fill domain() const override { return {0.1, 4}; }
};

}  // namespace

Tensor log(const Tensor& x) { return apply1(std::make_shared<Log>(), {x}); }

void define_log() { define<Log>(); }

}  // namespace neurim
