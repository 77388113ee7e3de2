#include "neurim/backend/cpu/pointwise/random.h"

namespace neurim::cpu::NEURIM_ISA {

void random_numbers(const RandomStream& stream, std::int64_t first, std::uint32_t* numbers) {
  // Philox-4x32-10 (see core/random.h), one counter in each lane.
  constexpr int kLanes = kRandomBlock / 4;
  std::uint32_t word[4][kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::uint64_t block = static_cast<std::uint64_t>(first) / 4 + static_cast<std::uint64_t>(lane);
    word[0][lane] = static_cast<std::uint32_t>(block);
    word[1][lane] = static_cast<std::uint32_t>(block >> 32);
    word[2][lane] = static_cast<std::uint32_t>(stream.ordinal);
    word[3][lane] = static_cast<std::uint32_t>(stream.step);
  }
  std::uint32_t key0 = static_cast<std::uint32_t>(stream.seed), key1 = static_cast<std::uint32_t>(stream.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t a = 0xD2511F53ull * word[0][lane], b = 0xCD9E8D57ull * word[2][lane];
      word[0][lane] = static_cast<std::uint32_t>(b >> 32) ^ word[1][lane] ^ key0;
      word[1][lane] = static_cast<std::uint32_t>(b);
      word[2][lane] = static_cast<std::uint32_t>(a >> 32) ^ word[3][lane] ^ key1;
      word[3][lane] = static_cast<std::uint32_t>(a);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 4; ++i) numbers[lane * 4 + i] = word[i][lane] >> 8;
}

void drop(const float* x, const std::uint32_t* numbers, std::uint32_t threshold, double keep, float* y,
          std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    y[i] = numbers[i] >= threshold ? static_cast<float>(static_cast<double>(x[i]) / keep) : 0;
}

}  // namespace neurim::cpu::NEURIM_ISA
