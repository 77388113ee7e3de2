#include "neurim/backend/cpu/packing/reorder.h"

#include "neurim/backend/cpu/simd/storage.h"
#include "neurim/backend/cpu/simd/transpose.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

/// One channel block of one image: its offsets in both layouts, and its number of channels.
struct Block {
  std::int64_t plain, blocked;
  int channels;
  Block(const BlockShape& shape, std::int64_t block) : blocked(block * shape.places * kLanes) {
    const std::int64_t image = block / shape.blocks() * shape.channels * shape.places,
                       first = block % shape.blocks() * kLanes;
    plain = image + first * (shape.last ? 1 : shape.places);
    const std::int64_t left = shape.channels - block % shape.blocks() * kLanes;
    channels = static_cast<int>(left < kLanes ? left : kLanes);
  }
};

}  // namespace

void block_channels(const BlockShape& shape, const float* plain, float* blocked, std::int64_t block, std::int64_t first,
                    std::int64_t last) {
  const Block own(shape, block);
  const float* from = plain + own.plain;
  float* to = blocked + own.blocked;
  if (shape.last) {
    for (std::int64_t place = first; place < last; ++place) {
      const float* const row = from + place * shape.channels;
      store(to + place * kLanes, own.channels == kLanes ? load(row) : load_partial(row, own.channels));
    }
    return;
  }
  const int fours = own.channels / 4 * 4;
  const auto one_by_one = [&](std::int64_t place, int channel) {
    for (int c = channel; c < kLanes; ++c)
      to[place * kLanes + c] = c < own.channels ? from[c * shape.places + place] : 0;
  };
  std::int64_t place = first;
  for (; place + 4 <= last; place += 4) {
    for (int c = 0; c < fours; c += 4)
      transpose4(from + c * shape.places + place, shape.places, to + place * kLanes + c, kLanes);
    if (fours < kLanes)
      for (int i = 0; i < 4; ++i) one_by_one(place + i, fours);
  }
  for (; place < last; ++place) one_by_one(place, 0);
}

void unblock_channels(const BlockShape& shape, const float* blocked, float* plain, std::int64_t block,
                      std::int64_t first, std::int64_t last) {
  const Block own(shape, block);
  const float* from = blocked + own.blocked;
  float* to = plain + own.plain;
  if (shape.last) {
    for (std::int64_t place = first; place < last; ++place) {
      float* const row = to + place * shape.channels;
      const Vec channels = load(from + place * kLanes);
      own.channels == kLanes ? store(row, channels) : store_partial(row, channels, own.channels);
    }
    return;
  }
  const int fours = own.channels / 4 * 4;
  const auto one_by_one = [&](std::int64_t place, int channel) {
    for (int c = channel; c < own.channels; ++c) to[c * shape.places + place] = from[place * kLanes + c];
  };
  std::int64_t place = first;
  for (; place + 4 <= last; place += 4) {
    for (int c = 0; c < fours; c += 4)
      transpose4(from + place * kLanes + c, kLanes, to + c * shape.places + place, shape.places);
    if (fours < own.channels)
      for (int i = 0; i < 4; ++i) one_by_one(place + i, fours);
  }
  for (; place < last; ++place) one_by_one(place, 0);
}

void round_elements(StorageDtype storage, const float* from, std::int64_t first, std::int64_t last, std::uint16_t* to) {
  with_places(storage, [&](auto places) {
    for (std::int64_t i = first; i < last; i += kLanes) places.put(reinterpret_cast<float*>(to), i, load(from + i));
  });
}

void widen_elements(StorageDtype storage, const std::uint16_t* from, std::int64_t first, std::int64_t last, float* to) {
  with_read_places(storage, [&](auto places) {
    for (std::int64_t i = first; i < last; i += kLanes)
      store(to + i, places.get(reinterpret_cast<const float*>(from), i));
  });
}

}  // namespace neurim::cpu::NEURIM_ISA
