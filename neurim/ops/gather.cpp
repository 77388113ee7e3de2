#include "neurim/ops/gather.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

void check_indices(const Op& op, const Type& indices) {
  require(indices.dtype == DType::i64 || indices.dtype == DType::i32, op.name(), ": the indices are ", indices.dtype,
          ", not i64 or i32");
}

/// What is wrong with the indices into `whole` along an axis.
std::string index_fault(const Tensor& indices, const Shape& whole, std::int64_t axis) {
  const std::int64_t size = whole[static_cast<int>(axis)];
  return outside("the index", indices, -size, size);
}

/// The shape of gather: `whole` with its axis `along` replaced by the shape of the indices.
Shape gathered(const Shape& whole, int along, const Shape& indices) {
  Shape out;
  for (int axis = 0; axis < along; ++axis) out.push_back(whole[axis]);
  for (const Dim size : indices) out.push_back(size);
  for (int axis = along + 1; axis < whole.rank(); ++axis) out.push_back(whole[axis]);
  return out;
}

struct GatherRow {
  Shape whole;
  std::int64_t axis;
  Shape indices;
  DType dtype = DType::i64;
  Fill fill = {0, 1};
};

std::vector<GatherRow> gather_rows() {
  return {{{5, 3}, 0, {4}, DType::i64, {0, 5}},     {{2, 4, 3}, 1, {3, 2}, DType::i32, {-4, 4}},
          {{3, 6}, -1, {9}, DType::i64, {0, 3}},    {{3, 4}, 0, {}, DType::i64, {-1, 0}},
          {{2, 5, 70}, 1, {8}, DType::i64, {0, 5}}, {{3, 4}, 1, {0}}};
}

}  // namespace

Types Gather::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_indices(*this, in[1]);
  return {{in[0].dtype, gathered(in[0].shape, normal_axis(axis, in[0].shape.rank(), "gather"), in[1].shape)}};
}

std::string Gather::data_fault(std::span<const Tensor> in) const { return index_fault(in[1], in[0].shape(), axis); }
std::string GatherGrad::data_fault(std::span<const Tensor> in) const { return index_fault(in[1], shape, axis); }

Tensors Gather::grad(const Gradient& g) const {
  return {apply1(std::make_shared<GatherGrad>(g.in[0].shape(), axis), {g.dout[0], g.in[1]}), {}};
}

Types GatherGrad::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_indices(*this, in[1]);
  const Shape part = gathered(shape, normal_axis(axis, shape.rank(), "gather_grad"), in[1].shape);
  require(in[0].shape == part, "gather_grad: the gradient ", in[0].shape, " has not the shape ", part,
          " of the gather from ", shape);
  return {{in[0].dtype, shape}};
}

Tensors GatherGrad::grad(const Gradient& g) const { return {gather(g.dout[0], g.in[1], axis), {}}; }

std::vector<Sample> Gather::samples() const {
  std::vector<Sample> samples;
  for (const GatherRow& row : gather_rows())
    samples.push_back(
        {std::make_shared<Gather>(row.axis), {{DType::f32, row.whole}, {row.dtype, row.indices}}, {{}, row.fill}});
  return samples;
}

std::vector<Sample> GatherGrad::samples() const {
  std::vector<Sample> samples;
  for (const GatherRow& row : gather_rows()) {
    const int along = normal_axis(row.axis, row.whole.rank(), "gather_grad");
    samples.push_back({std::make_shared<GatherGrad>(row.whole, row.axis),
                       {{DType::f32, gathered(row.whole, along, row.indices)}, {row.dtype, row.indices}},
                       {{}, row.fill}});
  }
  return samples;
}

Tensor gather(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  return apply1(std::make_shared<Gather>(axis), {x, indices});
}

void define_gather() {
  define<Gather>();
  define<GatherGrad>();
}

}  // namespace neurim
