#include "neurim/data/batch_source.h"

#include <algorithm>

#include "neurim/base/error.h"

namespace neurim {

std::int64_t most_bad(double max_bad, std::int64_t samples) {
  require(max_bad >= 0, "max_bad is ", max_bad, "; it is a share or a count");
  const double most = max_bad >= 1 ? max_bad : max_bad * static_cast<double>(samples);
  const auto whole = static_cast<std::int64_t>(most + 1e-6);  // 0.29 of 100 are 28.999…
  return max_bad > 0 ? std::max<std::int64_t>(whole, 1) : 0;
}

BatchSource::BatchSource(const Dataset& dataset, Split split, const Preprocess& preprocess, const Augment& augment,
                         const LoaderOptions& options)
    : dataset_(dataset),
      split_(split),
      preprocess_(preprocess),
      augment_(augment),
      options_(options),
      samples_(dataset.size(split)),
      targets_(dataset.has_targets() ? dataset.class_names().size() : 0),
      epoch_order_(dataset, split,
                   {.seed = options.seed,
                    .shuffle = options.shuffle,
                    .sampler = options.sampler,
                    .rank = options.rank,
                    .ranks = options.ranks}),
      whole_(static_cast<std::size_t>(dataset.size(split))) {
  require(options.batch >= 1 && options.workers >= 0 && options.prefetch >= 1, "loader: batch ", options.batch,
          ", workers ", options.workers, ", prefetch ", options.prefetch, "; they are at least 1, 0 and 1");
  preprocess.check();
  augment.check();
  if (samples_ == 0)
    fail(Fault::data, "loader: the ", split, " split is empty; choose another split, or val_split above 0");
  const std::int64_t samples = epoch_order_.all(), of_ranks = std::int64_t{options.batch} * options.ranks;
  batches_ = options.drop_last ? samples / of_ranks : (samples + of_ranks - 1) / of_ranks;
  require(batches_ > 0, "loader: ", options.drop_last ? "drop_last leaves nothing of " : "no batch comes of ", samples,
          " samples in batches of ", of_ranks, "; use a smaller batch");
  // Chance may put all bad samples of a set into one split, which is no reason to stop.
  most_bad_ = neurim::most_bad(options.max_bad, dataset.size());
}

void BatchSource::start(std::uint32_t epoch, std::int64_t first_batch) {
  require(first_batch >= 0 && first_batch <= batches_, "loader: cannot start at batch ", first_batch, " of ", batches_);
  halt();
  if (static_cast<std::int64_t>(bad().size()) > most_bad_) too_many_bad();
  epoch_ = epoch;
  epoch_order_.fill(epoch, order_);
  begin(first_batch);
}

std::int64_t BatchSource::size_of(std::int64_t batch) const {
  return std::clamp<std::int64_t>(epoch_order_.size() - batch * options_.batch, 0, options_.batch);
}

void BatchSource::make_room(Filling& filling, std::int64_t size) const {
  const auto count = static_cast<std::size_t>(size);
  filling.images.resize(count * preprocess_.size().values());
  filling.labels.resize(targets_ ? 0 : count);
  filling.targets.resize(count * targets_);
  filling.indices.resize(count);
}

void BatchSource::put_labels(Filling& filling, std::size_t at) const {
  const std::int64_t index = filling.indices[at];
  if (targets_ == 0) {
    filling.labels[at] = dataset_.label(split_, index);
    return;
  }
  float* const row = filling.targets.data() + at * targets_;
  if (dataset_.regression()) {
    std::ranges::copy(dataset_.numbers(split_, index), row);
    return;
  }
  std::fill_n(row, targets_, 0.0f);
  for (const std::int64_t c : dataset_.classes(split_, index)) row[c] = 1;
}

Batch BatchSource::view(Filling& filling, std::int64_t size) const {
  const auto count = static_cast<std::size_t>(size);
  return {.images = std::span(filling.images).first(count * preprocess_.size().values()),
          .labels = std::span(filling.labels).first(targets_ ? 0 : count),
          .targets = std::span(filling.targets).first(count * targets_),
          .indices = std::span(filling.indices).first(count),
          .size = static_cast<int>(size)};
}

void BatchSource::remember_bad(std::int64_t index, std::string_view reason) {
  const std::string named = text(dataset_.name(split_, index), ": ", reason);
  std::unique_lock lock(bad_mutex_);
  bad_.emplace(index, named);
  const bool too_many = static_cast<std::int64_t>(bad_.size()) > most_bad_;
  lock.unlock();
  if (too_many) too_many_bad();
}

void BatchSource::found_whole(std::int64_t index, const ImageHeader& header) {
  if (!whole_[index].exchange(true) && header.orientation != 1) ++turned_;
}

void BatchSource::too_many_bad() const {
  const std::vector<BadSample> all = bad();
  constexpr std::size_t kNamed = 5;  // files in one line
  std::vector<std::string> first;
  for (std::size_t i = 0; i < std::min(all.size(), kNamed); ++i) first.push_back(all[i].reason);
  const std::string named = text(join(first, " | "), all.size() > first.size()
                                                         ? text(" | and ", all.size() - first.size(), " more")
                                                         : std::string());
  if (std::ssize(all) == samples_)
    fail(Fault::data, "loader: the ", split_, " split has no sample that can be decoded, of ", samples_, ": ", named,
         "; repair or replace them");
  fail(Fault::data, "loader: at least ", all.size(), " of the ", samples_, " samples of the ", split_,
       " split cannot be decoded, more than the ", most_bad_, " that max_bad allows: ", named,
       "; 'neurim data scan' names all; repair or remove them, or raise max_bad");
}

std::vector<BadSample> BatchSource::bad() const {
  const std::lock_guard lock(bad_mutex_);
  std::vector<BadSample> list;
  for (const auto& [index, reason] : bad_) list.push_back({index, reason});
  return list;
}

}  // namespace neurim
