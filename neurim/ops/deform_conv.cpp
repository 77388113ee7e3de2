#include "neurim/ops/deform_conv.h"

#include "neurim/ops/add.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/window.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/reshape.h"

namespace neurim {

std::int64_t DeformColumns::taps() const {
  std::int64_t count = 1;
  for (const std::int64_t size : kernel) count *= size;
  return count;
}

Types DeformColumns::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 3);
  check_floating(*this, in[0], "the input");
  const Shape& x = in[0].shape;
  const int axes = static_cast<int>(kernel.size());
  require(axes > 0 && axes <= 3 && x.rank() == axes + 2, name(), ": takes x(N,C,…) with the ", axes,
          " axes of the kernel, 1 to 3, got ", x);
  require(stride.size() == kernel.size() && dilation.size() == kernel.size() && pad.size() == 2 * kernel.size(), name(),
          ": stride, dilation and pad have ", stride.size(), ", ", dilation.size(), " and ", pad.size(),
          " numbers for ", axes, " axes");
  require(offset_groups > 0 && x[1] % offset_groups == 0, name(), ": the ", x[1], " channels of input ", x,
          " do not divide into ", offset_groups, " groups of offsets");
  Shape offset{x[0], offset_groups * taps() * axes}, mask{x[0], offset_groups * taps()};
  Dim places = 1;
  for (std::size_t axis = 0; axis < kernel.size(); ++axis) {
    require(kernel[axis] > 0 && stride[axis] > 0 && dilation[axis] > 0, name(), ": kernel ", kernel[axis], ", stride ",
            stride[axis], " and dilation ", dilation[axis], " have to be positive");
    const Dim size = window_count(x[static_cast<int>(axis) + 2], kernel[axis], stride[axis], dilation[axis], pad[axis],
                                  pad[axis + kernel.size()]);
    offset.push_back(size);
    mask.push_back(size);
    places *= size;
  }
  require(in[1] == Type{in[0].dtype, offset}, name(), ": the offset is ", in[1], ", input ", in[0], " expects ",
          Type{in[0].dtype, offset});
  require(in.size() == 2 || in[2] == Type{in[0].dtype, mask}, name(), ": the mask is ", in.back(), ", input ", in[0],
          " expects ", Type{in[0].dtype, mask});
  return {{in[0].dtype, {x[0], x[1], taps(), places}}};
}

std::vector<Sample> DeformColumns::samples() const {
  struct DeformRow {
    Shape x;
    std::vector<std::int64_t> kernel, stride, dilation, pad;
    std::int64_t groups;
    Shape out;
    bool mask;
  };
  std::vector<Sample> all;
  for (const DeformRow& row :
       {DeformRow{{2, 3, 5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1, {5, 6}, false},
        DeformRow{{1, 4, 7, 5}, {2, 2}, {2, 1}, {1, 2}, {0, 1, 1, 0}, 2, {4, 4}, true},
        DeformRow{{2, 2, 7}, {3}, {2}, {1}, {1, 1}, 1, {4}, true},
        DeformRow{{1, 2, 3, 4, 3}, {2, 2, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}, 1, {2, 3, 3}, false}}) {
    auto op = std::make_shared<DeformColumns>();
    op->kernel = row.kernel, op->stride = row.stride, op->dilation = row.dilation, op->pad = row.pad;
    op->offset_groups = row.groups;
    Shape offset{row.x[0], row.groups * op->taps() * std::ssize(row.kernel)}, mask{row.x[0], row.groups * op->taps()};
    for (const Dim size : row.out) offset.push_back(size), mask.push_back(size);
    Sample sample{op, {{DType::f32, row.x}, {DType::f32, offset}}, {{}, {-1.5, 1.5}}};
    if (row.mask) sample.in.push_back({DType::f32, mask});
    all.push_back(sample);
  }
  return all;
}

Tensor deform_conv(const Tensor& x, const Tensor& weight, const Tensor& offset, const Tensor& bias, const Tensor& mask,
                   const DeformConvOptions& options) {
  require(weight.rank() == x.rank() && weight.rank() >= 3,
          "deform_conv: takes x(N,C,…) and weight(O,C/groups,k…), got ", x.shape(), " and ", weight.shape());
  const std::int64_t groups = options.groups, outputs = weight.size(0);
  require(groups > 0 && outputs % groups == 0 && x.size(1) == weight.size(1) * groups, "deform_conv: input ", x.shape(),
          " and weight ", weight.shape(), " do not divide into ", groups, " groups");
  auto op = std::make_shared<DeformColumns>();
  op->kernel.assign(weight.shape().begin() + 2, weight.shape().end());
  op->stride = options.stride, op->dilation = options.dilation, op->pad = options.pad;
  op->offset_groups = options.offset_groups;
  const Tensor columns = apply1(op, mask ? Tensors{x, offset, mask} : Tensors{x, offset});
  const Dim terms = weight.size(1) * op->taps(), places = columns.size(3);
  // Kernels take products of equal batches.
  const Tensor rows = broadcast_to(reshape(weight, {1, groups, outputs / groups, terms}),
                                   {x.size(0), groups, outputs / groups, terms});
  const Tensor y = matmul(rows, reshape(columns, {x.size(0), groups, terms, places}));
  Shape shape{x.size(0), outputs}, channels{outputs};
  for (int axis = 2; axis < offset.rank(); ++axis) shape.push_back(offset.size(axis)), channels.push_back(1);
  return bias ? reshape(y, shape) + reshape(bias, channels) : reshape(y, shape);
}

void define_deform_conv() { define<DeformColumns>(); }

}  // namespace neurim
