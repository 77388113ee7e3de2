// Copies of f32 tensors between the plain layout and blocks of 16 channels, features or images, and between floats and
// 16-bit storage.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// The shape (N,C,...) with `places` elements for each channel; with `last` (N,...,C). Work is cut into ranges of
/// places of a channel block.
struct BlockShape {
  std::int64_t images, channels, places;
  bool last;
  std::int64_t blocks() const { return (channels + 15) / 16; }
};

/// Both convert places [first, last) of block `block` of all images.
NEURIM_EACH_ISA(void block_channels(const BlockShape& shape, const float* plain, float* blocked, std::int64_t block,
                                    std::int64_t first, std::int64_t last))
NEURIM_EACH_ISA(void unblock_channels(const BlockShape& shape, const float* blocked, float* plain, std::int64_t block,
                                      std::int64_t first, std::int64_t last))

/// Converts elements [first, last), multiples of 16, to `half`, rounded to nearest even, or back to floats.
NEURIM_EACH_ISA(void round_elements(StorageDtype storage, const float* from, std::int64_t first, std::int64_t last,
                                    std::uint16_t* to))
NEURIM_EACH_ISA(void widen_elements(StorageDtype storage, const std::uint16_t* from, std::int64_t first,
                                    std::int64_t last, float* to))

/// `count` elements as floats: the same memory, or widened into `room` if their storage is 16-bit (Layout::storage).
inline float* floats_of(float* elements, StorageDtype rounded, std::int64_t count, float* room) {
  if (!rounded) return elements;
  NEURIM_DISPATCH(widen_elements)(rounded, reinterpret_cast<const std::uint16_t*>(elements), 0, count, room);
  return room;
}

}  // namespace neurim::cpu
