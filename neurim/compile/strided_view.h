// Which elements of another value a value is, where only reshapes, transposes, slices and single places of a gather lie
// between them.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "neurim/graph/tensor.h"

namespace neurim {

/// An axis of a view, or a part of it: so many elements, and how far they lie from one another in the root.
struct StridedRun {
  std::int64_t size, step;
  bool operator==(const StridedRun&) const = default;
};

/// The element of a value at (i, j, …) is that of the root at offset + i * step + j * step + …, where the elements of
/// the root are counted row by row.
struct StridedView {
  Tensor root;
  int ops = 0;  ///< how many lie between the root and the value
  std::int64_t offset = 0;
  std::vector<std::vector<StridedRun>> axes;  ///< of each axis the runs that it is made of; none: one element
};

/// The view that a value of the current trace is; of itself where nothing else is known of it. None: its sizes are
/// symbols, or it has no elements.
std::optional<StridedView> strided_view(const Tensor& value);

/// A value as reshape(transpose(reshape(root, shape), perm), result).
struct TurnedTable {
  Shape shape;
  std::vector<std::int64_t> perm;
  Shape result;
  bool turns() const;  ///< whether perm moves an axis
  Tensor of(const Tensor& root) const;
};

/// A view as that. None: it leaves out elements of the root, or has them more than once.
std::optional<TurnedTable> turned_table(const StridedView& view);

/// A value of the same elements that fewer reshapes and transposes make. None: these are the fewest.
std::optional<Tensor> shorter(const Tensor& value);

/// reshape, of tensors that have another shape.
Tensor reshaped(const Tensor& x, const Shape& shape);

}  // namespace neurim
