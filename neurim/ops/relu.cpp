#include "neurim/ops/relu.h"

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

/// dy where y > 0, else 0; inputs (y, dy).
class ReluGrad final : public BinaryOp {
 public:
  std::string_view name() const override { return "relu_grad"; }
  std::vector<Sample> samples() const override {
    return {{std::make_shared<ReluGrad>(), {{DType::f32, {2, 3, 4}}, {DType::f32, {2, 3, 4}}}}};
  }
};

class Relu final : public UnaryOp {
 public:
  std::string_view name() const override { return "relu"; }
  Tensors grad(const Gradient& g) const override {
    return {apply1(std::make_shared<ReluGrad>(), {g.out[0], g.dout[0]})};
  }
  Onnx onnx() const override { return {"Relu", 6}; }
  std::vector<Sample> samples() const override {
    return {{std::make_shared<Relu>(), {{DType::f32, {2, 3, 17}}}}, {std::make_shared<Relu>(), {{DType::f32, {}}}}};
  }
};

/// dy where 0 < y < 6, else 0; inputs (y, dy).
class Relu6Grad final : public UnaryGradOp {
 public:
  std::string_view name() const override { return "relu6_grad"; }

 protected:
  Fill domain() const override { return {-4, 10}; }
};

class Relu6 final : public UnaryOp {
 public:
  std::string_view name() const override { return "relu6"; }
  Tensors grad(const Gradient& g) const override {
    return {apply1(std::make_shared<Relu6Grad>(), {g.out[0], g.dout[0]})};
  }
  Onnx onnx() const override { return {.composed = true}; }
  void write_onnx(OnnxNode& node) const override { node.add("Clip", {node.in[0], node.scalar(0), node.scalar(6)}); }

 protected:
  Fill domain() const override { return {-4, 10}; }
};

}  // namespace

Tensor relu6(const Tensor& x) { return apply1(std::make_shared<Relu6>(), {x}); }

Tensor relu(const Tensor& x) { return apply1(std::make_shared<Relu>(), {x}); }

void define_relu() {
  define<Relu>();
  define<ReluGrad>();
  define<Relu6>();
  define<Relu6Grad>();
}

}  // namespace neurim
