#include "neurim/backend/cpu/common/panels.h"

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/simd/simd.h"
#include "neurim/backend/cpu/simd/transpose.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

/// Packs one block of columns of a panel, of which the first `columns` exist: to[k][column] = matrix(k, column).
void pack_columns(const Panels& panels, const float* from, int columns, float* to) {
  const std::int64_t depth = panels.depth, across = panels.column_stride, down = panels.depth_stride;
  std::int64_t k = 0;
  if (columns == kLanes && across == 1)
    for (; k < depth; ++k) store(to + k * kLanes, load(from + k * down));
  if (columns == kLanes && down == 1)
    for (; k + kLanes <= depth; k += kLanes)
      for (int l = 0; l < kLanes; l += 4)  // four lines at a time: more could evict each other from the cache
        for (std::int64_t i = k; i < k + kLanes; i += 4)
          transpose4(from + l * across + i, across, to + i * kLanes + l, kLanes);
  for (; k < depth; ++k)
    for (int l = 0; l < kLanes; ++l) to[k * kLanes + l] = l < columns ? from[l * across + k * down] : 0;
}

}  // namespace

void pack_panels(const Panels& panels, const float* weight, float* packed, std::int64_t first, std::int64_t last) {
  for (std::int64_t p = first; p < last; ++p)
    for (int v = 0; v < panels.vectors; ++v) {
      const std::int64_t unit = (panels.by_gate ? p : p * panels.vectors + v) * kLanes, left = panels.size - unit;
      const std::int64_t column = unit + (panels.by_gate ? v * panels.size : 0);
      float* const to = packed + (p * panels.vectors + v) * panels.block_floats();
      const float* const from = weight + column * panels.column_stride;
      if (panels.pairs && left >= kLanes && panels.column_stride == 1) {
        pair_rows(panels.pairs, from, panels.depth_stride, 0, panels.depth, panels.depth, kLanes, to);
        continue;
      }
      pack_columns(panels, from, left >= kLanes ? kLanes : left > 0 ? static_cast<int>(left) : 0, to);
      if (panels.pairs)
        pair_rows(panels.pairs, to, kLanes, 0, panels.depth, panels.depth, kLanes,
                  to);  // in place: a pair never lies after its source
    }
}

}  // namespace neurim::cpu::NEURIM_ISA
