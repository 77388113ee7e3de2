// Which samples make up an epoch, and in which order.
#pragma once
#include <cstdint>
#include <vector>

#include "neurim/data/dataset.h"

namespace neurim {

/// Which samples make up an epoch.
enum class Sampler : std::uint8_t {
  each,      ///< every sample once
  balanced,  ///< as many samples in all, of each class equally many: rare ones come again, common ones not all
  weighted,  ///< as many samples in all, each drawn in proportion to its weight, again and again
};

/// How an epoch is drawn and shared.
struct OrderOptions {
  std::uint64_t seed = 42;          ///< of all choices
  bool shuffle = false;             ///< a random order in each epoch
  Sampler sampler = Sampler::each;  ///< which samples make up an epoch
  int rank = 0,                     ///< of the processes that share an epoch; each sample of it goes to one of them
      ranks = 1;                    ///< how many these are
};

/// The samples of an epoch are a function of (seed, epoch) alone. Those of rank r of R are the r-th, r+R-th, …
/// of the whole epoch, so that the ranks' shares are disjoint, make up the epoch, and differ in size by one at
/// most.
class Order {
 public:
  /// Throws Error(usage) on a rank outside of [0, ranks), on a balanced multi-label set and on a weighted one without
  /// weights, Error(data) where all weights are 0.
  Order(const Dataset& dataset, Split split, const OrderOptions& options);
  /// Of samples without classes and weights: for Sampler::each.
  Order(std::int64_t samples, const OrderOptions& options);

  std::int64_t size() const;                     ///< samples of this rank
  std::int64_t all() const { return samples_; }  ///< of all ranks
  /// Fills `samples` with those of an epoch; allocates nothing once it is warm.
  void fill(std::uint32_t epoch, std::vector<std::int64_t>& samples);
  /// Of each sample that fill gave last, how often it had come before in the whole epoch; empty for Sampler::each.
  const std::vector<std::int64_t>& repeats() const { return repeats_; }

 private:
  void draw_balanced(std::uint32_t epoch);
  void draw_weighted(std::uint32_t epoch);
  void count_repeats();

  OrderOptions options_;
  std::int64_t samples_;
  std::vector<std::vector<std::int64_t>> by_class_;  // for Sampler::balanced
  std::vector<double> weight_sums_;                  // for Sampler::weighted: of the samples up to each
  std::vector<std::int64_t> all_, classes_;          // of the epoch
  std::vector<std::int64_t> repeats_, seen_;         // seen_: how often each sample came so far
};

}  // namespace neurim
