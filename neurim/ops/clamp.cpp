#include "neurim/ops/clamp.h"

#include <cmath>
#include <limits>

#include "neurim/base/error.h"
#include "neurim/graph/onnx.h"

namespace neurim {

Types Clamp::infer(std::span<const Type> in) const {
  require(low <= high, "clamp: low is ", low, " and high is ", high, ", but low has to be the smaller");
  return UnaryOp::infer(in);
}

Tensors Clamp::grad(const Gradient& g) const {
  return {apply1(std::make_shared<ClampGrad>(low, high), {g.in[0], g.dout[0]})};
}

std::vector<Sample> Clamp::samples() const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Type x{DType::f32, {2, 3, 17}};
  return {{std::make_shared<Clamp>(0, 6), {x}, {{-4, 10}}},
          {std::make_shared<Clamp>(-0.5, 0.25), {x}},
          {std::make_shared<Clamp>(-kInfinity, 0.1), {x}},
          {std::make_shared<Clamp>(0, 6), {{DType::i64, {3, 5}}}, {{-4, 10}}}};
}

Tensor clamp(const Tensor& x, double low, double high) { return apply1(std::make_shared<Clamp>(low, high), {x}); }

void Clamp::write_onnx(OnnxNode& node) const {
  const std::string least = std::isinf(low) ? "" : node.scalar(low), most = std::isinf(high) ? "" : node.scalar(high);
  node.add("Clip", {node.in[0], least, most});
}

void define_clamp() {
  define<Clamp>();
  define<ClampGrad>();
}

}  // namespace neurim
