#include "neurim/ops/max_unpool.h"

#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/window.h"

namespace neurim {

Types MaxPoolIndices::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  check_number(*this, in[0], "the input");
  const auto& [kernel, stride, dilation, pad, ceil_mode, column_major] = options;
  const Shape& x = in[0].shape;
  const std::size_t axes = kernel.size();
  require(axes > 0 && x.rank() == static_cast<int>(axes) + 2, name(), ": takes x(N,C,…) with the ", axes,
          " axes of the kernel, got ", x);
  require(stride.size() == axes && dilation.size() == axes && pad.size() == 2 * axes, name(),
          ": stride, dilation and pad have ", stride.size(), ", ", dilation.size(), " and ", pad.size(),
          " numbers for ", axes, " axes");
  Shape out = x;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    require(kernel[axis] > 0 && stride[axis] > 0 && dilation[axis] > 0 && pad[axis] >= 0 && pad[axis + axes] >= 0,
            name(), ": kernel ", kernel[axis], ", stride ", stride[axis], " and dilation ", dilation[axis],
            " have to be positive, and padding not negative");
    Dim& size = out[static_cast<int>(axis) + 2];
    size = window_count(size, kernel[axis], stride[axis], dilation[axis], pad[axis], pad[axis + axes], ceil_mode);
  }
  return {{DType::i64, out}};
}

std::vector<Sample> MaxPoolIndices::samples() const {
  std::vector<Sample> all;
  const auto row = [&](const Shape& x, const MaxIndicesOptions& given, DType dtype = DType::f32) {
    auto op = std::make_shared<MaxPoolIndices>();
    op->options = given;
    all.push_back({op, {{dtype, x}}, {{0, 100, true}}});
  };
  row({2, 3, 7, 6}, {{2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}});
  row({1, 2, 7, 6}, {{3, 2}, {1, 2}, {1, 2}, {1, 0, 1, 1}, false, true});
  row({2, 2, 9}, {{3}, {2}, {1}, {1, 1}, true}, DType::u8);
  row({1, 2, 4, 5, 3}, {{2, 2, 2}, {1, 2, 1}, {1, 1, 1}, {0, 1, 0, 0, 0, 1}, false, true});
  return all;
}

Types MaxUnpool::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  require(in[1] == Type{DType::i64, in[0].shape}, name(), ": the indices are ", in[1], ", x ", in[0], " expects ",
          Type{DType::i64, in[0].shape});
  for (const Dim size : shape)
    require(size.may_be_positive() || size == 0, name(), ": the result would be ", shape, ", with a negative size");
  return {{in[0].dtype, shape}};
}

std::string MaxUnpool::data_fault(std::span<const Tensor> in) const {
  return outside("the index", in[1], 0, shape.numel());
}

std::vector<Sample> MaxUnpool::samples() const {
  const auto row = [](DType dtype, const Shape& x, const Shape& whole) -> Sample {
    return {std::make_shared<MaxUnpool>(whole),
            {{dtype, x}, {DType::i64, x}},
            {{-8, 8}, {0, static_cast<double>(whole.numel())}}};
  };
  return {row(DType::f32, {1, 2, 2, 2}, {1, 2, 4, 4}), row(DType::i32, {2, 1, 3}, {2, 1, 6})};
}

Tensor max_pool_indices(const Tensor& x, const MaxIndicesOptions& options) {
  auto op = std::make_shared<MaxPoolIndices>();
  op->options = options;
  return apply1(op, {x});
}

Tensor max_unpool(const Tensor& x, const Tensor& indices, const Shape& shape) {
  return apply1(std::make_shared<MaxUnpool>(shape), {x, indices});
}

void define_max_unpool() {
  define<MaxPoolIndices>();
  define<MaxUnpool>();
}

}  // namespace neurim
