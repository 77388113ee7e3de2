// Copies of elements of any width: a strided walk over a target, which takes each element from a source or a constant.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace neurim::cpu {

/// One loop over the target. Indices first + k * step, k < count, take the element k * from_stride further in the
/// source; all others take the constant. Strides are in elements.
struct WalkAxis {
  std::int64_t size, to_stride;
  std::int64_t first, step, count, from_stride;
};

struct Walk {
  std::vector<WalkAxis> axes;            ///< outermost first; at least one
  std::int64_t to = 0, from = 0;         ///< offsets of the first elements
  int width = 0;                         ///< bytes of an element: 1, 2, 4, 8, 16, 32 or 64
  std::array<std::byte, 64> constant{};  ///< an element, repeated

  std::int64_t rows() const;  ///< the product of all sizes but the innermost
  /// Merges neighbouring axes where memory allows, while rows stay short enough to be shared among threads.
  void merge();
  /// Writes rows [first, last).
  void run(const void* source, void* target, std::int64_t first, std::int64_t last) const;
};

}  // namespace neurim::cpu
