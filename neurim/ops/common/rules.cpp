#include "neurim/ops/common/rules.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/graph/onnx.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/sum.h"

namespace neurim {

void check_count(const Op& op, std::span<const Type> in, std::size_t least, std::size_t most) {
  if (in.size() >= least && in.size() <= most) return;
  fail(Fault::usage, op.name(), ": takes ", least == most ? text(least) : text(least, " to ", most),
       most == 1 ? " input" : " inputs", ", got ", in.size());
}

void check_floating(const Op& op, const Type& in, std::string_view what) {
  require(is_floating(in.dtype), op.name(), ": ", what, " is ", in, ", but has to be floating: cast it first");
}

void check_floating_scalar(const Op& op, const Type& in, std::string_view what) {
  check_floating(op, in, what);
  require(in.shape.empty(), op.name(), ": ", what, " is ", in, ", not a scalar");
}

void check_same_dtype(const Op& op, const Type& a, const Type& b) {
  require(a.dtype == b.dtype, op.name(), ": inputs are ", a, " and ", b, ": cast one to the dtype of the other");
}

void check_number(const Op& op, const Type& in, std::string_view what) {
  require(in.dtype != DType::boolean, op.name(), ": ", what, " is ", in, ", not numbers: cast it first");
}

std::string outside(std::string_view what, const Tensor& numbers, std::int64_t low, std::int64_t high,
                    std::optional<std::int64_t> ignored) {
  const std::vector<std::int64_t> values = numbers.values<std::int64_t>();
  const auto found = std::find_if(values.begin(), values.end(), [&](std::int64_t value) {
    return (value < low || value >= high) && value != ignored;
  });
  if (found == values.end()) return {};
  Shape place = numbers.shape();
  std::int64_t left = found - values.begin();
  for (int axis = place.rank() - 1; axis >= 0; --axis) {
    const std::int64_t size = place[axis];
    place[axis] = left % size;
    left /= size;
  }
  return text(what, place.empty() ? "" : text(" at ", place), " is ", *found, ", which is not in [", low, ',', high,
              ')', ignored ? text(" (", *ignored, " is ignored)") : "");
}

Dim row_size(const Shape& shape) {
  return std::accumulate(shape.begin() + 1, shape.end(), Dim(1), std::multiplies<>());
}

Types UnaryOp::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  if (takes_integers())
    check_number(*this, in[0], "the input");
  else
    check_floating(*this, in[0], "the input");
  return {in[0]};
}

std::vector<Sample> UnaryOp::samples() const {
  const auto self = shared_from_this();
  std::vector<Sample> rows{{self, {{DType::f32, {2, 3, 17}}}, {domain()}}, {self, {{DType::f32, {}}}, {domain()}}};
  if (takes_integers()) rows.push_back({self, {{DType::i64, {3, 5}}}, {{-5, 6}}});
  return rows;
}

Types UnaryGradOp::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_floating(*this, in[0], "the saved value");
  require(in[0] == in[1], name(), ": the saved value is ", in[0], ", but dy is ", in[1]);
  return {in[0]};
}

std::vector<Sample> UnaryGradOp::samples() const {
  const Type x{DType::f32, {2, 3, 17}};
  return {{shared_from_this(), {x, x}, {domain(), {}}}};
}

Types BinaryOp::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_same_dtype(*this, in[0], in[1]);
  check_number(*this, in[0], "the first input");
  return {{in[0].dtype, broadcast(in[0].shape, in[1].shape, name())}};
}

std::vector<Sample> BinaryOp::samples() const {
  std::vector<Sample> rows;
  const std::pair<Shape, Shape> shapes[] = {{{2, 3, 17}, {2, 3, 17}},
                                            {{2, 3, 4, 5}, {3, 1, 1}},
                                            {{5}, {3, 4, 1}},
                                            {{2, 1, 4}, {3, 1}},
                                            {{3, 7}, {}},
                                            {{}, {2, 5}}};
  for (const auto& [a, b] : shapes)
    rows.push_back({shared_from_this(), {{DType::f32, a}, {DType::f32, b}}, {left(), right()}});
  rows.push_back({shared_from_this(), {{DType::i64, {3, 5}}, {DType::i64, {5}}}, {{0, 8}, {1, 4}}});
  return rows;
}

Types ReduceOp::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  check_number(*this, in[0], "the input");
  const Shape& shape = in[0].shape;
  if (keepdims) return {{in[0].dtype, kept(shape)}};
  const auto gone = reduced(shape.rank());
  Shape out;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (!gone[axis]) out.push_back(shape[axis]);
  return {{in[0].dtype, out}};
}

std::array<bool, Shape::kMaxRank> ReduceOp::reduced(int rank) const {
  std::array<bool, Shape::kMaxRank> gone{};
  if (axes.empty()) gone.fill(true);
  for (const std::int64_t axis : axes) {
    bool& mark = gone[normal_axis(axis, rank, name())];
    require(!mark, name(), ": axis ", axis, " is named twice");
    mark = true;
  }
  return gone;
}

void ReduceOp::write_reduction(OnnxNode& node, std::string_view type, std::int64_t since) const {
  OnnxAttributes attributes{{"keepdims", std::int64_t{keepdims}}};
  std::vector<std::string> in = node.in;
  if (!axes.empty() && node.file.opset() >= since) in.push_back(node.list(axes, "axes"));
  if (!axes.empty() && node.file.opset() < since) attributes.emplace_back("axes", axes);
  node.add(type, in, attributes);
}

Shape ReduceOp::kept(const Shape& shape) const {
  const auto gone = reduced(shape.rank());
  Shape out = shape;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (gone[axis]) out[axis] = 1;
  return out;
}

Tensor ReduceOp::restored(const Tensor& reduced_value, const Shape& x) const {
  return keepdims ? reduced_value : reshape(reduced_value, kept(x));
}

Tensor unbroadcast(const Tensor& gradient, const Shape& shape) {
  const int lead = gradient.rank() - shape.rank();
  std::vector<std::int64_t> axes;
  for (int axis = 0; axis < gradient.rank(); ++axis)
    if (gradient.size(axis) != 1 && (axis < lead || shape[axis - lead] == 1)) axes.push_back(axis);
  const Tensor total = axes.empty() ? gradient : sum(gradient, axes, true);
  return total.shape() == shape ? total : reshape(total, shape);
}

Tensor scalar_like(const Tensor& like, double value) { return Tensor::scalar(value, like.dtype(), like.device()); }

}  // namespace neurim
