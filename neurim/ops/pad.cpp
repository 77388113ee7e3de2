#include "neurim/ops/pad.h"

#include "neurim/ops/rules.h"

namespace neurim {

Types Pad::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  Type out = in[0];
  const std::size_t rank = static_cast<std::size_t>(out.shape.rank());
  require(pads.size() == 2 * rank, "pad: ", in[0].shape, " takes ", 2 * rank,
          " pads, all begins then all ends, got ", pads.size());
  for (std::size_t axis = 0; axis < rank; ++axis) {
    std::int64_t& size = out.shape[static_cast<int>(axis)];
    size += pads[axis] + pads[rank + axis];
    require(size >= 0, "pad: pads ", pads[axis], " and ", pads[rank + axis], " along axis ", axis,
            " crop more of ", in[0].shape, " than there is");
  }
  return {out};
}

// Element i moves to i + begin and back, so the same op with the opposite pads is its transpose.
Tensors Pad::grad(const Gradient& g) const {
  std::vector<std::int64_t> opposite;
  for (std::int64_t amount : pads) opposite.push_back(-amount);
  return {pad(g.dout[0], std::move(opposite))};
}

std::vector<Sample> Pad::samples() const {
  const auto row = [](const Shape& shape, std::vector<std::int64_t> amounts, double fill = 0) -> Sample {
    return {std::make_shared<Pad>(std::move(amounts), fill), {{DType::f32, shape}}};
  };
  return {row({2, 3, 4, 5}, {0, 0, 1, 2, 0, 0, 0, 1}), row({3, 4}, {1, 0, 0, 2}, -1.5),
          row({5, 4}, {-1, 2, -2, -1}), row({3}, {0, 0}, 1), row({}, {})};
}

Tensor pad(const Tensor& x, std::vector<std::int64_t> pads, double value) {
  return apply1(std::make_shared<Pad>(std::move(pads), value), {x});
}

void define_pad() { define<Pad>(); }

}  // namespace neurim
