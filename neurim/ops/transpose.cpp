#include "neurim/ops/transpose.h"

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

Types Transpose::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  const int rank = in[0].shape.rank();
  const auto is_permutation = [&] {
    std::vector<bool> seen(perm.size());
    for (std::int64_t axis : perm) {
      if (axis < 0 || axis >= rank || seen[axis]) return false;
      seen[axis] = true;
    }
    return true;
  };
  require(static_cast<int>(perm.size()) == rank && is_permutation(), "transpose: perm ", Shape(std::span(perm)),
          " does not name each axis of ", in[0].shape, " once");
  Shape out;
  for (std::int64_t axis : perm) out.push_back(in[0].shape[static_cast<int>(axis)]);
  return {{in[0].dtype, out}};
}

Tensors Transpose::grad(const Gradient& g) const {
  std::vector<std::int64_t> inverse(perm.size());
  for (std::size_t axis = 0; axis < perm.size(); ++axis) inverse[perm[axis]] = static_cast<std::int64_t>(axis);
  return {transpose(g.dout[0], inverse)};
}

std::optional<Layout> Transpose::layout_alias(const Type& in, const Layout& layout) const {
  const bool apart = layout.kind == Layout::blocked, last = layout.kind == Layout::last_blocked;
  const int rank = in.shape.rank();
  if (rank < 3 || (!apart && !last)) return std::nullopt;
  std::vector<std::int64_t> order{0};  // axis 1 last, or the last one second
  if (last) order.push_back(rank - 1);
  for (int axis = apart ? 2 : 1; axis < (last ? rank - 1 : rank); ++axis) order.push_back(axis);
  if (apart) order.push_back(1);
  if (perm != order) return std::nullopt;
  return Layout{apart ? Layout::last_blocked : Layout::blocked, layout.block, 0, layout.storage};
}

std::vector<Sample> Transpose::samples() const {
  const auto row = [](const Shape& shape, std::vector<std::int64_t> order) -> Sample {
    return {std::make_shared<Transpose>(std::move(order)), {{DType::f32, shape}}};
  };
  return {row({3, 5}, {1, 0}),       row({2, 3, 4}, {2, 0, 1}),
          row({2, 3, 4}, {0, 2, 1}), row({2, 3, 4, 5}, {0, 2, 3, 1}),
          row({2, 3}, {0, 1}),       row({}, {})};
}

Tensor transpose(const Tensor& x, const std::vector<std::int64_t>& perm) {
  return apply1(std::make_shared<Transpose>(perm), {x});
}

void Transpose::write_onnx(OnnxNode& node) const {
  if (node.types[0].shape.empty())
    node.add("Identity", node.in);
  else
    Op::write_onnx(node);
}

void define_transpose() { define<Transpose>(); }

}  // namespace neurim
