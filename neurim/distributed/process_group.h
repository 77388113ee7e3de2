// Processes that compute together: what they send each other. docs/guides/distributed.md
#pragma once
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "neurim/core/types.h"
#include "neurim/distributed/place.h"

namespace neurim {

/// How numbers of several ranks become one.
enum class Reduction : std::uint8_t { sum, min, max };

/// The processes of a job. Each calls the same operations in the same order, with the same sizes. Where a rank is lost,
/// is silent for longer than Place::timeout, or calls another operation, all others throw Error(failure), which names
/// the rank, its host and the operation. One thread at a time.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int rank() const = 0;  ///< of this process
  virtual int size() const = 0;  ///< of the group

  /// Each number becomes the reduction of those of all ranks, in place and the same bits everywhere. The order of
  /// additions is fixed, so that the same numbers give the same bits each time.
  virtual void all_reduce(std::span<float> values, Reduction reduction = Reduction::sum) = 0;
  /// The same of f64.
  virtual void all_reduce(std::span<double> values, Reduction reduction = Reduction::sum) = 0;
  /// The bytes of `root` come to all.
  virtual void broadcast(std::span<std::byte> bytes, int root = 0) = 0;
  /// The bytes of all ranks, in their order; they may be of different lengths.
  virtual std::vector<std::string> all_gather(std::string_view bytes) = 0;
  /// Returns when all ranks have called it.
  void barrier() { all_gather(""); }
};

/// The group of one process.
std::shared_ptr<ProcessGroup> self_group();

/// Meets the other processes of the job: "ring" over TCP, or the group of one. Throws Error(failure) where they do not
/// come in time, or one has another secret or another size.
std::shared_ptr<ProcessGroup> join_job(const Place& place);

}  // namespace neurim
