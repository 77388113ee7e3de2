// Sums without rounding, so that parts can be added in any order.
#pragma once
#include <array>
#include <cstdint>

namespace neurim {

/// A sum of doubles as a fixed-point number that has room for each of them: the same sum has the same bits, whatever
/// the order and however it was split (a superaccumulator: Kulisch, "Computer Arithmetic and Validity", 2008).
class ExactSum {
 public:
  void add(double value);                ///< what is not finite decides the sum as in IEEE 754
  void add_product(double a, double b);  ///< a * b, without rounding it where it does not underflow
  void merge(const ExactSum& other);     ///< adds another sum
  double value() const;                  ///< the sum, rounded once to the nearest double
  double rest() const;                   ///< the sum less value(), rounded

 private:
  static constexpr int kDigits = 72;  // of 32 bits: 2^-1152 to 2^1152
  using Digits = std::array<std::int64_t, kDigits>;

  void carry();

  Digits digits_{};           // each may grow over 32 bits until the carry
  std::int64_t pending_ = 0;  // additions since the last carry
  double not_finite_ = 0;     // the sum of what is not finite
};

}  // namespace neurim
