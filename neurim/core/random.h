// Counter-based random numbers: every number is a pure function of (key, counter), so that it does not depend on
// threads, order or history.
#pragma once
#include <array>
#include <cstdint>

namespace neurim {

/// Philox-4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xD2511F53ull * counter[0], b = 0xCD9E8D57ull * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

/// A small sequential generator over philox for host-side choices (initialisers, augmentation, shuffles). Two streams
/// with different (seed, a, b) are independent.
class Random {
 public:
  /// The stream (seed, a, b) from its beginning.
  explicit Random(std::uint64_t seed, std::uint64_t a = 0, std::uint32_t b = 0)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        counter_{0, b, static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(a >> 32)} {}
  /// 32 random bits.
  std::uint32_t bits() {
    if (used_ == 4) block_ = philox(counter_, key_), ++counter_[0], used_ = 0;
    return block_[used_++];
  }
  double uniform() { return (bits() >> 8) * 0x1p-24; }                                ///< [0, 1), 24 bits
  double uniform(double low, double high) { return low + (high - low) * uniform(); }  ///< [low, high)
  std::uint32_t below(std::uint32_t bound) {                                          ///< [0, bound), unbiased (Lemire)
    std::uint64_t m = static_cast<std::uint64_t>(bits()) * bound;
    if (static_cast<std::uint32_t>(m) < bound)
      for (const std::uint32_t least = (0u - bound) % bound; static_cast<std::uint32_t>(m) < least;)
        m = static_cast<std::uint64_t>(bits()) * bound;
    return static_cast<std::uint32_t>(m >> 32);
  }
  double normal();  ///< mean 0, std 1 (Box–Muller)

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_, block_{};
  int used_ = 4;
};

/// Swaps `count` elements of a random-access sequence into an order that is a function of the generator alone.
template <class Sequence>
void shuffle(Sequence& sequence, Random& random) {
  for (std::size_t i = sequence.size(); i > 1; --i)
    std::swap(sequence[i - 1], sequence[random.below(static_cast<std::uint32_t>(i))]);
}

}  // namespace neurim
