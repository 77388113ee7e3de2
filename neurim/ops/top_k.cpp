#include "neurim/ops/top_k.h"

#include <array>
#include <numeric>

#include "neurim/graph/onnx.h"
#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/iota.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/transpose.h"

namespace neurim {

Types TopK::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  check_number(*this, in[0], "the input");
  Shape shape = in[0].shape;
  const int axis = normal_axis(options.axis, shape.rank(), name());
  require(options.k >= 0 && (shape[axis].symbolic() || shape[axis] >= options.k), name(), ": takes ", options.k,
          " elements along axis ", axis, " of ", shape);
  shape[axis] = options.k;
  return {{in[0].dtype, shape}, {DType::i64, shape}};
}

/// Each gradient goes to the place that its value came from. The axis comes last for that, and all others are one.
Tensors TopK::grad(const Gradient& g) const {
  if (!g.dout[0]) return {Tensor()};
  const Shape& shape = g.in[0].shape();
  const int axis = normal_axis(options.axis, shape.rank(), name());
  std::vector<std::int64_t> perm(static_cast<std::size_t>(shape.rank()));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[static_cast<std::size_t>(axis)], perm.back());  // which is its own inverse
  Dim rows = 1;
  Shape moved;
  for (const std::int64_t each : perm) moved.push_back(shape[static_cast<int>(each)]);
  for (int i = 0; i + 1 < moved.rank(); ++i) rows *= moved[i];
  const Tensor dy = transpose(g.dout[0], perm), index = transpose(g.out[1], perm);
  const Tensor first = iota(rows) * scalar_like(index, static_cast<double>(std::int64_t{shape[axis]}));
  const Tensor places = reshape(index, {rows, options.k}) + reshape(first, {rows, 1});
  const Tensor flat = apply1(std::make_shared<GatherGrad>(Shape{rows * shape[axis]}, 0),
                             {reshape(dy, {rows * options.k}), reshape(places, {rows * options.k})});
  return {transpose(reshape(flat, moved), perm)};
}

void TopK::write_onnx(OnnxNode& node) const {
  const std::array count{options.k};
  node.results = node.file.node("TopK", {node.in[0], node.list(std::span<const std::int64_t>(count), "k")},
                                {{"axis", options.axis}, {"largest", std::int64_t{options.largest}}}, node.name, 2);
}

std::vector<Sample> TopK::samples() const {
  std::vector<Sample> rows;
  const auto add = [&](const Shape& x, const TopKOptions& wanted, DType dtype) {
    auto op = std::make_shared<TopK>();
    op->options = wanted;
    rows.push_back({op, {{dtype, x}}, {{-50, 50, true}}});
  };
  add({3, 9}, {.k = 4}, DType::f32);
  add({4, 5, 2}, {.k = 2, .axis = 1, .largest = false}, DType::f32);
  add({2, 3, 4}, {.k = 2, .axis = 0}, DType::f32);
  add({7}, {.k = 7, .axis = 0}, DType::i64);
  add({2, 3}, {.k = 0}, DType::f32);
  add({2, 0}, {.k = 1, .axis = 0}, DType::f32);
  return rows;
}

Tensors top_k(const Tensor& x, const TopKOptions& options) {
  auto op = std::make_shared<TopK>();
  op->options = options;
  return apply(op, {x});
}

void define_top_k() { define<TopK>(); }

}  // namespace neurim
