#include "neurim/ops/slice.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {
constexpr std::int64_t kFar = std::int64_t{1} << 31;  // where a place that is beyond any size begins
}

SliceRange SliceOptions::range(const Shape& whole, std::string_view who) const {
  require(starts.size() == ends.size() && (axes.empty() || axes.size() == starts.size()) &&
              (steps.empty() || steps.size() == starts.size()),
          who, ": ", starts.size(), " starts, ", ends.size(), " ends, ", axes.size(), " axes and ", steps.size(),
          " steps; the counts must agree");
  SliceRange range{.shape = whole};
  range.step.fill(1);
  std::array<bool, Shape::kMaxRank> seen{};
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const int axis = normal_axis(axes.empty() ? static_cast<std::int64_t>(i) : axes[i], whole.rank(), who);
    const Dim size = whole[axis];
    const std::int64_t step = steps.empty() ? 1 : steps[i];
    require(step != 0, who, ": the step along axis ", axis, " is 0");
    require(!std::exchange(seen[axis], true), who, ": axis ", axis, " is named twice");
    // A walk backwards may start at the last element and end before the first one.
    const Dim low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
    const auto place = [&](Dim at) {
      if (!at.symbolic() && high.symbolic() && (at >= kFar || at < -kFar)) return at < 0 ? low : high;
      if (!at.symbolic() && at < 0) at += size;
      return at < low ? low : high < at ? high : at;
    };
    const Dim start = place(starts[i]), distance = (place(ends[i]) - start) * (step < 0 ? -1 : 1);
    range.start[axis] = start;
    range.step[axis] = step;
    const bool none = distance.symbolic() ? distance < 0 : distance <= 0;
    range.shape[axis] = none ? Dim(0) : (distance - 1) / (step < 0 ? -step : step) + 1;
  }
  return range;
}

Types Slice::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  return {{in[0].dtype, options.range(in[0].shape, "slice").shape}};
}

/// Neighbours along the first axis lie together.
Alias Slice::alias(int, int) const {
  const SliceOptions& o = options;
  const bool first = o.starts.size() == 1 && (o.axes.empty() || o.axes[0] == 0) && (o.steps.empty() || o.steps[0] == 1);
  return first ? Alias::view : Alias::none;
}

std::int64_t Slice::view_begin(std::span<const Type> in) const {
  return options.range(in[0].shape, "slice").start[0] * row_size(in[0].shape);
}

Tensors Slice::grad(const Gradient& g) const {
  return {apply1(std::make_shared<SliceGrad>(g.in[0].shape(), options), {g.dout[0]})};
}

Types SliceGrad::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  const Shape part = options.range(shape, "slice_grad").shape;
  require(in[0].shape == part, "slice_grad: the gradient ", in[0].shape, " has not the shape ", part,
          " of the slice of ", shape);
  return {{in[0].dtype, shape}};
}

Tensors SliceGrad::grad(const Gradient& g) const { return {apply1(std::make_shared<Slice>(options), {g.dout[0]})}; }

namespace {

struct SliceRow {
  Shape whole;
  SliceOptions options;
};

std::vector<SliceRow> slice_rows() {
  constexpr std::int64_t far = std::int64_t{1} << 40;
  return {{{5, 6}, {{1, 2}, {4, 5}, {}, {}}},
          {{5, 6}, {{0}, {far}, {1}, {2}}},
          {{5, 7}, {{-1, 5}, {-far, 0}, {0, -1}, {-1, -2}}},
          {{2, 3, 8}, {{-5}, {-1}, {-1}, {3}}},
          {{4, 3}, {{3}, {1}, {0}, {}}},
          {{4, 3}, {{1}, {3}, {0}, {}}},
          {{5, 16}, {{1}, {-1}, {}, {}}},
          {{3, 4}, {}}};
}

}  // namespace

std::vector<Sample> Slice::samples() const {
  std::vector<Sample> samples;
  for (const SliceRow& row : slice_rows())
    samples.push_back({std::make_shared<Slice>(row.options), {{DType::f32, row.whole}}});
  return samples;
}

std::vector<Sample> SliceGrad::samples() const {
  std::vector<Sample> samples;
  for (const SliceRow& row : slice_rows())
    samples.push_back({std::make_shared<SliceGrad>(row.whole, row.options),
                       {{DType::f32, row.options.range(row.whole, "slice_grad").shape}}});
  return samples;
}

Tensor slice(const Tensor& x, std::vector<Dim> starts, std::vector<Dim> ends, std::vector<std::int64_t> axes,
             std::vector<std::int64_t> steps) {
  SliceOptions options{std::move(starts), std::move(ends), std::move(axes), std::move(steps)};
  return apply1(std::make_shared<Slice>(std::move(options)), {x});
}

void Slice::write_onnx(OnnxNode& node) const {
  if (options.starts.empty()) {
    node.add("Identity", node.in);
    return;
  }
  std::vector<std::int64_t> axes = options.axes;
  if (axes.empty()) {
    axes.resize(options.starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::vector<std::string> in{node.in[0], node.list(options.starts, "starts"), node.list(options.ends, "ends"),
                              node.list(axes, "axes")};
  if (!options.steps.empty()) in.push_back(node.list(options.steps, "steps"));
  node.add("Slice", in);
}

void define_slice() {
  define<Slice>();
  define<SliceGrad>();
}

}  // namespace neurim
