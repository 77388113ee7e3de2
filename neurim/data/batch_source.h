// What training and validation ask for: the batches of an epoch, one after the other.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/data/augment.h"
#include "neurim/data/dataset.h"
#include "neurim/data/order.h"
#include "neurim/data/preprocess.h"
#include "neurim/data/sample_cache.h"

namespace neurim {

/// How many of so many samples may be unreadable: max_bad is a share below 1, else a count; a share above 0 allows one
/// at least.
std::int64_t most_bad(double max_bad, std::int64_t samples);

/// How samples become batches.
struct LoaderOptions {
  int batch = 32;                   ///< samples
  int workers = 2;                  ///< threads; 0 works in the thread that calls next
  int prefetch = 2;                 ///< batches in preparation beside the one in use; bounds the memory
  std::uint64_t seed = 42;          ///< of the order and of augmentation
  bool shuffle = false;             ///< a random order in each epoch
  Sampler sampler = Sampler::each;  ///< which samples make up an epoch
  int rank = 0,                     ///< which share of an epoch this loader has; see Order
      ranks = 1;                    ///< into how many shares an epoch is cut
  bool drop_last = false;           ///< leave out a last batch that is not full
  /// Where resized images are kept, when they are the same in every epoch (no random_resized_crop).
  Cache cache = Cache::automatic;
  std::size_t cache_bytes = 1ull << 30;  ///< the most that Cache::automatic takes
  /// How many samples may be undecodable before loading stops: below 1 a share of the samples of all splits (but at
  /// least one sample, unless it is 0), from 1 on a count.
  double max_bad = 0.01;
};

/// Samples made ready. The spans live until the next call of next or start.
struct Batch {
  std::span<float> images;         ///< (size, channels, height, width)
  std::span<std::int64_t> labels;  ///< (size); empty where there are targets
  /// Of a multi-label set (size, classes), 1 where a sample has the class; of numbers (size, targets); else empty.
  std::span<float> targets;
  std::span<std::int64_t> indices;  ///< (size): which sample of the split each one is
  /// Samples; fewer in the last batch of an epoch, unless drop_last, and none where all of them are other ranks'.
  int size = 0;
};

/// A sample that could not be decoded.
struct BadSample {
  std::int64_t index = 0;  ///< in the split
  std::string reason;      ///< names the file
};

/// Batches of one split, epoch by epoch. Order, labels and random choices are a function of (seed, epoch,
/// place in the epoch) alone: neither the number of workers nor what was loaded before has an influence, so training
/// resumes anywhere at no cost.
///
/// A sample that cannot be decoded is replaced by the next good one of the split (Batch::indices then holds
/// the index of the replacement, so a count over a whole split can leave out what it has seen) and remembered
/// in bad().
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;

  /// Begins an epoch at a batch; what is left of the one before is dropped.
  void start(std::uint32_t epoch, std::int64_t first_batch = 0);

  /// The next batch, or false at the end of the epoch. Throws Error(data) when more than max_bad samples are
  /// bad, and whatever else went wrong in a worker.
  virtual bool next(Batch& batch) = 0;

  std::int64_t batches() const { return batches_; }    ///< of an epoch
  std::vector<BadSample> bad() const;                  ///< in the order of their indices
  std::int64_t most_bad() const { return most_bad_; }  ///< how many max_bad allows
  std::int64_t turned() const { return turned_; }      ///< samples seen so far that EXIF turned

 protected:
  /// Throws Error(usage) on an option out of its range, Error(data) where the split is empty.
  BatchSource(const Dataset& dataset, Split split, const Preprocess& preprocess, const Augment& augment,
              const LoaderOptions& options);

  /// The memory of a batch.
  struct Filling {
    std::vector<float> images,         ///< as Batch::images
        targets;                       ///< as Batch::targets
    std::vector<std::int64_t> labels,  ///< as Batch::labels
        indices;                       ///< as Batch::indices
  };
  void make_room(Filling& filling, std::int64_t size) const;  ///< for `size` samples
  /// Writes the label or the targets of the sample indices[at].
  void put_labels(Filling& filling, std::size_t at) const;
  /// The first `size` samples.
  Batch view(Filling& filling, std::int64_t size) const;

  virtual void halt() = 0;                           ///< ends all work on the epoch before
  virtual void begin(std::int64_t first_batch) = 0;  ///< begins work on the epoch that is set up now
  std::int64_t size_of(std::int64_t batch) const;    ///< samples of a batch of this epoch
  /// The sample at a place of a batch in this epoch, before any replacement.
  std::int64_t sample_at(std::int64_t batch, std::int64_t place) const {
    return order_[batch * options_.batch + place];
  }
  /// Calls `produce` with the sample, then with the next ones for as long as it throws Error(data), and
  /// returns the one that it took. For any thread.
  template <class Produce>
  std::int64_t first_good(std::int64_t index, const Produce& produce) {
    for (std::int64_t tried = 0; tried < samples_; ++tried, index = (index + 1) % samples_) try {
        produce(index);
        return index;
      } catch (const Error& error) {
        if (error.fault() != Fault::data) throw;
        remember_bad(index, error.what());
      }
    too_many_bad();
  }
  /// Whether a sample was found whole before. What was not is looked at as a whole wherever only a part of it is
  /// used, so that a damaged one is refused by every part and in every epoch. For any thread.
  bool known_whole(std::int64_t index) const { return whole_[index]; }
  /// Remembers that a sample is whole, and counts it in turned(), once. For any thread.
  void found_whole(std::int64_t index, const ImageHeader& header);
  /// What the random choices for a sample come from at a place of a batch in this epoch. One that comes again in
  /// the epoch gets others, so that it is not the same image.
  Random random_of(std::int64_t index, std::int64_t batch, std::int64_t place) const {
    constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15;  // is odd, so that the seeds of all repeats differ
    const std::vector<std::int64_t>& repeats = epoch_order_.repeats();
    const std::int64_t again = repeats.empty() ? 0 : repeats[batch * options_.batch + place];
    return Random(options_.seed + static_cast<std::uint64_t>(again) * kStep, static_cast<std::uint64_t>(index), epoch_);
  }

  const Dataset dataset_;        ///< what samples come from
  const Split split_;            ///< of the data set
  const Preprocess preprocess_;  ///< how images reach the model
  const Augment augment_;        ///< random changes of them
  const LoaderOptions options_;  ///< as constructed
  const std::int64_t samples_;   ///< of the split
  const std::size_t targets_;    ///< of a sample: the classes of a multi-label set, its numbers, else 0

 private:
  void remember_bad(std::int64_t index, std::string_view reason);
  [[noreturn]] void too_many_bad() const;

  Order epoch_order_;
  std::vector<std::int64_t> order_;  // of the samples in this epoch
  std::int64_t batches_ = 0, most_bad_ = 0;
  std::vector<std::atomic<bool>> whole_;  // of each sample: it was found whole, so counted in turned_
  std::atomic<std::int64_t> turned_{0};
  std::uint32_t epoch_ = 0;

  mutable std::mutex bad_mutex_;
  std::map<std::int64_t, std::string> bad_;
};

}  // namespace neurim
