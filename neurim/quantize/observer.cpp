#include "neurim/quantize/observer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "neurim/base/error.h"

namespace neurim {

std::string_view name(RangeMethod method) {
  constexpr std::string_view kNames[] = {"minmax", "percentile", "mse", "entropy"};
  return kNames[static_cast<std::size_t>(method)];
}

void Observer::widen(int exponent) {
  if (exponent_ == kNoExponent) {
    bins_.assign(2 * kHalf, 0);
    exponent_ = exponent;
  }
  if (exponent <= exponent_) return;
  std::vector<std::int64_t> wider(bins_.size());
  const int steps = std::min(exponent - exponent_, 30);
  for (int bin = -kHalf; bin < kHalf; ++bin)
    wider[static_cast<std::size_t>((bin >> steps) + kHalf)] += bins_[static_cast<std::size_t>(bin + kHalf)];
  bins_ = std::move(wider);
  exponent_ = exponent;
}

void Observer::add(std::span<const float> values) {
  float least = 0, most = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) fail(Fault::failure, "one of the numbers is ", value);
    least = std::min(least, value), most = std::max(most, value);
  }
  count_ += static_cast<std::int64_t>(values.size());
  least_ = std::min<double>(least_, least), most_ = std::max<double>(most_, most);
  if (values.empty()) return;
  const double largest = std::max<double>(-least, most);
  widen(largest == 0 ? std::max(exponent_, -126) : std::ilogb(largest) + 1);
  const double per_unit = std::ldexp(kHalf, -exponent_);
  for (const float value : values)
    ++bins_[static_cast<std::size_t>(static_cast<int>(std::floor(value * per_unit)) + kHalf)];
}

void Observer::merge(const Observer& other) {
  if (other.count_ == 0) return;
  Observer wider = other;
  wider.widen(std::max(exponent_, other.exponent_));
  widen(wider.exponent_);
  for (std::size_t bin = 0; bin < bins_.size(); ++bin) bins_[bin] += wider.bins_[bin];
  count_ += other.count_;
  least_ = std::min(least_, other.least_), most_ = std::max(most_, other.most_);
}

std::vector<std::int64_t> Observer::state() const {
  std::vector<std::int64_t> out{count_, exponent_};
  out.insert(out.end(), bins_.begin(), bins_.end());
  return out;
}

Observer Observer::of(std::span<const std::int64_t> state, double least, double most) {
  Observer out;
  require(state.size() == 2 || state.size() == 2 + 2 * kHalf, "observer: ", state.size(), " numbers are no state");
  out.count_ = state[0], out.exponent_ = static_cast<int>(state[1]);
  out.bins_.assign(state.begin() + 2, state.end());
  const std::int64_t sum = std::accumulate(out.bins_.begin(), out.bins_.end(), std::int64_t{0});
  const bool sound = sum == out.count_ &&
                     std::none_of(out.bins_.begin(), out.bins_.end(), [](auto n) { return n < 0; }) &&
                     (out.bins_.empty() || (out.exponent_ >= -126 && out.exponent_ <= 128)) && least <= 0 && most >= 0;
  require(sound, "observer: the numbers are no state");
  out.least_ = least, out.most_ = most;
  return out;
}

double Observer::centre(std::size_t bin) const {
  return std::ldexp(static_cast<double>(bin) - kHalf + 0.5, exponent_) / kHalf;
}

Range Observer::without(double share) const {
  const double beyond = share * static_cast<double>(count_);
  const auto edge = [&](std::size_t bin) { return std::ldexp(static_cast<double>(bin) - kHalf, exponent_) / kHalf; };
  std::size_t first = 0, last = bins_.size();
  for (double below = 0; first < bins_.size() && (below += static_cast<double>(bins_[first])) <= beyond;) ++first;
  for (double above = 0; last > 0 && (above += static_cast<double>(bins_[last - 1])) <= beyond;) --last;
  return {std::max(least_, std::min(0.0, edge(first))), std::min(most_, std::max(0.0, edge(last)))};
}

double Observer::squared_error(const Range& range, int levels) const {
  const double step = (range.high - range.low) / levels;
  double sum = 0;
  for (std::size_t bin = 0; bin < bins_.size(); ++bin) {
    if (bins_[bin] == 0) continue;
    const double x = centre(bin), cut = std::clamp(x, range.low, range.high);
    const double error = x - (range.low + std::nearbyint((cut - range.low) / step) * step);
    sum += error * error * static_cast<double>(bins_[bin]);
  }
  return sum;
}

double Observer::relative_entropy(const Range& range, int levels) const {
  // Beside the numbers within the range, what lies beyond counted at its ends, stands what levels tell apart: the same
  // for all bins of a level that are not empty.
  const double step = (range.high - range.low) / levels;
  std::vector<double> within(bins_.size()), sums(static_cast<std::size_t>(levels) + 1), filled(sums.size());
  const auto bin_of = [&](double x) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(std::ldexp(x * kHalf, -exponent_))) + kHalf, 0,
                                    2 * kHalf - 1);
  };
  const auto first = static_cast<std::size_t>(bin_of(range.low)), last = static_cast<std::size_t>(bin_of(range.high));
  const auto level_of = [&](std::size_t bin) {
    const double level = std::nearbyint((std::clamp(centre(bin), range.low, range.high) - range.low) / step);
    return static_cast<std::size_t>(std::clamp<double>(level, 0, levels));
  };
  for (std::size_t bin = 0; bin < bins_.size(); ++bin)
    within[std::clamp(bin, first, last)] += static_cast<double>(bins_[bin]);
  for (std::size_t bin = first; bin <= last; ++bin)
    if (bins_[bin] > 0) sums[level_of(bin)] += static_cast<double>(bins_[bin]), ++filled[level_of(bin)];
  double all = 0;
  for (const double sum : sums) all += sum;
  double entropy = 0;
  for (std::size_t bin = first; bin <= last; ++bin) {
    if (within[bin] == 0) continue;
    const std::size_t level = level_of(bin);
    const double p = within[bin] / static_cast<double>(count_),
                 q = filled[level] == 0 || bins_[bin] == 0 ? 0 : sums[level] / filled[level] / all;
    entropy += p * std::log(p / std::max(q, 1e-12));
  }
  return entropy;
}

Range Observer::range(RangeMethod method, int levels, bool symmetric) const {
  const auto shaped = [&](Range range) {
    if (!symmetric) return range;
    const double most = std::max(-range.low, range.high);
    return Range{-most, most};
  };
  const Range all = shaped({least_, most_});
  if (all.low == all.high || method == RangeMethod::minmax) return all;
  if (method == RangeMethod::percentile) {
    const Range most_of_all = shaped(without(1e-4));
    return most_of_all.low == most_of_all.high ? all : most_of_all;
  }
  Range best = all;
  double least = std::numeric_limits<double>::infinity();
  for (int part = 100; part >= 20; --part) {
    const Range range{all.low * part / 100, all.high * part / 100};
    const double error = method == RangeMethod::mse ? squared_error(range, levels) : relative_entropy(range, levels);
    if (error < least) least = error, best = range;
  }
  return best;
}

}  // namespace neurim
