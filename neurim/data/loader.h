// Threads that turn samples into batches ahead of their use.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/data/batch_source.h"
#include "neurim/data/transform.h"

namespace neurim {

/// Our own source of batches. Pixels too are a function of (seed, epoch, place in the epoch) alone.
class Loader : public BatchSource {
 public:
  /// Throws as BatchSource and Transform do.
  Loader(const Dataset& dataset, Split split, const Preprocess& preprocess, const Augment& augment = {},
         const LoaderOptions& options = {});
  ~Loader() override;

  bool next(Batch& batch) override;

 private:
  void halt() override;
  void begin(std::int64_t first_batch) override;
  void end();
  /// Throws Error(usage) in a process that has been forked off since: the workers are in its parent.
  void check_process() const;
  /// What one thread needs.
  struct Worker {
    Transform transform;
    Decoder decoder;
    std::vector<std::byte> stored;
  };
  /// A batch in preparation: filled when no chunk of it is pending.
  struct Slot : Filling {
    int pending = 0;
  };

  Slot& slot_of(std::int64_t batch) { return slots_[static_cast<std::size_t>(batch) % slots_.size()]; }
  void work();
  void fill(std::int64_t chunk, Worker& worker);
  void produce(std::int64_t index, Random random, Worker& worker, float* out);

  int chunk_ = 1, chunks_per_batch_ = 1;  // workers take samples by the chunk
  std::vector<Slot> slots_;
  std::unique_ptr<SampleCache> cache_;  // null: nothing is kept

  /// The workers and what they wait for.
  struct Threads {
    std::mutex mutex;  ///< guards what follows in Loader, and Slot::pending
    std::condition_variable wake_workers, wake_user;
    std::vector<std::thread> workers;
  };
  std::unique_ptr<Threads> threads_ = std::make_unique<Threads>();
  const unsigned forks_;  // before there were workers

  std::int64_t next_chunk_ = 0;  // the next one to take, counted from the first batch of the epoch
  std::int64_t given_ = 0;       // batches that next has handed out or passed over
  std::int64_t released_ = 0;    // batches whose slots are free again
  int busy_ = 0;
  bool started_ = false, stop_ = false;
  std::optional<Error> error_;

  std::unique_ptr<Worker> own_;  // of the calling thread, where there are no workers
};

}  // namespace neurim
