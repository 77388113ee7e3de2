// Copies of f32 tensors between the plain layout and blocks of 16 channels, features or images, and between floats and
// what is rounded.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// (N,C,…) with `places` elements behind a channel, or `last`: (N,…,C) with as many rows of channels. The work is cut
/// into ranges of places of a channel block.
struct BlockShape {
  std::int64_t images, channels, places;
  bool last;
  std::int64_t blocks() const { return (channels + 15) / 16; }
};

/// Both take places [first, last) of block number `block` of all images.
NEURIM_EACH_ISA(void block_channels(const BlockShape& shape, const float* plain, float* blocked, std::int64_t block,
                                    std::int64_t first, std::int64_t last))
NEURIM_EACH_ISA(void unblock_channels(const BlockShape& shape, const float* blocked, float* plain, std::int64_t block,
                                      std::int64_t first, std::int64_t last))

/// The elements [first, last) of memory, multiples of 16, rounded to the nearest `half` and ties to even, or as floats
/// again.
NEURIM_EACH_ISA(void round_elements(StorageDtype storage, const float* from, std::int64_t first, std::int64_t last,
                                    std::uint16_t* to))
NEURIM_EACH_ISA(void widen_elements(StorageDtype storage, const std::uint16_t* from, std::int64_t first,
                                    std::int64_t last, float* to))

/// `count` elements as floats: where they lie, or widened into `room` where they are `rounded` (see Layout::storage).
inline float* floats_of(float* elements, StorageDtype rounded, std::int64_t count, float* room) {
  if (!rounded) return elements;
  NEURIM_DISPATCH(widen_elements)(rounded, reinterpret_cast<const std::uint16_t*>(elements), 0, count, room);
  return room;
}

}  // namespace neurim::cpu
