#include "neurim/ops/split.h"

#include <algorithm>
#include <numeric>

#include "neurim/ops/common/rules.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/slice.h"

namespace neurim {

Types SplitOp::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  const Shape& x = in[0].shape;
  const int along = normal_axis(axis, x.rank(), name());
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  require(!sizes.empty() && total == x[along], name(), ": the sizes of the ", sizes.size(), " parts add up to ", total,
          ", axis ", along, " of ", x, " is ", x[along]);
  require(std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size >= 0; }), name(),
          ": a size is negative");
  Types out(sizes.size(), in[0]);
  for (std::size_t i = 0; i < out.size(); ++i) out[i].shape[along] = sizes[i];
  return out;
}

Tensors SplitOp::grad(const Gradient& g) const {
  Tensors parts;
  for (std::size_t i = 0; i < g.out.size(); ++i)
    parts.push_back(g.dout[i] ? g.dout[i] : Tensor::full(g.out[i].type(), 0, g.out[i].device()));
  return {concat(parts, axis)};
}

Tensors SplitOp::decompose(std::span<const Tensor> in) const {
  Tensors parts;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(slice(in[0], {start}, {start + size}, {axis}));
    start += size;
  }
  return parts;
}

std::vector<Sample> SplitOp::samples() const {
  const auto row = [](const Shape& x, std::vector<std::int64_t> parts, std::int64_t along) -> Sample {
    return {std::make_shared<SplitOp>(std::move(parts), along), {{DType::f32, x}}};
  };
  return {row({2, 6, 3}, {2, 2, 2}, 1), row({2, 7}, {4, 1, 2}, -1), row({5, 2}, {0, 5}, 0), row({3}, {3}, 0)};
}

Tensors split(const Tensor& x, std::vector<std::int64_t> sizes, std::int64_t axis) {
  return neurim::apply(std::make_shared<SplitOp>(std::move(sizes), axis), {x});
}

void define_split() { define<SplitOp>(); }

}  // namespace neurim
