#include "neurim/ops/pad.h"

#include <algorithm>

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/gather.h"

namespace neurim {

Types Pad::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  Type out = in[0];
  const std::size_t rank = out.shape.rank();
  require(pads.size() == 2 * rank, "pad: ", in[0].shape, " takes ", 2 * rank, " pads, all begins then all ends, got ",
          pads.size());
  for (std::size_t axis = 0; axis < rank; ++axis) {
    Dim& size = out.shape[static_cast<int>(axis)];
    size += pads[axis] + pads[rank + axis];
    require((size + 1).may_be_positive(), "pad: pads ", pads[axis], " and ", pads[rank + axis], " along axis ", axis,
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
  return {row({2, 3, 4, 5}, {0, 0, 1, 2, 0, 0, 0, 1}), row({3, 4}, {1, 0, 0, 2}, -1.5), row({5, 4}, {-1, 2, -2, -1}),
          row({3}, {0, 0}, 1), row({}, {})};
}

Types BorderPad::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  require(mode == "reflect" || mode == "replicate" || mode == "circular", "pad: mode is '", mode,
          "', but has to be reflect, replicate or circular");
  const Type out = Pad(pads).infer(in)[0];
  const std::size_t rank = pads.size() / 2;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t most = std::max(pads[axis], pads[rank + axis]);
    if (most <= 0) continue;
    const std::int64_t size = in[0].shape[static_cast<int>(axis)];
    const std::int64_t limit = mode == "reflect" ? size - 1 : mode == "circular" || size == 0 ? size : most;
    require(most <= std::max<std::int64_t>(limit, 0), "pad: mode ", mode, " adds up to ", limit, " along axis ", axis,
            " of ", in[0].shape, ", not ", most);
  }
  return {out};
}

Tensors BorderPad::decompose(std::span<const Tensor> in) const {
  Tensor x = in[0];
  const std::size_t rank = pads.size() / 2;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t begin = pads[axis], end = pads[rank + axis];
    if (begin == 0 && end == 0) continue;
    const std::int64_t size = x.size(static_cast<int>(axis));
    std::vector<std::int64_t> from;
    for (std::int64_t i = -begin; i < size + end; ++i)
      from.push_back(mode == "reflect"     ? (i < 0      ? -i
                                              : i < size ? i
                                                         : 2 * (size - 1) - i)
                     : mode == "replicate" ? std::clamp<std::int64_t>(i, 0, size - 1)
                                           : (i + size) % size);
    const Shape count{static_cast<std::int64_t>(from.size())};
    x = gather(x, Tensor::from(count, from, x.device()), static_cast<std::int64_t>(axis));
  }
  return {x};
}

std::vector<Sample> BorderPad::samples() const {
  const auto row = [](const Shape& x, std::vector<std::int64_t> amounts, std::string border) -> Sample {
    return {std::make_shared<BorderPad>(std::move(amounts), std::move(border)), {{DType::f32, x}}};
  };
  std::vector<Sample> all;
  for (const char* border : {"reflect", "replicate", "circular"}) {
    all.push_back(row({2, 3, 5, 4}, {0, 0, 1, 2, 0, 0, 4, 3}, border));
    all.push_back(row({2, 3, 6}, {0, 0, 2, 0, 0, 1}, border));
  }
  all.push_back(row({1, 2, 3}, {0, 0, 7, 0, 0, 9}, "replicate"));
  return all;
}

Tensor pad(const Tensor& x, std::vector<std::int64_t> pads, const std::string& mode) {
  return apply1(std::make_shared<BorderPad>(std::move(pads), mode), {x});
}

Tensor pad(const Tensor& x, std::vector<std::int64_t> pads, double value) {
  return apply1(std::make_shared<Pad>(std::move(pads), value), {x});
}

void Pad::write_onnx(OnnxNode& node) const {
  if (pads.empty()) {
    node.add("Identity", node.in);
    return;
  }
  const std::string list = node.list(pads, "pads");
  node.add("Pad", {node.in[0], list, node.scalar(value)});
}

void BorderPad::write_onnx(OnnxNode& node) const {
  const std::string onnx_mode = mode == "replicate" ? "edge" : mode == "circular" ? "wrap" : mode;
  node.add(onnx_operator(*this, node.file), {node.in[0], node.list(pads, "pads")}, {{"mode", onnx_mode}});
}

void define_pad() {
  define<Pad>();
  define<BorderPad>();
}

}  // namespace neurim
