#include "neurim/compile/strided_view.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "neurim/compile/passes.h"
#include "neurim/graph/value.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"

namespace neurim {

namespace {

using Runs = std::vector<StridedRun>;

/// Adds a run to an axis, as one with the last where it goes on in its steps.
void add(Runs& runs, StridedRun run) {
  if (run.size == 1) return;
  if (!runs.empty() && runs.back().step == run.size * run.step)
    runs.back() = {runs.back().size * run.size, run.step};
  else
    runs.push_back(run);
}

StridedView itself(const Tensor& value) {
  StridedView view{.root = value};
  std::int64_t step = value.numel();
  for (const std::int64_t size : value.shape()) add(view.axes.emplace_back(), {size, step /= size});
  return view;
}

/// Gives a view another shape of the same number of elements. Whether it is one then.
bool resize(StridedView& view, const Shape& shape) {
  Runs runs;
  for (const Runs& axis : view.axes)
    for (const StridedRun run : axis) add(runs, run);
  std::vector<Runs> axes;
  auto next = runs.begin();
  StridedRun left{1, 1};
  for (const std::int64_t size : shape) {
    Runs& axis = axes.emplace_back();
    for (std::int64_t wanted = size; wanted > 1;) {
      if (left.size == 1) left = *next++;
      const std::int64_t taken = std::min(left.size, wanted);
      if (left.size % taken != 0 || wanted % taken != 0) return false;
      left.size /= taken, wanted /= taken;
      add(axis, {taken, left.size * left.step});
    }
  }
  view.axes = axes;
  return true;
}

/// The only run of an axis; none: it has several.
std::optional<StridedRun> only_run(const Runs& axis) {
  if (axis.size() > 1) return std::nullopt;
  return axis.empty() ? StridedRun{1, 0} : axis[0];
}

bool slice(StridedView& view, const SliceRange& range) {
  for (std::size_t axis = 0; axis < view.axes.size(); ++axis) {
    const std::int64_t start = range.start[axis], size = range.shape[static_cast<int>(axis)], step = range.step[axis];
    std::int64_t whole = 1;
    for (const StridedRun run : view.axes[axis]) whole *= run.size;
    if (start == 0 && size == whole && step == 1) continue;
    const std::optional<StridedRun> run = only_run(view.axes[axis]);
    if (!run) return false;
    view.offset += start * run->step;
    view.axes[axis].clear();
    add(view.axes[axis], {size, run->step * step});
  }
  return true;
}

/// A gather of one place.
bool take(StridedView& view, const Gather& gather, const Tensor& indices) {
  if (!constant(indices) || indices.numel() != 1 || indices.rank() > 1) return false;
  const int axis = normal_axis(gather.axis, static_cast<int>(view.axes.size()), "gather");
  const std::optional<StridedRun> run = only_run(view.axes[static_cast<std::size_t>(axis)]);
  if (!run) return false;
  const auto place = static_cast<std::int64_t>(indices.item());
  view.offset += (place < 0 ? place + run->size : place) * run->step;
  view.axes[static_cast<std::size_t>(axis)].clear();
  if (indices.rank() == 0) view.axes.erase(view.axes.begin() + axis);
  return true;
}

/// Takes a view of a node's first input on to its output. Whether it is one then.
bool follow(StridedView& view, const Graph::Node& node, const Tensor& from, const Shape& shape) {
  ++view.ops;
  if (dynamic_cast<const Reshape*>(node.op.get())) return resize(view, shape);
  if (const auto* turned = dynamic_cast<const Transpose*>(node.op.get())) {
    const std::vector<Runs> before = view.axes;
    for (std::size_t axis = 0; axis < before.size(); ++axis)
      view.axes[axis] = before[static_cast<std::size_t>(turned->perm[axis])];
    return true;
  }
  if (const auto* sliced = dynamic_cast<const Slice*>(node.op.get()))
    return slice(view, sliced->options.range(from.shape(), "slice"));
  const auto* gathered = dynamic_cast<const Gather*>(node.op.get());
  return gathered && take(view, *gathered, traced_value(node.in[1]));
}

}  // namespace

std::optional<StridedView> strided_view(const Tensor& value) {
  const bool known = std::all_of(value.shape().begin(), value.shape().end(),
                                 [](Dim size) { return !size.symbolic() && size > 0; });
  if (!known) return std::nullopt;
  std::vector<Tensor> chain{value};  // from the value down
  const auto moves = [](const Op& op) {
    return dynamic_cast<const Reshape*>(&op) || dynamic_cast<const Transpose*>(&op) ||
           dynamic_cast<const Slice*>(&op) || dynamic_cast<const Gather*>(&op);
  };
  for (const Graph::Node* node = producer(value); node && moves(*node->op); node = producer(chain.back()))
    chain.push_back(traced_value(node->in[0]));
  StridedView view = itself(chain.back());
  for (std::size_t i = chain.size() - 1; i-- > 0;)
    if (!follow(view, *producer(chain[i]), chain[i + 1], chain[i].shape())) view = itself(chain[i]);
  return view;
}

bool TurnedTable::turns() const { return !std::is_sorted(perm.begin(), perm.end()); }

Tensor TurnedTable::of(const Tensor& root) const {
  return reshaped(turns() ? transpose(reshaped(root, shape), perm) : root, result);
}

std::optional<TurnedTable> turned_table(const StridedView& view) {
  TurnedTable table;
  Runs runs;  // an axis of one element has a step as the run before it, so that it stays behind that
  for (const Runs& axis : view.axes) {
    std::int64_t size = 1;
    for (const StridedRun run : axis) size *= run.size, runs.push_back(run);
    if (axis.empty()) runs.push_back({1, runs.empty() ? std::numeric_limits<std::int64_t>::max() : runs.back().step});
    table.result.push_back(size);
  }
  if (runs.size() > Shape::kMaxRank) return std::nullopt;
  std::vector<std::size_t> order(runs.size());  // of the runs in the root
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return runs[a].step > runs[b].step; });
  std::int64_t inside = 1;
  for (std::size_t place = runs.size(); place-- > 0;) {
    const StridedRun run = runs[order[place]];
    if (run.size > 1 && run.step != inside) return std::nullopt;
    inside *= run.size;
  }
  if (view.offset != 0 || inside != view.root.numel()) return std::nullopt;
  table.perm.resize(runs.size());
  for (std::size_t place = 0; place < runs.size(); ++place) {
    table.shape.push_back(runs[order[place]].size);
    table.perm[order[place]] = static_cast<std::int64_t>(place);
  }
  return table;
}

std::optional<Tensor> shorter(const Tensor& value) {
  const std::optional<StridedView> view = strided_view(value);
  const std::optional<TurnedTable> table = view ? turned_table(*view) : std::nullopt;
  if (!table) return std::nullopt;
  Shape turned;
  for (const std::int64_t axis : table->perm) turned.push_back(table->shape[static_cast<int>(axis)]);
  const int ops = table->turns() ? (table->shape != view->root.shape()) + 1 + (turned != table->result)
                                 : (table->result != view->root.shape());
  return ops < view->ops ? std::optional(table->of(view->root)) : std::nullopt;
}

Tensor reshaped(const Tensor& x, const Shape& shape) { return x.shape() == shape ? x : reshape(x, shape); }

}  // namespace neurim
