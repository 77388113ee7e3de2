#include "neurim/ops/reshape.h"

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

Types Reshape::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  Shape out = shape;
  int free_axis = -1;
  Dim known = 1;
  for (int axis = 0; axis < out.rank(); ++axis) {
    require(out[axis] >= -1, "reshape: a size of ", shape, " is below -1");
    require(out[axis] >= 0 || free_axis < 0, "reshape: ", shape, " has more than one -1");
    if (out[axis] < 0)
      free_axis = axis;
    else
      known *= out[axis];
  }
  if (free_axis >= 0) out[free_axis] = known == 0 ? Dim(0) : in[0].shape.numel() / known;
  require(out.numel() == in[0].shape.numel(), "reshape: ", in[0].shape, " has ", in[0].shape.numel(),
          " elements, which do not fit ", shape);
  return {{in[0].dtype, out}};
}

Tensors Reshape::grad(const Gradient& g) const { return {reshape(g.dout[0], g.in[0].shape())}; }

std::optional<Layout> Reshape::layout_alias(const Type& in, const Layout& layout) const {
  const Shape &from = in.shape, to = infer({{in}})[0].shape;
  if (from.rank() < 2 || to.rank() < 2 || from.numel() == 0) return std::nullopt;
  if (layout.kind == Layout::last_blocked && layout.block >= from[-1] && from[-1] == to[-1]) return layout;
  if (from[0] != to[0]) return std::nullopt;
  if (layout.kind == Layout::blocked && from[1] == to[1]) return layout;
  if (layout.kind == Layout::last_blocked && to.rank() >= 3 && from[-1] == to[-1]) return layout;
  return std::nullopt;
}

std::vector<Sample> Reshape::samples() const {
  const auto row = [](const Shape& from, const Shape& to) -> Sample {
    return {std::make_shared<Reshape>(to), {{DType::f32, from}}};
  };
  return {row({2, 3, 4}, {6, 4}), row({2, 3, 5}, {2, -1}), row({7}, {1, 7, 1}), row({1, 1}, {}),
          row({}, {1}),           row({0, 3}, {3, -1})};
}

Tensor reshape(const Tensor& x, const Shape& shape) { return apply1(std::make_shared<Reshape>(shape), {x}); }

void Reshape::write_onnx(OnnxNode& node) const {
  std::vector<Dim> sizes(node.out.shape.begin(), node.out.shape.end());
  const auto varying = [](Dim size) { return size.symbolic(); };
  const bool empty = std::any_of(sizes.begin(), sizes.end(), [](Dim size) { return size == 0; });
  // One size that follows from the others needs no computing; but ONNX forbids it beside 0.
  if (!empty && std::count_if(sizes.begin(), sizes.end(), varying) == 1)
    *std::find_if(sizes.begin(), sizes.end(), varying) = -1;
  OnnxAttributes attributes;
  if (empty) attributes.emplace_back("allowzero", std::int64_t{1});
  node.add("Reshape", {node.in[0], node.list(sizes, "shape")}, attributes);
}

void define_reshape() { define<Reshape>(); }

}  // namespace neurim
