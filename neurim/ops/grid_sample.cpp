#include "neurim/ops/grid_sample.h"

#include "neurim/ops/common/rules.h"

namespace neurim {

Types GridSample::infer(std::span<const Type> in) const {
  check_count(*this, in, 2, 2);
  check_floating(*this, in[0], "the input");
  check_floating(*this, in[1], "the grid");
  const Shape &x = in[0].shape, &grid = in[1].shape;
  const int axes = x.rank() - 2;
  require(axes >= 1 && axes <= 3 && grid.rank() == x.rank() && grid[0] == x[0] && grid[-1] == axes, name(), ": takes x",
          x, " and grid", grid, ", where (N,C,…) and (N,…,axes) are wanted");
  require(options.mode == "linear" || options.mode == "nearest" || options.mode == "cubic", name(), ": mode is '",
          options.mode, "', not linear, nearest or cubic");
  require(options.padding == "zeros" || options.padding == "border" || options.padding == "reflection", name(),
          ": padding is '", options.padding, "', not zeros, border or reflection");
  Shape out{x[0], x[1]};
  for (int axis = 1; axis + 1 < grid.rank(); ++axis) out.push_back(grid[axis]);
  return {{in[0].dtype, out}};
}

std::vector<Sample> GridSample::samples() const {
  std::vector<Sample> rows;
  for (const char* mode : {"linear", "nearest", "cubic"})
    for (const char* padding : {"zeros", "border", "reflection"}) {
      auto op = std::make_shared<GridSample>();
      op->options = {.mode = mode, .padding = padding, .align_corners = rows.size() % 2 == 0};
      rows.push_back({op, {{DType::f32, {2, 3, 5, 4}}, {DType::f32, {2, 3, 3, 2}}}, {{}, {-1.3, 1.3}}});
    }
  auto volume = std::make_shared<GridSample>();
  rows.push_back({volume, {{DType::f32, {1, 2, 3, 4, 3}}, {DType::f32, {1, 2, 2, 2, 3}}}, {{}, {-1.3, 1.3}}});
  return rows;
}

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  auto op = std::make_shared<GridSample>();
  op->options = options;
  return apply1(op, {x, grid});
}

void define_grid_sample() { define<GridSample>(); }

}  // namespace neurim
