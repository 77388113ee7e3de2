#include "neurim/ops/layer_norm.h"

#include <algorithm>

#include "neurim/graph/onnx.h"
#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/rsqrt.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sub.h"

namespace neurim {

NormRows NormOp::rows(const Shape& x, const Shape& weight) const {
  const std::int64_t groups = group_count();
  if (groups == 0) return {x.numel() / weight.numel(), 1, weight.numel(), 1};
  const Dim planes = x[0] * x[1];
  return {x[0] * groups, groups, x[1] / groups, planes == 0 ? 0 : std::int64_t{x.numel() / planes}};
}

void NormOp::check(const Type& x, const Type& weight, std::span<const Type> more) const {
  check_floating(*this, x, "the input");
  check_floating(*this, weight, "the weight");
  const std::int64_t groups = group_count();
  require(groups >= 0, name(), ": groups is ", groups, ", but has to be 1 or more");
  if (groups == 0) {
    const int lead = x.shape.rank() - weight.shape.rank();
    require(weight.shape.rank() > 0 && weight.shape.numel() > 0 && lead >= 0 &&
                std::equal(weight.shape.begin(), weight.shape.end(), x.shape.begin() + lead),
            name(), ": the normalized shape ", weight.shape, " is not that of the last axes of the input ", x.shape);
  } else {
    require(x.shape.rank() >= 2, name(), ": takes an input (N,C,…), got ", x.shape);
    require(x.shape[1] % groups == 0, name(), ": the ", x.shape[1], " channels of input ", x.shape,
            " do not divide into ", groups, " groups");
    require(weight.shape == Shape{x.shape[1]}, name(), ": input ", x.shape, " has ", x.shape[1],
            " channels, weight is ", weight.shape);
  }
  for (const Type& type : more)
    require(type == weight, name(), ": weight is ", weight, ", bias is ", type, "; they have to be equal");
}

Tensors NormOp::grad(const Gradient& g) const {
  return apply(std::make_shared<NormGrad>(eps, group_count(), centered()), {g.dout[0], g.in[0], g.in[1]});
}

Tensors NormOp::decompose(std::span<const Tensor> in) const {
  const Shape &shape = in[0].shape(), &weight = in[1].shape();
  const std::int64_t groups = group_count();
  Tensor x = wide(in[0]);
  std::vector<std::int64_t> axes{-1};
  for (int axis = 1; groups == 0 && axis < weight.rank(); ++axis) axes.push_back(-1 - axis);
  const Dim planes = shape[0] * groups;
  if (groups > 0) x = reshape(x, {shape[0], groups, planes == 0 ? Dim(0) : shape.numel() / planes});
  if (centered()) x = x - mean(x, axes, true);
  x = x * rsqrt(mean(square(x), axes, true) + eps);
  if (groups > 0) x = reshape(x, shape);
  const auto beside = [&](const Tensor& factors) {
    const Tensor same = cast(factors, x.dtype());
    if (groups == 0) return same;
    Shape channels{shape[1]};
    while (channels.rank() < shape.rank() - 1) channels.push_back(1);
    return reshape(same, channels);
  };
  x = x * beside(in[1]);
  return {cast(centered() ? x + beside(in[2]) : x, in[0].dtype())};
}

Types LayerNorm::infer(std::span<const Type> in) const {
  check_count(*this, in, 3, 3);
  check(in[0], in[1], in.subspan(2));
  return {in[0]};
}

Types NormGrad::infer(std::span<const Type> in) const {
  check_count(*this, in, 3, 3);
  check(in[1], in[2], {});
  require(in[0] == in[1], name(), ": dy is ", in[0], ", x is ", in[1], "; they have to be equal");
  return centered() ? Types{in[1], in[2], in[2]} : Types{in[1], in[2]};
}

std::vector<Sample> LayerNorm::samples() const {
  const auto row = [](const Shape& x, const Shape& normalized, double epsilon = 1e-5) -> Sample {
    const Type weight{DType::f32, normalized};
    return {std::make_shared<LayerNorm>(epsilon), {{DType::f32, x}, weight, weight}};
  };
  return {row({2, 3, 17}, {17}, 1e-3), row({4, 5, 6}, {5, 6}), row({3, 160}, {160}), row({6}, {6}),
          row({2, 3, 4}, {4}),         row({600, 64}, {64})};
}

std::vector<Sample> NormGrad::samples() const {
  const auto row = [](const Shape& x, const Shape& weight, std::int64_t count, bool about_mean) -> Sample {
    const Type type{DType::f32, x};
    return {std::make_shared<NormGrad>(1e-3, count, about_mean), {type, type, {DType::f32, weight}}};
  };
  return {row({2, 3, 17}, {17}, 0, true),  row({4, 5, 6}, {5, 6}, 0, true), row({3, 160}, {160}, 0, false),
          row({2, 6, 5, 4}, {6}, 2, true), row({2, 6, 9, 9}, {6}, 6, true), row({3, 8}, {8}, 4, true),
          row({300, 2, 64}, {64}, 0, true)};  // enough for several parts
}

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, const Tensor& bias,
                  double eps) {
  for (const Tensor& given : {weight, bias})
    if (given && given.shape() != normalized_shape)
      fail(Fault::usage, "layer_norm: a weight or bias ", given.shape(), " has not the normalized shape ",
           normalized_shape);
  const Type type{weight ? weight.dtype() : bias ? bias.dtype() : x.dtype(), normalized_shape};
  return apply1(std::make_shared<LayerNorm>(eps), {x, weight ? weight : Tensor::full(type, 1, x.device()),
                                                   bias ? bias : Tensor::full(type, 0, x.device())});
}

void LayerNorm::write_onnx(OnnxNode& node) const {
  const std::int64_t axis = -node.types[1].shape.rank();
  const std::vector<std::string> in = node.in_one_dtype();
  node.add(onnx_operator(*this, node.file), in, {{"axis", axis}, {"epsilon", eps}});
}

void define_layer_norm() {
  define<LayerNorm>();
  define<NormGrad>();
}

}  // namespace neurim
