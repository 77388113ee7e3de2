// Matrices repacked for products whose sums stay in registers.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// A weight repacked for products (block_product.h) with rows of `depth` numbers: panels of `vectors` blocks of 16
/// columns, within which all columns of one depth are neighbours; missing columns are zero. By gates, each of the
/// panel's blocks holds the same units of another gate; otherwise the blocks are neighbours too. Numbers of two
/// neighbouring depths may be rounded to pairs (see BlockProduct), which stand at the beginning of a block's room.
struct Panels {
  int vectors = 4;
  bool by_gate = false;
  std::int64_t depth = 0, size = 0;                  ///< size: units of a gate, or columns
  std::int64_t column_stride = 0, depth_stride = 0;  ///< in the weight
  StorageDtype pairs = StorageDtype::exact;
  std::int64_t width() const { return by_gate ? 16 : 16 * vectors; }
  std::int64_t count() const { return (size + width() - 1) / width(); }
  std::int64_t blocks() const { return (depth + 15) / 16; }  ///< of a row
  std::int64_t block_floats() const { return blocks() * 16 * 16; }
  std::int64_t floats() const { return count() * vectors * block_floats(); }
};
/// Packs panels [first, last).
NEURIM_EACH_ISA(void pack_panels(const Panels& panels, const float* weight, float* packed, std::int64_t first,
                                 std::int64_t last))

}  // namespace neurim::cpu
