#include "neurim/ops/broadcast_to.h"

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

Types BroadcastTo::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  require(broadcast(in[0].shape, shape, "broadcast_to") == shape, "broadcast_to: ", in[0].shape,
          " does not broadcast to ", shape);
  return {{in[0].dtype, shape}};
}

Tensors BroadcastTo::grad(const Gradient& g) const { return {unbroadcast(g.dout[0], g.in[0].shape())}; }

std::vector<Sample> BroadcastTo::samples() const {
  const auto row = [](const Shape& from, const Shape& to) -> Sample {
    return {std::make_shared<BroadcastTo>(to), {{DType::f32, from}}};
  };
  return {row({3, 1}, {3, 5}), row({4}, {2, 3, 4}), row({2, 1, 3, 1}, {2, 4, 3, 5}),
          row({}, {2, 2}),     row({2, 3}, {2, 3}), row({2, 3, 1, 1}, {2, 3, 4, 5})};
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) { return apply1(std::make_shared<BroadcastTo>(shape), {x}); }

void BroadcastTo::write_onnx(OnnxNode& node) const {
  node.add("Expand", {node.in[0], node.list(node.out.shape, "shape")});
}

void define_broadcast_to() { define<BroadcastTo>(); }

}  // namespace neurim
