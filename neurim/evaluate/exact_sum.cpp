#include "neurim/evaluate/exact_sum.h"

#include <cmath>

#include "neurim/base/error.h"

namespace neurim {

namespace {

constexpr int kBits = 32,
              kLowest = -1152;  // the weight of the lowest bit is 2^kLowest: below 53 bits of the least double
constexpr std::int64_t kDigit = std::int64_t{1} << kBits;
constexpr std::int64_t kMostPending = std::int64_t{1} << 29;

}  // namespace

void ExactSum::add(double value) {
  if (!std::isfinite(value)) {
    not_finite_ += value;
    return;
  }
  if (value == 0) return;
  int exponent = 0;
  const auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
  const int place = exponent - 53 - kLowest;
  // The 53 bits lie in three digits at most.
  __int128 shifted = static_cast<__int128>(mantissa < 0 ? -mantissa : mantissa) << (place % kBits);
  for (auto digit = static_cast<std::size_t>(place / kBits); shifted != 0; ++digit, shifted >>= kBits) {
    const auto part = static_cast<std::int64_t>(shifted & (kDigit - 1));
    digits_[digit] += mantissa < 0 ? -part : part;
  }
  if (++pending_ == kMostPending) carry();
}

void ExactSum::add_product(double a, double b) {
  const double product = a * b;
  add(product);
  if (std::isfinite(product)) add(std::fma(a, b, -product));
}

/// Brings every digit but the highest, which has the sign, into [0, 2^32).
void ExactSum::carry() {
  for (std::size_t i = 0; i + 1 < digits_.size(); ++i) {
    digits_[i + 1] += digits_[i] >> kBits;
    digits_[i] &= kDigit - 1;
  }
  pending_ = 0;
}

void ExactSum::merge(const ExactSum& other) {
  ExactSum carried = other;
  carried.carry();
  carry();
  for (std::size_t i = 0; i < digits_.size(); ++i) digits_[i] += carried.digits_[i];
  carry();
  not_finite_ += other.not_finite_;
}

double ExactSum::value() const {
  if (not_finite_ != 0 || std::isnan(not_finite_)) return not_finite_;
  ExactSum positive = *this;
  positive.carry();
  const bool negative = positive.digits_.back() < 0;
  if (negative) {
    for (std::int64_t& digit : positive.digits_) digit = -digit;
    positive.carry();
  }
  auto top = static_cast<int>(positive.digits_.size()) - 1;
  while (top >= 0 && positive.digits_[static_cast<std::size_t>(top)] == 0) --top;
  if (top < 0) return 0;
  // The highest three digits hold 65 bits and more; a bit that is set below them only decides between two doubles.
  __extension__ unsigned __int128 high = 0;
  for (int i = top; i > top - 3; --i)
    high = high << kBits | static_cast<std::uint64_t>(i < 0 ? 0 : positive.digits_[static_cast<std::size_t>(i)]);
  bool below = false;
  for (int i = 0; i < top - 2; ++i) below |= positive.digits_[static_cast<std::size_t>(i)] != 0;
  int dropped = 0;
  for (unsigned __int128 left = high >> 53; left != 0; left >>= 1) ++dropped;
  NEURIM_ASSERT(dropped > 0);
  const unsigned __int128 half = static_cast<unsigned __int128>(1) << (dropped - 1), tail = high & (2 * half - 1);
  auto mantissa = static_cast<std::uint64_t>(high >> dropped);
  if (tail > half || (tail == half && (below || mantissa % 2 == 1))) ++mantissa;
  const double rounded = std::ldexp(static_cast<double>(mantissa), (top - 2) * kBits + kLowest + dropped);
  return negative ? -rounded : rounded;
}

double ExactSum::rest() const {
  const double most = value();
  if (!std::isfinite(most)) return 0;
  ExactSum left = *this;
  left.add(-most);
  return left.value();
}

}  // namespace neurim
