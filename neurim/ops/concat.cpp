#include "neurim/ops/concat.h"

#include <limits>

#include "neurim/ops/common/rules.h"
#include "neurim/ops/slice.h"

namespace neurim {

Types Concat::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, std::numeric_limits<std::size_t>::max());
  const int along = normal_axis(axis, in[0].shape.rank(), "concat");
  Type out = in[0];
  for (const Type& next : in.subspan(1)) {
    check_same_dtype(*this, in[0], next);
    Shape expected = in[0].shape;
    if (next.shape.rank() == expected.rank()) expected[along] = next.shape[along];
    require(next.shape == expected, "concat: ", in[0].shape, " and ", next.shape, " differ along another axis than ",
            along);
    out.shape[along] += next.shape[along];
  }
  return {out};
}

Tensors Concat::grad(const Gradient& g) const {
  Tensors gradients;
  Dim start = 0;
  for (std::size_t i = 0; i < g.in.size(); ++i) {
    const Dim end = start + g.in[i].size(static_cast<int>(axis));
    gradients.push_back(g.wanted[i] ? slice(g.dout[0], {start}, {end}, {axis}) : Tensor());
    start = end;
  }
  return gradients;
}

std::vector<Sample> Concat::samples() const {
  const auto row = [](std::int64_t along, const std::vector<Shape>& shapes) -> Sample {
    Sample sample{std::make_shared<Concat>(along), {}};
    for (const Shape& shape : shapes) sample.in.push_back({DType::f32, shape});
    return sample;
  };
  return {row(1, {{2, 3, 4}, {2, 1, 4}, {2, 2, 4}}), row(-1, {{2, 3}, {2, 5}}), row(0, {{1, 3}, {0, 3}, {2, 3}}),
          row(0, {{4}})};
}

Tensor concat(const Tensors& tensors, std::int64_t axis) { return apply1(std::make_shared<Concat>(axis), tensors); }

void define_concat() { define<Concat>(); }

}  // namespace neurim
