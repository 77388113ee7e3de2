#include "neurim/backend/cpu/attention/attention.h"

#include "neurim/backend/cpu/simd/math.h"
#include "neurim/backend/cpu/simd/simd.h"
#include "neurim/backend/cpu/simd/transpose.h"

namespace neurim::cpu::NEURIM_ISA {

void pack_keys(const float* keys, StorageDtype rounded, std::int64_t block, std::int64_t row, std::int64_t features,
               std::int64_t count, float* packed) {
  const int words = rounded ? kLanes / 2 : kLanes;
  for (std::int64_t first = 0; first < count; first += kLanes)
    for (std::int64_t f = 0; f < features; f += kLanes, packed += words * kLanes) {
      const float* const from = keys + f / kLanes * block + first * row;
      const int there = static_cast<int>(count - first < kLanes ? count - first : kLanes), fours = there / 4 * 4;
      for (int k = 0; k < fours; k += 4)
        for (int i = 0; i < words; i += 4) transpose4(from + k * row + i, row, packed + i * kLanes + k, kLanes);
      for (int i = 0; i < words; ++i)
        for (int k = fours; k < kLanes; ++k) packed[i * kLanes + k] = k < there ? from[k * row + i] : 0;
    }
}

void exponentiate_scores(float* scores, std::int64_t rows, std::int64_t keys, float scale, float* inverse) {
  const std::int64_t whole = keys / kLanes, step = rows * kLanes;
  const int rest = static_cast<int>(keys % kLanes);
  const IVec there = first_mask(rest);  // the lanes of the last block that hold keys
  const float doublings = scale * 1.44269504f;
  for (std::int64_t r = 0; r < rows; ++r, scores += kLanes) {
    Vec greatest = splat(-kInfinity);
    for (std::int64_t b = 0; b < whole; ++b) greatest = max(load(scores + b * step), greatest);
    if (rest) greatest = max(select(there, load(scores + whole * step), greatest), greatest);
    float most = greatest[0];
    for (int l = 1; l < kLanes; ++l) most = greatest[l] > most ? greatest[l] : most;
    Vec sums{};
    for (std::int64_t b = 0; b < whole + (rest > 0); ++b) {
      float* const at = scores + b * step;
#pragma GCC ivdep
      for (int l = 0; l < kLanes; ++l) {
        const float y = doublings * (at[l] - most);
        at[l] = exp2_of(y < -126.f ? -126.f : y);
      }
      if (b == whole) store(at, first_lanes(load(at), rest));
      sums += load(at);
    }
    inverse[r] = 1 / sum(sums);
  }
}

void scale_rows(float* y, std::int64_t block, std::int64_t row, std::int64_t blocks, std::int64_t rows,
                const float* factor) {
  for (std::int64_t b = 0; b < blocks; ++b)
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const at = y + b * block + r * row;
      store(at, load(at) * splat(factor[r]));
    }
}

void score_gradients(float* scores, float* gradients, std::int64_t rows, std::int64_t keys, float scale,
                     const float* inverse) {
  const std::int64_t step = rows * kLanes, end = (keys + kLanes - 1) / kLanes * step;
  for (std::int64_t r = 0; r < rows; ++r) {
    const Vec factor = splat(inverse[r]);
    Vec sums{};
    for (std::int64_t at = r * kLanes; at < end; at += step) {
      const Vec weight = load(scores + at) * factor;
      store(scores + at, weight);
      sums += weight * load(gradients + at);
    }
    const Vec mean = splat(sum(sums));
    for (std::int64_t at = r * kLanes; at < end; at += step)
      store(gradients + at, load(scores + at) * (load(gradients + at) - mean) * scale);
  }
}

}  // namespace neurim::cpu::NEURIM_ISA
