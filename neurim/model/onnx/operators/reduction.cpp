// Reductions, and what runs along an axis.
#include <cmath>
#include <limits>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/ops/abs.h"
#include "neurim/ops/add.h"
#include "neurim/ops/argmax.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/exp.h"
#include "neurim/ops/integer.h"
#include "neurim/ops/log.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/neg.h"
#include "neurim/ops/pad.h"
#include "neurim/ops/reduce_max.h"
#include "neurim/ops/reduce_min.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/sqrt.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/sum.h"
#include "neurim/ops/top_k.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

using Axes = std::vector<std::int64_t>;
/// A reduction over these axes, which stay with size 1.
using Reduction = Tensor (*)(const Tensor& x, const Axes& axes);

bool of_whole(const Tensor& x) { return !is_floating(x.dtype()); }
Tensor squared(const Tensor& x) { return of_whole(x) ? integer("multiply", {x, x}) : square(x); }
Tensor sizes_of_numbers(const Tensor& x) { return of_whole(x) ? integer("absolute", {x}) : abs(x); }

/// Of floating numbers in f64 where they are whole.
template <class Function>
Tensor through_reals(const Tensor& x, Function function) {
  return of_whole(x) ? cast(function(cast(x, DType::f64)), x.dtype()) : function(x);
}

Tensor sum_over(const Tensor& x, const Axes& axes) { return sum(x, axes, true); }

Tensor log_sum_exp(const Tensor& x, const Axes& axes) {
  return through_reals(x, [&](const Tensor& reals) {
    const Tensor top = reduce_max(reals, axes, true);
    const Tensor infinite = Tensor::scalar(std::numeric_limits<double>::infinity(), reals.dtype());
    // Where the largest number is infinite it is the result, and its difference to itself would be NaN.
    const Tensor shift = where(equal(abs(top), infinite), Tensor::scalar(0, reals.dtype()), top);
    return log(sum(exp(reals - shift), axes, true)) + shift;
  });
}

/// Products in pairs: exact for whole numbers, and in a trace no step for each element.
Tensor product_over(const Tensor& x, const Axes& axes) {
  Tensor y = x;
  for (const std::int64_t axis : axes) {
    const int along = static_cast<int>(axis);
    for (std::int64_t size = y.size(along); size > 1; size = y.size(along)) {
      const std::int64_t half = size / 2;
      const Tensor a = slice(y, {0}, {half}, {axis}), b = slice(y, {half}, {2 * half}, {axis});
      Tensor pairs = of_whole(y) ? integer("multiply", {a, b}) : a * b;
      if (size % 2) {
        const Tensor last = slice(y, {size - 1}, {size}, {axis});
        const Tensor first = slice(pairs, {0}, {1}, {axis});
        const Tensor both = of_whole(y) ? integer("multiply", {first, last}) : first * last;
        if (half == 1) {
          pairs = both;
        } else {
          pairs = concat({both, slice(pairs, {1}, {half}, {axis})}, axis);
        }
      }
      y = pairs;
    }
  }
  return y;
}

Tensor largest_over(const Tensor& x, const Axes& axes) {
  return x.dtype() == DType::boolean ? cast(reduce_max(cast(x, DType::u8), axes, true), DType::boolean)
                                     : reduce_max(x, axes, true);
}
Tensor smallest_over(const Tensor& x, const Axes& axes) {
  return x.dtype() == DType::boolean ? cast(reduce_min(cast(x, DType::u8), axes, true), DType::boolean)
                                     : reduce_min(x, axes, true);
}

/// What a reduction of no elements gives.
double of_nothing(std::string_view op, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (op == "ReduceProd") return 1;
  if (op == "ReduceMean") return std::numeric_limits<double>::quiet_NaN();
  if (op == "ReduceLogSum" || op == "ReduceLogSumExp") return -kInfinity;
  if (op != "ReduceMax" && op != "ReduceMin") return 0;
  const bool least = op == "ReduceMax";
  if (is_floating(dtype)) return least ? -kInfinity : kInfinity;
  if (dtype == DType::boolean) return least ? 0 : 1;
  const bool with_sign = name(dtype)[0] == 'i';
  const double top = std::ldexp(1.0, bits(dtype) - (with_sign ? 1 : 0));
  return least ? (with_sign ? -top : 0) : std::nextafter(top, 0);
}

OnnxRule reduction(Reduction function) {
  return [=](const OnnxCall& call) {
    const Tensor& x = call.tensor(0);
    Axes axes = call.axes(1);
    const bool all = axes.empty();
    if (all && call.integer("noop_with_empty_axes", std::int64_t{0}) != 0) {
      const bool itself = call.op() == "ReduceSum" || call.op() == "ReduceMax" || call.op() == "ReduceMin" ||
                          call.op() == "ReduceMean" || call.op() == "ReduceProd";
      if (itself) return OnnxValues{x};
      Shape more = x.shape();  // a reduction over one element each
      more.push_back(1);
      return OnnxValues{reshape(function(reshape(x, more), {x.rank()}), x.shape())};
    }
    for (int axis = 0; all && axis < x.rank(); ++axis) axes.push_back(axis);
    Shape kept = x.shape(), dropped;
    bool empty = false;
    std::vector<bool> reduced(static_cast<std::size_t>(x.rank()));
    for (const std::int64_t axis : axes) {
      empty |= x.size(static_cast<int>(axis)) == 0;
      kept[static_cast<int>(axis)] = 1, reduced[static_cast<std::size_t>(axis)] = true;
    }
    for (int axis = 0; axis < x.rank(); ++axis)
      if (!reduced[static_cast<std::size_t>(axis)]) dropped.push_back(x.size(axis));
    const Tensor y = empty          ? Tensor::full({x.dtype(), kept}, of_nothing(call.op(), x.dtype()))
                     : axes.empty() ? reshape(function(reshape(x, {1}), {0}), kept)
                                    : function(x, axes);
    return OnnxValues{call.integer("keepdims", std::int64_t{1}) != 0 ? y : reshape(y, dropped)};
  };
}

/// The rows along an axis in the opposite order.
Tensor turned(const Tensor& x, std::int64_t axis) {
  return slice(x, {-1}, {std::numeric_limits<std::int64_t>::min() / 2}, {axis}, {-1});
}

OnnxValues arg_rule(const OnnxCall& call, bool largest) {
  Tensor x = call.tensor(0);
  const int axis = call.axis(call.integer("axis", std::int64_t{0}));
  const bool keep = call.integer("keepdims", std::int64_t{1}) != 0,
             last = call.integer("select_last_index", std::int64_t{0}) != 0;
  if (!largest)
    x = of_whole(x) ? integer("not", {x}) : -x;  // the bits' complement turns the order of whole numbers round
  if (!last) return {argmax(x, axis, keep)};
  const Tensor from_end = argmax(turned(x, axis), axis, keep);
  return {
      integer("subtract", {Tensor::scalar(static_cast<double>(std::int64_t{x.size(axis)} - 1), DType::i64), from_end})};
}

OnnxValues top_k_rule(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  TopKOptions options{.k = call.version() < 10 ? call.integer("k", std::int64_t{1}) : call.integer(1, 1),
                      .axis = call.axis(call.integer("axis", std::int64_t{-1})),
                      .largest = call.integer("largest", std::int64_t{1}) != 0};
  const Tensors out = top_k(x, options);
  return {out[0], out[1]};
}

/// Running sums or products: in each step each element takes what lies twice as far before it.
OnnxValues running(const OnnxCall& call, bool products) {
  Tensor x = call.tensor(0);
  const std::int64_t axis = call.axis(call.integer(1, 0));
  const int along = static_cast<int>(axis);
  const bool reverse = call.integer("reverse", std::int64_t{0}) != 0,
             exclusive = call.integer("exclusive", std::int64_t{0}) != 0;
  const std::int64_t size = x.size(along);
  const auto moved = [&](const Tensor& y, std::int64_t by) {
    std::vector<std::int64_t> pads(2 * static_cast<std::size_t>(y.rank()));
    pads[static_cast<std::size_t>(axis)] = by, pads[static_cast<std::size_t>(axis + y.rank())] = -by;
    return pad(y, pads, products ? 1 : 0);
  };
  if (reverse) x = turned(x, axis);
  if (exclusive && size > 0) x = moved(x, 1);
  for (std::int64_t step = 1; step < size; step *= 2) {
    const Tensor before = moved(x, step);
    x = of_whole(x) ? integer(products ? "multiply" : "add", {x, before}) : products ? x * before : x + before;
  }
  return {reverse ? turned(x, axis) : x};
}

}  // namespace

void add_reduction_operators(OnnxOperators& to) {
  to.add("ReduceSum", 1, reduction(sum_over));
  to.add("ReduceMean", 1, reduction([](const Tensor& x, const Axes& axes) {
           return through_reals(x, [&](const Tensor& reals) { return mean(reals, axes, true); });
         }));
  to.add("ReduceMax", 1, reduction(largest_over));
  to.add("ReduceMin", 1, reduction(smallest_over));
  to.add("ReduceProd", 1, reduction(product_over));
  to.add("ReduceL1", 1,
         reduction([](const Tensor& x, const Axes& axes) { return sum_over(sizes_of_numbers(x), axes); }));
  to.add("ReduceL2", 1, reduction([](const Tensor& x, const Axes& axes) {
           return through_reals(x, [&](const Tensor& reals) { return sqrt(sum_over(square(reals), axes)); });
         }));
  to.add("ReduceSumSquare", 1, reduction([](const Tensor& x, const Axes& axes) { return sum_over(squared(x), axes); }));
  to.add("ReduceLogSum", 1, reduction([](const Tensor& x, const Axes& axes) {
           return through_reals(x, [&](const Tensor& reals) { return log(sum_over(reals, axes)); });
         }));
  to.add("ReduceLogSumExp", 1, reduction(log_sum_exp));
  to.add("ArgMax", 1, [](const OnnxCall& call) { return arg_rule(call, true); });
  to.add("ArgMin", 1, [](const OnnxCall& call) { return arg_rule(call, false); });
  to.add("TopK", 1, top_k_rule);
  to.add("CumSum", 11, [](const OnnxCall& call) { return running(call, false); });
  to.add("CumProd", 26, [](const OnnxCall& call) { return running(call, true); });
}

}  // namespace neurim
