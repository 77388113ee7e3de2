// The model of a text that knows one character: what every larger one has to beat.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace neurim {

/// How often which character follows which, each pair counted once more than it was met (Laplace's rule), so
/// that none is impossible.
class Bigram {
 public:
  /// Counts the pairs of a text whose characters are numbers in [0, characters). Throws Error(usage) on
  /// others.
  Bigram(std::span<const std::int32_t> text, std::int64_t characters);

  /// -log2 of the probability that `next` comes after `previous`.
  double bits(std::int32_t previous, std::int32_t next) const;

 private:
  std::int64_t characters_;
  std::unordered_map<std::int64_t, std::int64_t> pairs_;  // by previous * characters_ + next
  std::vector<std::int64_t> before_;                      // how often each is followed by another
};

}  // namespace neurim
