// What picks and puts elements by index.
#include <algorithm>
#include <map>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/model/onnx/operators/move.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/ops/add.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/integer.h"
#include "neurim/ops/logical.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/scatter.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

using Indices = std::vector<std::int64_t>;

Tensor whole_number(std::int64_t value) { return Tensor::from(Shape{}, Indices{value}); }
Tensor plus(const Tensor& a, const Tensor& b) { return integer("add", {a, b}); }
Tensor times(const Tensor& a, std::int64_t factor) {
  return factor == 1 ? a : integer("multiply", {a, whole_number(factor)});
}

/// Indices into an axis, counted from the front; one outside of it becomes `bad`.
Tensor from_front(const Tensor& indices, std::int64_t size, const Tensor& flat, std::int64_t bad) {
  const Tensor inside = logical_and(greater_equal(indices, whole_number(-size)), less(indices, whole_number(size)));
  return where(inside, flat, whole_number(bad));
}
Tensor positive(const Tensor& indices, std::int64_t size) {
  return where(less(indices, whole_number(0)), plus(indices, whole_number(size)), indices);
}

/// For each place of `shape`, the number of its element in a tensor of shape `of`, its index along `axis` left out.
Tensor places_without(const Shape& shape, const Shape& of, int axis) {
  const auto stride = strides(of);
  Indices all(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto left = static_cast<std::int64_t>(i);
    for (int k = shape.rank() - 1; k >= 0; --k) {
      if (k != axis) all[i] += left % shape[k] * stride[k];
      left /= shape[k];
    }
  }
  return Tensor::from(shape, all);
}

/// The numbers of the elements that GatherElements and ScatterElements name.
Tensor element_numbers(const OnnxCall& call, const Shape& x, int axis) {
  const Tensor indices = cast(call.tensor(1), DType::i64);
  require(indices.rank() == x.rank(), "the indices are ", indices.shape(), ", and the data ", x);
  for (int i = 0; i < x.rank(); ++i)
    require(i == axis || indices.size(i) <= x[i], "the indices are ", indices.shape(), ", and the data ", x);
  const std::int64_t size = x[axis];
  const Tensor flat = plus(times(positive(indices, size), strides(x)[axis]), places_without(indices.shape(), x, axis));
  return from_front(indices, size, flat, x.numel());
}

Tensor in_a_row(const Tensor& x) { return reshape(x, {x.numel()}); }

OnnxValues gather_rule(const OnnxCall& call) {
  const int axis = call.axis(call.integer("axis", std::int64_t{0}));
  const Tensor indices = call.tensor(1);
  return {onnx_moved(call.in(0), [&](const Tensor& x) { return gather(x, indices, axis); })};
}

OnnxValues gather_elements(const OnnxCall& call) {
  const int axis = call.axis(call.integer("axis", std::int64_t{0}));
  return {onnx_moved(call.in(0),
                     [&](const Tensor& x) { return gather(in_a_row(x), element_numbers(call, x.shape(), axis), 0); })};
}

/// Rows of x, its first `batch` + `depth` axes taken as one, that tuples of indices (…,depth) name; of each batch its
/// own.
struct NamedRows {
  Tensor numbers;     ///< as the indices, without their last axis
  Shape rest;         ///< the axes of a row
  std::int64_t rows;  ///< how many there are
};
NamedRows named_rows(const OnnxCall& call, const Shape& x, int batch) {
  const Tensor indices = cast(call.tensor(1), DType::i64);
  require(indices.rank() >= 1 && batch < indices.rank(), "the indices are ", indices.shape());
  const std::int64_t depth = indices.size(-1);
  require(batch + depth <= x.rank(), "indices of ", depth, " numbers for ", x, " of ", batch, " batch axes");
  NamedRows named{{}, {}, 1};
  for (int axis = 0; axis < batch + depth; ++axis) named.rows *= x[axis];
  for (int axis = batch + static_cast<int>(depth); axis < x.rank(); ++axis) named.rest.push_back(x[axis]);
  Shape tuples;
  for (int axis = 0; axis + 1 < indices.rank(); ++axis) tuples.push_back(indices.size(axis));
  // What stands before the tuples says which batch.
  std::int64_t each = 1, per_batch = 1, batches = 1;
  for (int axis = 0; axis < batch; ++axis) {
    require(x[axis] == indices.size(axis), "batch axis ", axis, " is ", x[axis], " and ", indices.size(axis));
    batches *= x[axis];
  }
  for (int axis = batch; axis < tuples.rank(); ++axis) each *= tuples[axis];
  for (int axis = batch; axis < batch + depth; ++axis) per_batch *= x[axis];
  Indices begins(static_cast<std::size_t>(tuples.numel()));
  for (std::size_t i = 0; i < begins.size(); ++i)
    begins[i] = each == 0 ? 0 : static_cast<std::int64_t>(i) / each * per_batch;
  Tensor numbers = Tensor::from(tuples, begins);
  std::vector<std::pair<Tensor, std::int64_t>> parts;
  std::int64_t stride = per_batch;
  for (std::int64_t i = 0; i < depth; ++i) {
    const std::int64_t size = x[batch + static_cast<int>(i)];
    stride = size == 0 ? 0 : stride / size;
    const Tensor part = reshape(slice(indices, {i}, {i + 1}, {-1}), tuples);
    parts.emplace_back(part, size);
    numbers = plus(numbers, times(positive(part, size), stride));
  }
  for (const auto& [part, size] : parts) numbers = from_front(part, size, numbers, named.rows);
  named.numbers = numbers;
  return named;
}

Shape joined_shape(const Shape& a, const Shape& b) {
  Shape shape = a;
  for (const Dim size : b) shape.push_back(size);
  return shape;
}

OnnxValues gather_nd(const OnnxCall& call) {
  const int batch = static_cast<int>(call.integer("batch_dims", std::int64_t{0}));
  return {onnx_moved(call.in(0), [&](const Tensor& x) {
    const NamedRows named = named_rows(call, x.shape(), batch);
    return gather(reshape(x, joined_shape({named.rows}, named.rest)), named.numbers, 0);
  })};
}

OnnxValues scatter_elements(const OnnxCall& call) {
  const Tensor &x = call.tensor(0), &updates = call.tensor(2);
  const int axis = call.axis(call.integer("axis", std::int64_t{0}));
  require(updates.shape() == call.tensor(1).shape(), "the indices are ", call.in(1), " and the updates ", call.in(2));
  const Tensor numbers = in_a_row(element_numbers(call, x.shape(), axis));
  return {
      OnnxValue(reshape(scatter(in_a_row(x), numbers, in_a_row(updates), call.word("reduction", "none")), x.shape()),
                call.in(0).element())};
}

OnnxValues scatter_nd(const OnnxCall& call) {
  const Tensor &x = call.tensor(0), &updates = call.tensor(2);
  const NamedRows named = named_rows(call, x.shape(), 0);
  require(updates.shape() == joined_shape(named.numbers.shape(), named.rest), "the updates are ", updates.shape(),
          ", where ", joined_shape(named.numbers.shape(), named.rest), " are wanted");
  const Dim count = named.numbers.numel();
  const Tensor y = scatter(reshape(x, joined_shape({named.rows}, named.rest)), reshape(named.numbers, {count}),
                           reshape(updates, joined_shape({count}, named.rest)), call.word("reduction", "none"));
  return {OnnxValue(reshape(y, x.shape()), call.in(0).element())};
}

/// A cache with the rows of an update from each sample's index on; `circular` goes on at its begin.
OnnxValues tensor_scatter(const OnnxCall& call) {
  const Tensor &cache = call.tensor(0), &update = call.tensor(1);
  const std::string mode = call.word("mode", "linear");
  require(mode == "linear" || mode == "circular", "mode is '", mode, "', not linear or circular");
  const int axis = call.axis(call.integer("axis", std::int64_t{-2}));
  require(axis > 0 && update.rank() == cache.rank(), "axis is ", axis, " for ", cache.shape(), " and ", update.shape());
  const Shape shape = update.shape();
  const std::int64_t steps = shape[axis], size = cache.size(axis), batch = cache.size(0);
  Shape of_batch{batch};
  for (int i = 1; i < cache.rank(); ++i) of_batch.push_back(1);
  Shape of_steps;
  for (int i = 0; i < cache.rank(); ++i) of_steps.push_back(i == axis ? Dim(steps) : Dim(1));
  Indices numbers(static_cast<std::size_t>(steps));
  std::iota(numbers.begin(), numbers.end(), 0);
  const Tensor first = call.has(2) ? cast(call.tensor(2), DType::i64) : Tensor::full({DType::i64, {batch}}, 0);
  Tensor places = plus(reshape(first, of_batch), Tensor::from(of_steps, numbers));
  if (mode == "circular") places = integer("modulo", {places, whole_number(size)});
  const Tensor flat = plus(times(places, strides(cache.shape())[axis]), places_without(shape, cache.shape(), axis));
  const Tensor inside = from_front(plus(places, Tensor::full({DType::i64, shape}, 0)), size, flat,
                                   cache.shape().numel());
  return {OnnxValue(reshape(scatter(in_a_row(cache), in_a_row(inside), in_a_row(update)), cache.shape()),
                    call.in(0).element())};
}

OnnxValues one_hot_rule(const OnnxCall& call) {
  const Tensor indices = cast(call.tensor(0), DType::i64), &values = call.tensor(2);
  const std::int64_t depth = call.integer(1, 0);
  const int rank = indices.rank() + 1, axis = normal_axis(call.integer("axis", std::int64_t{-1}), rank, call.op());
  Shape with_axis, classes;
  for (int i = 0, next = 0; i < rank; ++i) {
    with_axis.push_back(i == axis ? Dim(1) : indices.size(next++));
    classes.push_back(i == axis ? Dim(depth) : Dim(1));
  }
  Indices numbers(static_cast<std::size_t>(depth));
  std::iota(numbers.begin(), numbers.end(), 0);
  const Tensor hot = equal(reshape(positive(indices, depth), with_axis), Tensor::from(classes, numbers));
  const auto value = [&](std::int64_t i) { return reshape(slice(values, {i}, {i + 1}, {0}), Shape{}); };
  return {OnnxValue(where(hot, value(1), value(0)), call.in(2).element())};
}

OnnxValues compress(const OnnxCall& call) {
  const Indices condition = call.integers(1);
  const bool whole = !call.has("axis");
  const int axis = whole ? 0 : call.axis(call.integer("axis", std::int64_t{0}));
  Indices kept;
  for (std::size_t i = 0; i < condition.size(); ++i)
    if (condition[i]) kept.push_back(static_cast<std::int64_t>(i));
  return {onnx_moved(call.in(0), [&](const Tensor& x) {
    return gather(whole ? in_a_row(x) : x, Tensor::from({std::ssize(kept)}, kept), axis);
  })};
}

OnnxValues non_zero(const OnnxCall& call) {
  const std::vector<double> values = call.numbers(0);
  const Shape& shape = call.in(0).shape();
  Indices found;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != 0) found.push_back(static_cast<std::int64_t>(i));
  const auto stride = strides(shape);
  const std::int64_t rank = shape.rank();
  Indices places;
  for (int axis = 0; axis < rank; ++axis)
    for (const std::int64_t at : found) places.push_back(at / stride[axis] % shape[axis]);
  return {Tensor::from({rank, std::ssize(found)}, places)};
}

/// The different slices along an axis, or elements, in order or as they come; where the first of each stands, which one
/// each of the input is, and how often each is there.
OnnxValues unique(const OnnxCall& call) {
  const bool whole = !call.has("axis"), sorted = call.integer("sorted", std::int64_t{1}) != 0;
  const int axis = whole ? 0 : call.axis(call.integer("axis", std::int64_t{0}));
  const OnnxValue x = whole ? onnx_moved(call.in(0), in_a_row) : call.in(0);
  const std::int64_t size = x.shape()[axis];
  std::vector<std::vector<double>> numbers(static_cast<std::size_t>(size));
  std::vector<std::vector<std::string>> words(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) {
    const OnnxValue part = onnx_part(x, axis, i, i + 1);
    if (part.is_strings()) {
      words[static_cast<std::size_t>(i)] = part.strings().values;
    } else {
      if (part.tensor().traced()) throw OnnxNeedsData("Unique needs the numbers of its input 0");
      numbers[static_cast<std::size_t>(i)] = part.tensor().values<double>();
    }
  }
  const auto key = [&](std::int64_t i) {
    return std::pair(numbers[static_cast<std::size_t>(i)], words[static_cast<std::size_t>(i)]);
  };
  std::map<std::pair<std::vector<double>, std::vector<std::string>>, std::int64_t> known;  // which of `first`
  Indices first, which(static_cast<std::size_t>(size)), counts;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto [at, is_new] = known.emplace(key(i), std::ssize(first));
    if (is_new) first.push_back(i), counts.push_back(0);
    which[static_cast<std::size_t>(i)] = at->second;
    ++counts[static_cast<std::size_t>(at->second)];
  }
  if (sorted) {
    Indices order, place(first.size());
    for (const auto& [each, number] : known)
      place[static_cast<std::size_t>(number)] = std::ssize(order), order.push_back(number);
    const auto reordered = [&](const Indices& all) {
      Indices out;
      for (const std::int64_t number : order) out.push_back(all[static_cast<std::size_t>(number)]);
      return out;
    };
    first = reordered(first), counts = reordered(counts);
    for (std::int64_t& each : which) each = place[static_cast<std::size_t>(each)];
  }
  const auto vector_of = [](const Indices& all) { return OnnxValue(Tensor::from({std::ssize(all)}, all)); };
  const Tensor rows = Tensor::from({std::ssize(first)}, first);
  return {onnx_moved(x, [&](const Tensor& all) { return gather(all, rows, axis); }), vector_of(first), vector_of(which),
          vector_of(counts)};
}

}  // namespace

void add_index_operators(OnnxOperators& to) {
  to.add("Gather", 1, gather_rule);
  to.add("GatherElements", 11, gather_elements);
  to.add("GatherND", 11, gather_nd);
  to.add("Scatter", 9, scatter_elements);
  to.add("ScatterElements", 11, scatter_elements);
  to.add("ScatterND", 11, scatter_nd);
  to.add("TensorScatter", 24, tensor_scatter);
  to.add("OneHot", 9, one_hot_rule);
  to.add("Compress", 9, compress);
  to.add("NonZero", 9, non_zero);
  to.add("Unique", 11, unique);
}

}  // namespace neurim
