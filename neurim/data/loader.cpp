#include "neurim/data/loader.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "neurim/base/sha256.h"
#include "neurim/data/fingerprint.h"

namespace neurim {
namespace {

constexpr std::size_t kChunkBytes =
    64 << 10;                         // of output: small pictures are taken together, large ones one by one
constexpr std::size_t kNamedBad = 5;  // files that an error lists

/// Runs `step`; what it throws becomes an Error.
template <class Step>
std::optional<Error> caught(const Step& step) {
  try {
    step();
  } catch (const Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return Error(Fault::resource, "loader: out of memory; use a smaller batch, prefetch or cache_bytes");
  } catch (const std::exception& e) {
    return Error(Fault::failure, text("loader: ", e.what()));
  }
  return {};
}

/// Names what the levels of a cache depend on.
std::string cache_key(const Dataset& dataset, Split split, Preprocess preprocess) {
  preprocess.mean = {0}, preprocess.std = {1};  // come after it
  const std::string recipe = fingerprint(dataset, split) + preprocess.json();
  Sha256 sha;
  sha.add(std::as_bytes(std::span(recipe)));
  return sha.hex() + ".cache";
}

std::unique_ptr<SampleCache> make_cache(const Dataset& dataset, Split split, const Preprocess& preprocess,
                                        bool fit_is_fixed, const LoaderOptions& options) {
  const std::int64_t samples = dataset.size(split);
  const ImageSize size = preprocess.size();
  if (options.cache == Cache::none) return nullptr;
  if (options.cache == Cache::automatic) {
    const bool resized =
        dataset.in_memory() != size || (preprocess.resize == ResizeMode::crop && preprocess.crop_pct != 1);
    const bool fits = size.bytes() <= options.cache_bytes / static_cast<std::size_t>(samples);
    return resized && fit_is_fixed && fits ? std::make_unique<SampleCache>(samples, size.bytes()) : nullptr;
  }
  // Another part of a picture each time leaves nothing to keep.
  if (!fit_is_fixed) return nullptr;
  return options.cache == Cache::ram
             ? std::make_unique<SampleCache>(samples, size.bytes())
             : std::make_unique<SampleCache>(samples, size.bytes(), cache_key(dataset, split, preprocess));
}

}  // namespace

Loader::Loader(const Dataset& dataset, Split split, const Preprocess& preprocess, const Augment& augment,
               const LoaderOptions& options)
    : dataset_(dataset),
      split_(split),
      preprocess_(preprocess),
      augment_(augment),
      options_(options),
      samples_(dataset.size(split)),
      epoch_order_(dataset, split, {.seed = options.seed,
                                    .shuffle = options.shuffle,
                                    .sampler = options.sampler,
                                    .rank = options.rank,
                                    .ranks = options.ranks}),
      seen_(static_cast<std::size_t>(dataset.size(split))) {
  require(options.batch >= 1 && options.workers >= 0 && options.prefetch >= 1, "loader: batch ",
          options.batch, ", workers ", options.workers, ", prefetch ", options.prefetch,
          "; they are at least 1, 0 and 1");
  require(options.max_bad >= 0, "loader: max_bad is ", options.max_bad, "; it is a share or a count");
  if (samples_ == 0)
    fail(Fault::data, "loader: the ", split, " split is empty; choose another split, or val_split above 0");
  const std::int64_t share = epoch_order_.size();
  batches_ = options.drop_last ? share / options.batch : (share + options.batch - 1) / options.batch;
  require(batches_ > 0, "loader: ", options.drop_last ? "drop_last leaves nothing of " : "no batch comes of ",
          share, " samples in batches of ", options.batch, "; use a smaller batch or fewer ranks");
  most_bad_ = static_cast<std::int64_t>(
      options.max_bad >= 1 ? options.max_bad : options.max_bad * static_cast<double>(samples_));
  if (options.max_bad > 0) most_bad_ = std::max<std::int64_t>(most_bad_, 1);

  const Transform transform(preprocess, augment);  // checks both
  const ImageSize size = preprocess.size();
  chunk_ = static_cast<int>(std::clamp<std::size_t>(kChunkBytes / (size.levels() * sizeof(float)), 1, 32));
  chunks_per_batch_ = (options.batch + chunk_ - 1) / chunk_;
  slots_.resize(options.workers == 0 ? 1 : static_cast<std::size_t>(options.prefetch) + 1);
  const auto batch = static_cast<std::size_t>(std::min<std::int64_t>(options.batch, share));
  for (Slot& slot : slots_) {
    slot.images.resize(batch * size.levels());
    slot.labels.resize(batch);
    slot.indices.resize(batch);
  }

  cache_ = make_cache(dataset, split, preprocess, transform.fit_is_fixed(), options);
  if (options.workers == 0) own_.reset(new Worker{Transform(preprocess, augment), {}, {}});
  try {
    for (int i = 0; i < options.workers; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    const std::size_t started = threads_.size();
    end();
    fail(Fault::resource, "loader: the system gives ", started, " of ", options.workers, " workers (",
         error.what(), "); use fewer");
  }
}

Loader::~Loader() { end(); }

void Loader::end() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_workers_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::int64_t Loader::size_of(std::int64_t batch) const {
  return std::min<std::int64_t>(options_.batch, epoch_order_.size() - batch * options_.batch);
}

void Loader::start(std::uint32_t epoch, std::int64_t first_batch) {
  require(first_batch >= 0 && first_batch <= batches_, "loader: cannot start at batch ", first_batch, " of ",
          batches_);
  std::unique_lock lock(mutex_);
  next_chunk_ = batches_ * chunks_per_batch_;  // nothing more to take
  wake_user_.wait(lock, [&] { return busy_ == 0; });
  if (static_cast<std::int64_t>(bad_.size()) > most_bad_) too_many_bad();
  epoch_ = epoch;
  epoch_order_.fill(epoch, order_);
  for (Slot& slot : slots_) slot.pending = chunks_per_batch_;
  error_.reset();
  given_ = released_ = first_batch;
  next_chunk_ = first_batch * chunks_per_batch_;
  started_ = true;
  lock.unlock();
  wake_workers_.notify_all();
}

bool Loader::next(Batch& batch) {
  std::unique_lock lock(mutex_);
  require(started_, "loader: call start(epoch) before next");
  if (error_) throw *error_;
  if (released_ < given_) {
    slot_of(released_).pending = chunks_per_batch_;
    ++released_;
    wake_workers_.notify_all();
  }
  if (given_ == batches_) return false;
  Slot& slot = slot_of(given_);
  if (own_) {
    lock.unlock();
    error_ = caught([&] {
      for (int i = 0; i < chunks_per_batch_; ++i) fill(given_ * chunks_per_batch_ + i, *own_);
    });
    lock.lock();
  } else {
    wake_user_.wait(lock, [&] { return error_ || slot.pending == 0; });
  }
  if (error_) throw *error_;
  const auto size = static_cast<std::size_t>(size_of(given_));
  batch.size = static_cast<int>(size);
  batch.images = std::span(slot.images).first(size * preprocess_.size().levels());
  batch.labels = std::span(slot.labels).first(size);
  batch.indices = std::span(slot.indices).first(size);
  ++given_;
  return true;
}

void Loader::work() {
  Worker worker{Transform(preprocess_, augment_), {}, {}};
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_workers_.wait(lock, [&] {
      const std::int64_t batch = next_chunk_ / chunks_per_batch_;
      return stop_ || (started_ && !error_ && batch < batches_ &&
                       batch < released_ + static_cast<std::int64_t>(slots_.size()));
    });
    if (stop_) return;
    const std::int64_t chunk = next_chunk_++;
    ++busy_;
    lock.unlock();
    std::optional<Error> error = caught([&] { fill(chunk, worker); });
    lock.lock();
    --busy_;
    if (error && !error_) error_ = std::move(error);
    if (--slot_of(chunk / chunks_per_batch_).pending == 0 || error_ || busy_ == 0) wake_user_.notify_one();
  }
}

void Loader::fill(std::int64_t chunk, Worker& worker) {
  const std::int64_t batch = chunk / chunks_per_batch_, begin = chunk % chunks_per_batch_ * chunk_;
  const std::int64_t end = std::min<std::int64_t>(begin + chunk_, size_of(batch));
  Slot& slot = slot_of(batch);
  for (std::int64_t i = begin; i < end; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t index = order_[static_cast<std::size_t>(batch * options_.batch + i)];
    slot.indices[at] = load(index, worker, slot.images.data() + at * preprocess_.size().levels());
    slot.labels[at] = dataset_.label(split_, slot.indices[at]);
  }
}

std::int64_t Loader::load(std::int64_t index, Worker& worker, float* out) {
  for (std::int64_t tried = 0; tried < samples_; ++tried, index = (index + 1) % samples_) {
    try {
      produce(index, worker, out);
      return index;
    } catch (const Error& e) {
      if (e.fault() != Fault::data) throw;
      remember_bad(index, text(dataset_.name(split_, index), ": ", e.what()));
    }
  }
  const std::lock_guard lock(mutex_);
  too_many_bad();
}

void Loader::produce(std::int64_t index, Worker& worker, float* out) {
  Random random(options_.seed, static_cast<std::uint64_t>(index), epoch_);
  StoredImage stored;
  std::uint32_t crc = 0;
  if (cache_ && cache_->outlives_run()) {
    stored = dataset_.read(split_, index, worker.stored);
    crc = static_cast<std::uint32_t>(
        crc32_z(0, reinterpret_cast<const Bytef*>(stored.bytes.data()), stored.bytes.size()));
  }
  const std::uint8_t* kept = cache_ ? cache_->find(index, crc) : nullptr;
  if (kept) return worker.transform.finish(kept, random, out);
  if (stored.bytes.empty()) stored = dataset_.read(split_, index, worker.stored);
  const ImageHeader& header = worker.decoder.open(stored, preprocess_.decoding());
  const Image& fitted = worker.transform.fit(worker.decoder, random);
  if (!seen_[static_cast<std::size_t>(index)].exchange(true) && header.orientation != 1) ++turned_;
  if (cache_) cache_->keep(index, crc, fitted.data());
  worker.transform.finish(fitted.data(), random, out);
}

void Loader::remember_bad(std::int64_t index, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  bad_.emplace(index, reason);
  if (static_cast<std::int64_t>(bad_.size()) > most_bad_) too_many_bad();
}

void Loader::too_many_bad() const {
  std::vector<std::string> first;
  for (const auto& [index, reason] : bad_) {
    if (first.size() == kNamedBad) break;
    first.push_back(reason);
  }
  fail(Fault::data, "loader: ", bad_.size(), " of the ", samples_, " samples of the ", split_,
       " split cannot be decoded, more than the ", most_bad_, " that max_bad allows: ", join(first, " | "),
       bad_.size() > first.size() ? " | …" : "", "; repair or remove them, or raise max_bad");
}

std::vector<BadSample> Loader::bad() const {
  const std::lock_guard lock(mutex_);
  std::vector<BadSample> list;
  for (const auto& [index, reason] : bad_) list.push_back({index, reason});
  return list;
}

}  // namespace neurim
