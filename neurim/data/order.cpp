#include "neurim/data/order.h"

#include <algorithm>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/core/random.h"

namespace neurim {
namespace {

// Streams of random numbers that no sample has: its index is not negative.
constexpr std::uint64_t kOrderStream = ~0ull, kClassesStream = ~1ull, kDrawStream = ~2ull;
constexpr std::uint64_t kClassStream = 1ull << 63;  // plus the number of the class

}  // namespace

Order::Order(std::int64_t samples, const OrderOptions& options) : options_(options), samples_(samples) {
  require(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks, "loader: rank is ", options.rank,
          " of ", options.ranks, "; it lies in [0, ranks)");
}

Order::Order(const Dataset& dataset, Split split, const OrderOptions& options) : Order(dataset.size(split), options) {
  if (options.sampler == Sampler::weighted) {
    require(
        dataset.weighted(),
        "sampler=weighted: no sample has another weight than 1; give weights in the column weight of a .csv, .tsv or "
        ".jsonl table, or take sampler=balanced for as many samples of each class");
    double sum = 0;
    for (std::int64_t i = 0; i < samples_; ++i) weight_sums_.push_back(sum += dataset.weight(split, i));
    if (!(sum > 0)) fail(Fault::data, "sampler=weighted: all samples of the ", split, " split have the weight 0");
  }
  if (options.sampler != Sampler::balanced) return;
  require(!dataset.multi_label(),
          "sampler=balanced needs one class an image, and these have any number; "
          "class_weights=sqrt or a column weight with sampler=weighted help rare classes");
  by_class_.resize(dataset.class_names().size());
  for (std::int64_t i = 0; i < samples_; ++i) by_class_[dataset.label(split, i)].push_back(i);
  std::erase_if(by_class_, [](const std::vector<std::int64_t>& samples) { return samples.empty(); });
}

std::int64_t Order::size() const { return (samples_ - options_.rank + options_.ranks - 1) / options_.ranks; }

void Order::draw_balanced(std::uint32_t epoch) {
  // Where the classes do not divide the epoch, chance says which of them have one sample more.
  classes_.resize(by_class_.size());
  std::iota(classes_.begin(), classes_.end(), 0);
  Random random(options_.seed, kClassesStream, epoch);
  neurim::shuffle(classes_, random);
  const auto classes = static_cast<std::int64_t>(classes_.size());
  auto out = all_.begin();
  for (std::int64_t i = 0; i < classes; ++i) {
    const auto c = static_cast<std::size_t>(classes_[i]);
    std::vector<std::int64_t>& samples = by_class_[c];
    // From the same beginning in every epoch, so that no epoch depends on the one before.
    std::sort(samples.begin(), samples.end());
    Random of_class(options_.seed, kClassStream + c, epoch);
    neurim::shuffle(samples, of_class);
    const std::int64_t count = samples_ / classes + (i < samples_ % classes);
    for (std::int64_t k = 0; k < count; ++k) *out++ = samples[static_cast<std::size_t>(k) % samples.size()];
  }
}

void Order::draw_weighted(std::uint32_t epoch) {
  Random random(options_.seed, kDrawStream, epoch);
  for (std::int64_t& sample : all_) {
    const double share = (random.bits() + random.bits() * 0x1p-32) * 0x1p-32;
    const auto at = std::upper_bound(weight_sums_.begin(), weight_sums_.end(), share * weight_sums_.back());
    sample = std::min<std::int64_t>(at - weight_sums_.begin(), samples_ - 1);
  }
}

void Order::fill(std::uint32_t epoch, std::vector<std::int64_t>& samples) {
  all_.resize(samples_);
  if (options_.sampler == Sampler::balanced)
    draw_balanced(epoch);
  else if (options_.sampler == Sampler::weighted)
    draw_weighted(epoch);
  else
    std::iota(all_.begin(), all_.end(), 0);
  if (options_.shuffle) {
    Random random(options_.seed, kOrderStream, epoch);
    neurim::shuffle(all_, random);
  }
  samples.resize(size());
  for (std::size_t i = 0; i < samples.size(); ++i)
    samples[i] = all_[static_cast<std::size_t>(options_.rank) + i * static_cast<std::size_t>(options_.ranks)];
  if (options_.sampler != Sampler::each) count_repeats();
}

void Order::count_repeats() {
  repeats_.clear();
  seen_.assign(samples_, 0);
  const auto rank = static_cast<std::size_t>(options_.rank), ranks = static_cast<std::size_t>(options_.ranks);
  for (std::size_t i = 0; i < all_.size(); ++i) {  // of all ranks, as no two are to make the same image
    const std::int64_t before = seen_[all_[i]]++;
    if (i % ranks == rank) repeats_.push_back(before);
  }
}

}  // namespace neurim
