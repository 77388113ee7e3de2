#include "neurim/model/onnx/fold.h"

#include <algorithm>

#include "neurim/graph/trace.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/transpose.h"

namespace neurim {

namespace {

template <class T>
const T* attribute(const OnnxAttributes& attributes, std::string_view name) {
  for (const auto& [key, value] : attributes)
    if (key == name) return std::get_if<T>(&value);
  return nullptr;
}

/// ONNX's list of sizes: 0 is that of x, -1 follows from the others.
Shape shape_of(const Tensor& x, const Tensor& sizes) {
  std::vector<std::int64_t> all = sizes.values<std::int64_t>();
  std::int64_t known = 1;
  for (std::size_t axis = 0; axis < all.size(); ++axis) {
    if (all[axis] == 0) all[axis] = x.size(static_cast<int>(axis));
    if (all[axis] != -1) known *= all[axis];
  }
  std::replace(all.begin(), all.end(), std::int64_t{-1}, std::int64_t{x.numel()} / std::max<std::int64_t>(known, 1));
  return Shape{std::span<const std::int64_t>(all)};
}

}  // namespace

Tensor folded(std::string_view type, const Tensors& in, const OnnxAttributes& attributes) {
  const Untraced untraced;
  const auto* axis = attribute<std::int64_t>(attributes, "axis");
  if (type == "Reshape" && !attribute<std::int64_t>(attributes, "allowzero"))
    return reshape(in[0], shape_of(in[0], in[1]));
  if (type == "Gather") return gather(in[0], in[1], *axis);
  if (type == "Concat") return concat(in, *axis);
  if (type == "Transpose") return transpose(in[0], *attribute<std::vector<std::int64_t>>(attributes, "perm"));
  if (type == "MatMul") return matmul(in[0], in[1]);
  if (type == "Cast")
    for (const DType dtype : kDTypes)
      if (onnx_type(dtype) == *attribute<std::int64_t>(attributes, "to")) return cast(in[0], dtype);
  return {};
}

}  // namespace neurim
