#include "neurim/data/loader.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "neurim/base/fork.h"
#include "neurim/base/sha256.h"
#include "neurim/data/fingerprint.h"

namespace neurim {
namespace {

constexpr std::size_t kChunkBytes = 64 << 10;  // of output: small images are taken together, large ones one by one

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

/// Names what the values of a cache depend on.
std::string cache_key(const Dataset& dataset, Split split, Preprocess preprocess) {
  preprocess.mean = {0}, preprocess.std = {1};  // come after it
  const std::string recipe = file_fingerprint(dataset, split) + preprocess.json();
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
    const bool resized = dataset.in_memory() != size ||
                         (preprocess.resize == ResizeMode::crop && preprocess.crop_pct != 1);
    const bool fits = size.bytes() <= options.cache_bytes / static_cast<std::size_t>(samples);
    return resized && fit_is_fixed && fits ? std::make_unique<SampleCache>(samples, size.bytes()) : nullptr;
  }
  // Another part of an image each time leaves nothing to keep.
  if (!fit_is_fixed) return nullptr;
  return options.cache == Cache::ram
             ? std::make_unique<SampleCache>(samples, size.bytes())
             : std::make_unique<SampleCache>(samples, size.bytes(), cache_key(dataset, split, preprocess));
}

}  // namespace

Loader::Loader(const Dataset& dataset, Split split, const Preprocess& preprocess, const Augment& augment,
               const LoaderOptions& options)
    : BatchSource(dataset, split, preprocess, augment, options), forks_(forks()) {
  const Transform transform(preprocess, augment);
  const ImageSize size = preprocess.size();
  chunk_ = static_cast<int>(std::clamp<std::size_t>(kChunkBytes / (size.values() * sizeof(float)), 1, 32));
  chunks_per_batch_ = (options.batch + chunk_ - 1) / chunk_;
  slots_.resize(options.workers == 0 ? 1 : static_cast<std::size_t>(options.prefetch) + 1);
  for (Slot& slot : slots_) make_room(slot, size_of(0));

  cache_ = make_cache(dataset, split, preprocess, transform.fit_is_fixed(), options);
  if (options.workers == 0) own_.reset(new Worker{Transform(preprocess, augment), {}, {}});
  try {
    for (int i = 0; i < options.workers; ++i) threads_->workers.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    const std::size_t started = threads_->workers.size();
    end();
    fail(Fault::resource, "loader: the system gives ", started, " of ", options.workers, " workers (", error.what(),
         "); use fewer");
  }
}

Loader::~Loader() { end(); }

void Loader::check_process() const {
  require(threads_->workers.empty() || forks_ == forks(),
          "loader: its workers are in the process that this one was forked off; "
          "make the loader after the fork, or give it workers=0");
}

void Loader::end() {
  if (forks_ != forks()) {
    (void)threads_.release();  // to destroy what threads wait for would wait for them
    return;
  }
  {
    const std::lock_guard lock(threads_->mutex);
    stop_ = true;
  }
  threads_->wake_workers.notify_all();
  for (std::thread& thread : threads_->workers) thread.join();
}

void Loader::halt() {
  check_process();
  std::unique_lock lock(threads_->mutex);
  next_chunk_ = batches() * chunks_per_batch_;  // nothing more to take
  threads_->wake_user.wait(lock, [&] { return busy_ == 0; });
}

void Loader::begin(std::int64_t first_batch) {
  {
    const std::lock_guard lock(threads_->mutex);
    for (Slot& slot : slots_) slot.pending = chunks_per_batch_;
    error_.reset();
    given_ = released_ = first_batch;
    next_chunk_ = first_batch * chunks_per_batch_;
    started_ = true;
  }
  threads_->wake_workers.notify_all();
}

bool Loader::next(Batch& batch) {
  check_process();
  std::unique_lock lock(threads_->mutex);
  require(started_, "loader: call start(epoch) before next");
  if (error_) throw *error_;
  if (released_ < given_) {
    slot_of(released_).pending = chunks_per_batch_;
    ++released_;
    threads_->wake_workers.notify_all();
  }
  if (given_ == batches()) return false;
  Slot& slot = slot_of(given_);
  if (own_) {
    lock.unlock();
    error_ = caught([&] {
      for (int i = 0; i < chunks_per_batch_; ++i) fill(given_ * chunks_per_batch_ + i, *own_);
    });
    lock.lock();
  } else {
    threads_->wake_user.wait(lock, [&] { return error_ || slot.pending == 0; });
  }
  if (error_) throw *error_;
  batch = view(slot, size_of(given_));
  ++given_;
  return true;
}

void Loader::work() {
  Worker worker{Transform(preprocess_, augment_), {}, {}};
  std::unique_lock lock(threads_->mutex);
  for (;;) {
    threads_->wake_workers.wait(lock, [&] {
      const std::int64_t batch = next_chunk_ / chunks_per_batch_;
      return stop_ ||
             (started_ && !error_ && batch < batches() && batch < released_ + static_cast<std::int64_t>(slots_.size()));
    });
    if (stop_) return;
    const std::int64_t chunk = next_chunk_++;
    ++busy_;
    lock.unlock();
    std::optional<Error> error = caught([&] { fill(chunk, worker); });
    lock.lock();
    --busy_;
    if (error && !error_) error_ = std::move(error);
    if (--slot_of(chunk / chunks_per_batch_).pending == 0 || error_ || busy_ == 0) threads_->wake_user.notify_one();
  }
}

void Loader::fill(std::int64_t chunk, Worker& worker) {
  const std::int64_t batch = chunk / chunks_per_batch_, begin = chunk % chunks_per_batch_ * chunk_;
  const std::int64_t end = std::min<std::int64_t>(begin + chunk_, size_of(batch));
  Slot& slot = slot_of(batch);
  for (std::int64_t i = begin; i < end; ++i) {
    const auto at = static_cast<std::size_t>(i);
    float* out = slot.images.data() + at * preprocess_.size().values();
    slot.indices[at] = first_good(sample_at(batch, i),
                                  [&](std::int64_t index) { produce(index, random_of(index, batch, i), worker, out); });
    put_labels(slot, at);
  }
}

void Loader::produce(std::int64_t index, Random random, Worker& worker, float* out) {
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
  if (!known_whole(index)) worker.decoder.check_rest();
  found_whole(index, header);
  if (cache_) cache_->keep(index, crc, fitted.data());
  worker.transform.finish(fitted.data(), random, out);
}

}  // namespace neurim
