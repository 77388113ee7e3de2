// What the numbers between layers are, as far as 8 bits of them need to know.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace neurim {

/// The numbers that 8 bits stand for; 0 is among them.
struct Range {
  double low = 0, high = 0;  ///< low <= 0 <= high
};

/// How a range is found: all that was seen; what 99.99 % of the numbers are within, on either side; the part of it
/// whose rounding and cutting err least (mean squared error); that whose distribution stays the most alike (relative
/// entropy: Migacz, "8-bit Inference with TensorRT", GTC 2017).
enum class RangeMethod : std::uint8_t { minmax, percentile, mse, entropy };
inline constexpr RangeMethod kRangeMethods[] = {RangeMethod::minmax, RangeMethod::percentile, RangeMethod::mse,
                                                RangeMethod::entropy};
std::string_view name(RangeMethod method);  ///< "minmax"

/// Collects numbers. They may be added in several objects and merged: in any order it holds the same.
class Observer {
 public:
  /// Throws Error(failure) for a number that is not finite; then it adds nothing.
  void add(std::span<const float> values);
  void merge(const Observer& other);  ///< adds everything that `other` has

  std::int64_t count() const { return count_; }  ///< numbers that were added
  double least() const { return least_; }        ///< of the numbers and 0
  double most() const { return most_; }          ///< the same

  /// All that it holds in whole numbers, and again from these and `least` and `most`. Throws Error(usage) for others.
  std::vector<std::int64_t> state() const;
  static Observer of(std::span<const std::int64_t> state, double least, double most);

  /// The range for `levels` steps between its ends; `symmetric`: 0 is in its middle. Nothing but zeros, or no numbers,
  /// give {0, 0}.
  Range range(RangeMethod method, int levels, bool symmetric) const;

 private:
  static constexpr int kHalf = 4096;  // bins on either side of 0
  static constexpr int kNoExponent = std::numeric_limits<int>::min();

  void widen(int exponent);
  double centre(std::size_t bin) const;
  Range without(double share) const;  // of the numbers on either side
  double squared_error(const Range& range, int levels) const;
  double relative_entropy(const Range& range, int levels) const;

  // Numbers of [-2^exponent, 2^exponent) in bins of equal width: a wider range joins two bins into one.
  std::vector<std::int64_t> bins_;
  int exponent_ = kNoExponent;
  std::int64_t count_ = 0;
  double least_ = 0, most_ = 0;
};

}  // namespace neurim
