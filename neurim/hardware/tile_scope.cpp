#include "neurim/hardware/tile_scope.h"

#include <cstdint>

#include "neurim/hardware/isa.h"

namespace neurim {

namespace {

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14]{};
  std::uint16_t row_bytes[16]{64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16]{16, 16, 16, 16, 16, 16, 16, 16};
};

}  // namespace

// Both in assembly: intrinsics would need a target of their own.
TileScope::TileScope() {
#if defined(__x86_64__)
  static constexpr TileShapes kShapes;
  if (has_tiles()) asm volatile("ldtilecfg %0" : : "m"(kShapes));
#endif
}
TileScope::~TileScope() {
#if defined(__x86_64__)
  if (has_tiles()) asm volatile("tilerelease");
#endif
}

}  // namespace neurim
