#include "neurim/ops/cast.h"

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

Types Cast::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  return {{dtype, in[0].shape}};
}

Tensors Cast::grad(const Gradient& g) const { return {cast(g.dout[0], g.in[0].dtype())}; }

std::vector<Sample> Cast::samples() const {
  std::vector<Sample> rows;
  for (const DType from : kDTypes)
    for (const DType to : kDTypes)
      if (from != to) rows.push_back({std::make_shared<Cast>(to), {{from, {3, 7}}}, {{0, 50}}});
  return rows;
}

Tensor cast(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : apply1(std::make_shared<Cast>(dtype), {x});
}

void Cast::write_onnx(OnnxNode& node) const { node.add("Cast", node.in, {{"to", onnx_type(node.out.dtype)}}); }

void define_cast() { define<Cast>(); }

}  // namespace neurim
