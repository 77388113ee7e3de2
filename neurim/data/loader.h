// Threads that turn samples into batches ahead of their use.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/data/dataset.h"
#include "neurim/data/order.h"
#include "neurim/data/sample_cache.h"
#include "neurim/data/transform.h"

namespace neurim {

struct LoaderOptions {
  int batch = 32;    ///< samples
  int workers = 2;   ///< threads; 0 works in the thread that calls next
  int prefetch = 2;  ///< batches in preparation beside the one in use; bounds the memory
  std::uint64_t seed = 42;  ///< of the order and of augmentation
  bool shuffle = false;
  Sampler sampler = Sampler::each;
  int rank = 0, ranks = 1;               ///< which share of an epoch this loader has; see Order
  bool drop_last = false;                ///< leave out a last batch that is not full
  /// Where resized pictures are kept, when they are the same in every epoch (no random_resized_crop).
  Cache cache = Cache::automatic;
  std::size_t cache_bytes = 1ull << 30;  ///< the most that Cache::automatic takes
  /// How many samples may be undecodable before loading stops: below 1 a share of the split (but at least one
  /// sample, unless it is 0), from 1 on a count.
  double max_bad = 0.01;
};

/// Samples made ready. The spans live until the next call of next or start.
struct Batch {
  std::span<float> images;          ///< (size, channels, height, width)
  std::span<std::int64_t> labels;   ///< (size); empty of a multi-label set
  std::span<float> targets;  ///< (size, classes), 1 where a sample has the class; of a multi-label set only
  std::span<std::int64_t> indices;  ///< (size): which sample of the split each one is
  int size = 0;
};

/// A sample that could not be decoded.
struct BadSample {
  std::int64_t index = 0;
  std::string reason;  ///< names the file
};

/// Batches of one split, epoch by epoch. Order and pixels are a function of (seed, epoch, index) alone:
/// neither the number of workers nor what was loaded before has an influence, so training resumes anywhere at
/// no cost.
///
/// A sample that cannot be decoded is replaced by the next good one of the split (Batch::indices then holds
/// the index of the replacement, so a count over a whole split can leave out what it has seen) and remembered
/// in bad().
class Loader {
 public:
  Loader(const Dataset& dataset, Split split, const Preprocess& preprocess, const Augment& augment = {},
         const LoaderOptions& options = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Begins an epoch at a batch; what is left of the one before is dropped.
  void start(std::uint32_t epoch, std::int64_t first_batch = 0);

  /// The next batch, or false at the end of the epoch. Throws Error(data) when more than max_bad samples are
  /// bad, and whatever else went wrong in a worker.
  bool next(Batch& batch);

  std::int64_t batches() const { return batches_; }  ///< of an epoch
  std::vector<BadSample> bad() const;                ///< in the order of their indices
  std::int64_t turned() const { return turned_; }    ///< samples seen so far that EXIF turned

 private:
  void end();
  /// What one thread needs.
  struct Worker {
    Transform transform;
    Decoder decoder;
    std::vector<std::byte> stored;
  };
  /// A batch in preparation: filled when no chunk of it is pending.
  struct Slot {
    std::vector<float> images, targets;
    std::vector<std::int64_t> labels, indices;
    int pending = 0;
  };

  Slot& slot_of(std::int64_t batch) { return slots_[static_cast<std::size_t>(batch) % slots_.size()]; }
  std::int64_t size_of(std::int64_t batch) const;
  void work();
  void fill(std::int64_t chunk, Worker& worker);
  std::int64_t load(std::int64_t index, Worker& worker, float* out);
  void produce(std::int64_t index, Worker& worker, float* out);
  void remember_bad(std::int64_t index, const std::string& reason);
  [[noreturn]] void too_many_bad() const;

  const Dataset dataset_;
  const Split split_;
  const Preprocess preprocess_;
  const Augment augment_;
  const LoaderOptions options_;
  const std::int64_t samples_;   // of the split
  const std::size_t targets_;    // of a sample: the classes of a multi-label set
  Order epoch_order_;
  std::int64_t batches_ = 0, most_bad_ = 0;
  int chunk_ = 1, chunks_per_batch_ = 1;  // workers take samples by the chunk
  std::vector<std::int64_t> order_;       // of the samples in this epoch
  std::vector<Slot> slots_;
  std::vector<std::atomic<bool>> seen_;  // of each sample: it was decoded once, so counted in turned_
  std::unique_ptr<SampleCache> cache_;   // null: nothing is kept
  std::atomic<std::int64_t> turned_{0};
  std::uint32_t epoch_ = 0;

  mutable std::mutex mutex_;  // guards what follows, and Slot::pending
  std::condition_variable wake_workers_, wake_user_;
  std::int64_t next_chunk_ = 0;  // the next one to take, counted from the first batch of the epoch
  std::int64_t given_ = 0;       // batches that next has handed out or passed over
  std::int64_t released_ = 0;    // batches whose slots are free again
  int busy_ = 0;
  bool started_ = false, stop_ = false;
  std::optional<Error> error_;
  std::map<std::int64_t, std::string> bad_;

  std::unique_ptr<Worker> own_;  // of the calling thread, where there are no workers
  std::vector<std::thread> threads_;
};

}  // namespace neurim
