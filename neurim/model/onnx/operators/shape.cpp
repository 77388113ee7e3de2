// Shapes, and what moves elements by place.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/model/onnx/operators/move.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/ops/add.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/iota.h"
#include "neurim/ops/pad.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

using Numbers64 = std::vector<std::int64_t>;

Shape shape_from(const std::vector<Dim>& sizes) {
  Shape shape;
  for (const Dim size : sizes) shape.push_back(size);
  return shape;
}
Tensor vector_of(const Numbers64& values) { return Tensor::from({std::ssize(values)}, values); }

/// Stored numbers 0, 1, … in this shape.
Tensor numbered(const Shape& shape) {
  Numbers64 all(static_cast<std::size_t>(shape.numel()));
  std::iota(all.begin(), all.end(), 0);
  return Tensor::from(shape, all);
}

/// A rule that moves the elements of its first input.
template <class Move>
OnnxRule moving(Move move) {
  return [move](const OnnxCall& call) {
    return OnnxValues{onnx_moved(call.in(0), [&](const Tensor& x) { return move(call, x); })};
  };
}

OnnxValues shape_rule(const OnnxCall& call) {
  const std::vector<Dim> sizes(call.in(0).shape().begin(), call.in(0).shape().end());
  const std::int64_t rank = std::ssize(sizes);
  const auto place = [&](const char* name, std::int64_t otherwise) {
    const std::int64_t at = call.integer(name, otherwise);
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t start = place("start", 0), end = std::max(start, place("end", rank));
  return {onnx_sizes({end - start}, {sizes.begin() + start, sizes.begin() + end})};
}

Tensor reshaped(const OnnxCall& call, const Tensor& x) {
  const Numbers64 old = call.version() < 5 ? call.integers("shape") : Numbers64();
  const std::vector<Dim> sizes = call.version() < 5 ? std::vector<Dim>(old.begin(), old.end()) : call.dims(1);
  const bool zeros = call.integer("allowzero", std::int64_t{0}) != 0;
  Shape shape;
  Dim known = 1;
  int open = -1;
  for (const Dim size : sizes) {
    const int axis = shape.rank();
    if (size.symbolic()) {
      shape.push_back(size);
      known *= size;
      continue;
    }
    require(size != 0 || zeros || axis < x.rank(), "shape has 0 at ", axis, ", and the input is ", x.shape());
    require(size >= -1 && (size >= 0 || open < 0), "shape has ", size, size == -1 ? " twice" : "");
    if (size == -1) open = axis;
    shape.push_back(size == -1 ? Dim(1) : size == 0 && !zeros ? x.size(axis) : size);
    known *= shape[axis];
  }
  if (open >= 0) {
    const bool divides = known.symbolic() || (known != 0 && x.numel() % known == 0);
    require(divides, "the input ", x.shape(), " does not divide into ", known, " elements");
    shape[open] = x.numel() / known;
  }
  return reshape(x, shape);
}

Tensor flattened(const OnnxCall& call, const Tensor& x) {
  const std::int64_t axis = call.integer("axis", std::int64_t{1});
  const int first = axis < 0 ? static_cast<int>(axis) + x.rank() : static_cast<int>(axis);
  require(first >= 0 && first <= x.rank(), "axis is ", axis, " for ", x.shape());
  Dim rows = 1, columns = 1;
  for (int i = 0; i < x.rank(); ++i) (i < first ? rows : columns) *= x.size(i);
  return reshape(x, {rows, columns});
}

Tensor squeezed(const OnnxCall& call, const Tensor& x) {
  const Numbers64 axes = call.axes(1);
  const bool all = !call.has(1) && !call.has("axes");
  Shape shape;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool named = std::find(axes.begin(), axes.end(), axis) != axes.end();
    require(!named || x.size(axis) == 1, "axis ", axis, " of ", x.shape(), " is not of size 1");
    if (!(named || (all && x.size(axis) == 1))) shape.push_back(x.size(axis));
  }
  return reshape(x, shape);
}

Tensor with_axes(const OnnxCall& call, const Tensor& x) {
  Numbers64 axes = call.has(1) ? call.integers(1) : call.integers("axes");
  const int rank = x.rank() + static_cast<int>(axes.size());
  std::vector<bool> added(static_cast<std::size_t>(rank));
  for (const std::int64_t axis : axes) {
    const auto at = static_cast<std::size_t>(normal_axis(axis, rank, call.op()));
    require(!added[at], "axis ", axis, " is named twice");
    added[at] = true;
  }
  Shape shape;
  int next = 0;
  for (const bool one : added) shape.push_back(one ? Dim(1) : x.size(next++));
  return reshape(x, shape);
}

Tensor transposed(const OnnxCall& call, const Tensor& x) {
  Numbers64 order(static_cast<std::size_t>(x.rank()));
  std::iota(order.rbegin(), order.rend(), 0);
  return transpose(x, call.integers("perm", order));
}

OnnxValues concat_rule(const OnnxCall& call) {
  OnnxValues parts;
  for (int i = 0; i < call.inputs(); ++i)
    if (call.has(i)) parts.push_back(call.in(i));
  require(!parts.empty(), "there are no inputs");
  return {onnx_joined(parts, call.axis(call.integer("axis", std::int64_t{1})))};
}

OnnxValues split_rule(const OnnxCall& call) {
  const int axis = call.axis(call.integer("axis", std::int64_t{0}));
  const std::int64_t size = call.in(0).shape()[axis], count = call.integer("num_outputs", std::int64_t{call.outputs()});
  Numbers64 sizes = call.has(1) ? call.integers(1) : call.integers("split");
  if (sizes.empty()) {
    require(count > 0 && count <= call.outputs(), "num_outputs is ", count, ", and there are ", call.outputs());
    const std::int64_t each = (size + count - 1) / count;
    for (std::int64_t left = size; std::ssize(sizes) < count; left -= sizes.back())
      sizes.push_back(std::clamp<std::int64_t>(left, 0, each));
  }
  OnnxValues parts;
  std::int64_t first = 0;
  for (const std::int64_t part : sizes) {
    require(part >= 0 && first + part <= size, "the parts of ", size, " rows have more");
    parts.push_back(onnx_part(call.in(0), axis, first, first + part));
    first += part;
  }
  require(first == size, "the parts have ", first, " rows, and there are ", size);
  return parts;
}

Tensor sliced(const OnnxCall& call, const Tensor& x) {
  const bool old = call.version() < 10;
  const auto place = [&](const char* name, int input) {
    const Numbers64 given = old ? call.integers(name) : Numbers64();
    return old ? std::vector<Dim>(given.begin(), given.end()) : call.dims(input);
  };
  std::vector<Dim> starts = place("starts", 1), ends = place("ends", 2);
  Numbers64 axes = old ? call.integers("axes") : call.has(3) ? call.integers(3) : Numbers64{};
  const Numbers64 steps = !old && call.has(4) ? call.integers(4) : Numbers64(starts.size(), 1);
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  require(starts.size() == axes.size() && ends.size() == axes.size(), "there are ", starts.size(), " starts and ",
          ends.size(), " ends for ", axes.size(), " axes");
  for (std::size_t i = 0; i < axes.size(); ++i) {  // the largest and least numbers stand for "to the end"
    const Dim size = x.size(call.axis(axes[i]));
    const auto inside = [&](Dim at) -> Dim {
      constexpr std::int64_t far = std::numeric_limits<std::int32_t>::max();
      if (at.symbolic()) return at;
      if (size.symbolic()) return at >= far ? size : at <= -far ? -size - 1 : at;
      return std::clamp<std::int64_t>(at, -size - 1, size);
    };
    starts[i] = inside(starts[i]), ends[i] = inside(ends[i]);
  }
  return slice(x, starts, ends, axes, steps);
}

/// Pads of all axes, begins first, from those of the named ones.
Numbers64 all_pads(const OnnxCall& call, int rank) {
  Numbers64 given = call.version() < 11 ? call.integers(call.version() < 2 ? "paddings" : "pads") : call.integers(1);
  if (!call.has(3)) {
    require(std::ssize(given) == 2 * rank, "there are ", given.size(), " pads for ", rank, " axes");
    return given;
  }
  const Numbers64 axes = call.integers(3);
  require(given.size() == 2 * axes.size(), "there are ", given.size(), " pads for ", axes.size(), " axes");
  Numbers64 pads(2 * static_cast<std::size_t>(rank));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(call.axis(axes[i]));
    pads[axis] = given[i], pads[axis + static_cast<std::size_t>(rank)] = given[i + axes.size()];
  }
  return pads;
}

OnnxValues pad_rule(const OnnxCall& call) {
  const std::string mode = call.word("mode", "constant");
  const Tensor& x = call.tensor(0);
  const Numbers64 pads = all_pads(call, x.rank());
  if (mode == "constant") {
    if (call.version() < 11) return {pad(x, pads, call.number("value", 0.0))};
    if (!call.has(2)) return {OnnxValue(pad(x, pads, 0), call.in(0).element())};
    if (call.known(2)) {
      const double value = call.number(2, 0);
      if (is_floating(x.dtype()) || std::abs(value) < 0x1p53)
        return {OnnxValue(pad(x, pads, value), call.in(0).element())};
    }
    const Tensor inside = pad(Tensor::full({DType::boolean, x.shape()}, 1), pads, 0);
    return {OnnxValue(where(inside, pad(x, pads, 0), call.tensor(2)), call.in(0).element())};
  }
  const std::map<std::string, std::string> modes{{"reflect", "reflect"}, {"edge", "replicate"}, {"wrap", "circular"}};
  const auto known = modes.find(mode);
  require(known != modes.end(), "mode is '", mode, "', not constant, reflect, edge or wrap");
  Numbers64 crops(pads.size()), grows(pads.size());
  for (std::size_t i = 0; i < pads.size(); ++i) (pads[i] < 0 ? crops : grows)[i] = pads[i];
  const Tensor cropped = crops == Numbers64(pads.size()) ? x : pad(x, crops, 0);
  return {OnnxValue(pad(cropped, grows, known->second), call.in(0).element())};
}

Tensor tiled(const OnnxCall& call, const Tensor& x) {
  Numbers64 repeats;
  if (call.version() < 6) {
    repeats.assign(static_cast<std::size_t>(x.rank()), 1);
    repeats[static_cast<std::size_t>(call.axis(call.integer(2, 0)))] = call.integer(1, 1);
  } else {
    repeats = call.integers(1);
  }
  require(std::ssize(repeats) == x.rank(), "there are ", repeats.size(), " repeats for ", x.shape());
  Tensor y = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t times = repeats[static_cast<std::size_t>(axis)];
    if (times == 1) continue;
    if (times == 0)
      y = slice(y, {0}, {0}, {axis});
    else
      y = concat(Tensors(static_cast<std::size_t>(times), y), axis);
  }
  return y;
}

Tensor expanded(const OnnxCall& call, const Tensor& x) {
  return broadcast_to(x, broadcast(x.shape(), shape_from(call.dims(1)), "Expand"));
}

OnnxValues constant_of_shape(const OnnxCall& call) {
  const OnnxValue value = call.has("value") ? call.value("value") : OnnxValue(Tensor::full({DType::f32, {1}}, 0));
  require(value.tensor().numel() == 1, "value is ", value, ", where one number is wanted");
  return {OnnxValue(broadcast_to(reshape(value.tensor(), Shape{}), shape_from(call.dims(0))), value.element())};
}

OnnxValues range_rule(const OnnxCall& call) {
  if (is_sizes(call.in(0)) || is_sizes(call.in(1))) {
    require(call.integer(2, 1) == 1, "delta is not 1, and how many numbers there are depends on a size");
    const Dim start = call.dims(0).at(0);
    const Tensor numbers = iota(call.dims(1).at(0) - start, DType::i64);
    return {start == 0 ? numbers : numbers + static_cast<double>(std::int64_t{start})};
  }
  const DType dtype = call.tensor(0).dtype();
  if (!is_floating(dtype)) {
    const std::int64_t start = call.integer(0, 0), limit = call.integer(1, 0), delta = call.integer(2, 1);
    require(delta != 0, "delta is 0");
    Numbers64 all;
    for (std::int64_t at = start; delta > 0 ? at < limit : at > limit; at += delta) all.push_back(at);
    return {cast(vector_of(all), dtype)};
  }
  const double start = call.number(0, 0), limit = call.number(1, 0), delta = call.number(2, 1);
  require(delta != 0 && std::isfinite(start) && std::isfinite(limit) && std::isfinite(delta),
          "start, limit and delta are ", start, ", ", limit, " and ", delta);
  const auto count = static_cast<std::int64_t>(std::max(std::ceil((limit - start) / delta), 0.0));
  std::vector<double> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = start + static_cast<double>(i) * delta;
  return {cast(Tensor::from({DType::f64, {count}}, all.data()), dtype)};
}

OnnxValues eye_like(const OnnxCall& call) {
  const Shape& shape = call.in(0).shape();
  require(shape.rank() == 2, "the input is ", shape, ", where a matrix is wanted");
  const auto dtype = call.has("dtype") ? static_cast<OnnxElement>(call.integer("dtype", std::int64_t{1}))
                                       : call.in(0).element();
  const std::int64_t rows = shape[0], columns = shape[1], k = call.integer("k", std::int64_t{0});
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row)
    if (row + k >= 0 && row + k < columns) values[static_cast<std::size_t>(row * columns + row + k)] = 1;
  return {OnnxValue(cast(Tensor::from(shape, values), dtype_of(dtype)), dtype)};
}

OnnxValues trilu(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  require(x.rank() >= 2, "the input is ", x.shape(), ", where matrices are wanted");
  const bool upper = call.integer("upper", std::int64_t{1}) != 0;
  const std::int64_t k = call.integer(1, 0), rows = x.size(-2), columns = x.size(-1);
  std::vector<std::uint8_t> kept(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      kept[static_cast<std::size_t>(row * columns + column)] = upper ? column >= row + k : column <= row + k;
  return {where(Tensor::from({DType::boolean, {rows, columns}}, kept.data()), x, Tensor::scalar(0, x.dtype()))};
}

/// Channels and squares of pixels: `columns_first` is ONNX's mode CRD.
Tensor depth_to_space(const OnnxCall& call, const Tensor& x) {
  const std::int64_t b = call.integer("blocksize", std::int64_t{1});
  const bool columns_first = call.word("mode", "DCR") == "CRD";
  require(x.rank() == 4 && b > 0 && x.size(1) % (b * b) == 0, "the input is ", x.shape(), ", and blocksize ", b);
  const Dim n = x.size(0), c = x.size(1) / (b * b), h = x.size(2), w = x.size(3);
  const Tensor parts = columns_first ? transpose(reshape(x, {n, c, b, b, h, w}), {0, 1, 4, 2, 5, 3})
                                     : transpose(reshape(x, {n, b, b, c, h, w}), {0, 3, 4, 1, 5, 2});
  return reshape(parts, {n, c, h * b, w * b});
}

Tensor space_to_depth(const OnnxCall& call, const Tensor& x) {
  const std::int64_t b = call.integer("blocksize", std::int64_t{1});
  const bool columns_first = call.word("mode", "DCR") == "CRD";
  require(x.rank() == 4 && b > 0 && x.size(2) % b == 0 && x.size(3) % b == 0, "the input is ", x.shape(),
          ", and blocksize ", b);
  const Dim n = x.size(0), c = x.size(1), h = x.size(2) / b, w = x.size(3) / b;
  const Tensor parts = reshape(x, {n, c, h, b, w, b});
  return reshape(columns_first ? transpose(parts, {0, 1, 3, 5, 2, 4}) : transpose(parts, {0, 3, 5, 1, 2, 4}),
                 {n, c * b * b, h, w});
}

Tensor center_crop_pad(const OnnxCall& call, const Tensor& x) {
  const Numbers64 wanted = call.integers(1);
  Numbers64 axes = call.integers("axes");
  if (axes.empty()) {
    axes.resize(static_cast<std::size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  require(axes.size() == wanted.size(), "there are ", wanted.size(), " sizes for ", axes.size(), " axes");
  Numbers64 pads(2 * static_cast<std::size_t>(x.rank()));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(call.axis(axes[i]));
    const std::int64_t size = x.size(static_cast<int>(axis)), more = wanted[i] - size;
    const std::int64_t before = more >= 0 ? more / 2 : -((-more) / 2);
    pads[axis] = before, pads[axis + static_cast<std::size_t>(x.rank())] = more - before;
  }
  return pad(x, pads, 0);
}

/// Turns the first elements of each row of time round, as many as its length says.
OnnxValues reverse_sequence(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  const Numbers64 lengths = call.integers(1);
  const int time = call.axis(call.integer("time_axis", std::int64_t{0})),
            batch = call.axis(call.integer("batch_axis", std::int64_t{1}));
  const std::int64_t steps = x.size(time);
  require(std::ssize(lengths) == x.size(batch) && time != batch, "there are ", lengths.size(), " lengths for ",
          x.shape());
  Tensors rows;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    require(lengths[i] >= 0 && lengths[i] <= steps, "length ", lengths[i], " of ", steps, " steps");
    Numbers64 order(static_cast<std::size_t>(steps));
    std::iota(order.begin(), order.end(), 0);
    std::reverse(order.begin(), order.begin() + lengths[i]);
    const auto first = static_cast<std::int64_t>(i);
    rows.push_back(gather(slice(x, {first}, {first + 1}, {batch}), vector_of(order), time));
  }
  return {OnnxValue(rows.empty() ? x : concat(rows, batch), call.in(0).element())};
}

}  // namespace

OnnxValue onnx_moved(const OnnxValue& value, const std::function<Tensor(const Tensor&)>& move) {
  if (!value.is_strings()) return {move(value.tensor()), value.element()};
  const Tensor places = move(numbered(value.shape()));
  OnnxStrings moved{places.shape(), {}, value.strings().sizes};
  for (const std::int64_t place : places.values<std::int64_t>())
    moved.values.push_back(value.strings().values[static_cast<std::size_t>(place)]);
  return moved;
}

OnnxValue onnx_part(const OnnxValue& value, int axis, std::int64_t first, std::int64_t last) {
  return onnx_moved(value, [&](const Tensor& x) {
    return first == 0 && x.size(axis) == last ? x : slice(x, {first}, {last}, {axis});
  });
}

OnnxValue onnx_joined(const OnnxValues& values, int axis) {
  if (values.size() == 1) return values[0];
  const bool of_sizes = std::any_of(values.begin(), values.end(), is_sizes);
  if (of_sizes && !std::all_of(values.begin(), values.end(), is_sizes)) {
    OnnxValues texts;
    for (const OnnxValue& value : values) texts.emplace_back(texts_of_sizes(value.shape(), sizes_of(value)));
    return onnx_joined(texts, axis);
  }
  if (!values[0].is_strings()) {
    Tensors tensors;
    for (const OnnxValue& value : values) tensors.push_back(value.tensor());
    return {concat(tensors, axis), values[0].element()};
  }
  std::vector<std::string> all;
  Tensors places;
  for (const OnnxValue& value : values) {
    Numbers64 own(value.strings().values.size());
    std::iota(own.begin(), own.end(), std::ssize(all));
    places.push_back(Tensor::from(value.shape(), own));
    all.insert(all.end(), value.strings().values.begin(), value.strings().values.end());
  }
  const Tensor joined = concat(places, axis);
  OnnxStrings out{joined.shape(), {}, values[0].strings().sizes};
  for (const std::int64_t place : joined.values<std::int64_t>())
    out.values.push_back(all[static_cast<std::size_t>(place)]);
  return out;
}

void add_shape_operators(OnnxOperators& to) {
  to.add("Shape", 1, shape_rule);
  to.add("Size", 1, [](const OnnxCall& call) { return OnnxValues{onnx_sizes({}, {call.in(0).shape().numel()})}; });
  to.add("Reshape", 1, moving(reshaped));
  to.add("Flatten", 1, moving(flattened));
  to.add("Squeeze", 1, moving(squeezed));
  to.add("Unsqueeze", 1, moving(with_axes));
  to.add("Transpose", 1, moving(transposed));
  to.add("Concat", 1, concat_rule);
  to.add("Split", 1, split_rule);
  to.add("Slice", 1, moving(sliced));
  to.add("Pad", 1, pad_rule);
  to.add("Tile", 1, moving(tiled));
  to.add("Expand", 8, moving(expanded));
  to.add("ConstantOfShape", 9, constant_of_shape);
  to.add("Range", 11, range_rule);
  to.add("EyeLike", 9, eye_like);
  to.add("Trilu", 14, trilu);
  to.add("DepthToSpace", 1, moving(depth_to_space));
  to.add("SpaceToDepth", 1, moving(space_to_depth));
  to.add("CenterCropPad", 18, moving(center_crop_pad));
  to.add("ReverseSequence", 10, reverse_sequence);
}

}  // namespace neurim
