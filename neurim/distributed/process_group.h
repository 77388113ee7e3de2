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

class FlightRecorder;

inline constexpr std::size_t kSentWhole = 1 << 14;  ///< bytes up to which a sum sends all numbers to each rank

/// How numbers of several ranks become one.
enum class Reduction : std::uint8_t { sum, min, max, product };

/// Where the parts of `count` numbers begin and end, one for each of so many ranks: size + 1 offsets.
std::vector<std::size_t> even_bounds(std::size_t count, int size);

/// In which order so many parts are combined: pairs (into, other), after which the first has all. Halves are combined
/// as long as their number is even, then one after the other: parts that are spread over ranks, part p at rank p mod R,
/// come to the same bits whether they are combined at once or first at each rank and then over the ranks.
std::vector<std::pair<std::size_t, std::size_t>> combine_order(std::size_t parts);

/// The processes of a job. Each calls the same operations in the same order, with the same sizes. Where a rank is lost,
/// is silent for longer than Place::timeout, or calls another operation, all others throw Error(failure), which names
/// the rank, its host and the operation. One thread at a time, or one that calls send alone and another that calls
/// receive alone; AsyncGroup takes operations in the background.
///
/// Numbers of ranks are combined in the order of combine_order, whatever carries them: the same numbers give the same
/// bits each time.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int rank() const = 0;             ///< of this process
  virtual int size() const = 0;             ///< of the group
  virtual std::string backend() const = 0;  ///< "self", "tcp", "mpi", "nccl"

  /// Each number becomes the reduction of those of all ranks, in place and the same bits everywhere. `sent`: f32, or
  /// bf16 or f16, to which numbers are rounded on their way; sums are of f32.
  virtual void all_reduce(std::span<float> values, Reduction reduction = Reduction::sum, DType sent = DType::f32) = 0;
  /// The same of f64.
  virtual void all_reduce(std::span<double> values, Reduction reduction = Reduction::sum) = 0;
  /// Of the numbers from bounds[rank] to bounds[rank + 1] this rank gets the sum; what the others are then is not
  /// defined. See even_bounds.
  virtual void reduce_scatter(std::span<float> values, std::span<const std::size_t> bounds,
                              DType sent = DType::f32) = 0;
  /// The numbers from bounds[r] to bounds[r + 1] of each rank r come to all.
  virtual void all_gather(std::span<float> values, std::span<const std::size_t> bounds, DType sent = DType::f32) = 0;
  /// The bytes of all ranks, in their order; they may be of different lengths.
  virtual std::vector<std::string> all_gather(std::string_view bytes) = 0;
  /// The bytes of `root` come to all.
  virtual void broadcast(std::span<std::byte> bytes, int root = 0) = 0;
  /// bytes[r] goes to rank r; what each has for this rank comes back, in their order. Lengths may differ.
  virtual std::vector<std::string> all_to_all(const std::vector<std::string>& bytes) = 0;
  /// From one rank to another, which calls receive with as many bytes. Returns when they are on their way.
  virtual void send(std::span<const std::byte> bytes, int to) = 0;
  /// What the other rank sends to this one.
  virtual void receive(std::span<std::byte> bytes, int from) = 0;
  /// Tells all others why this rank ends, so that they need not wait for it.
  virtual void abandon(const std::string& /*why*/) {}
  /// Whether duplicates can be used in other threads. All ranks have the same answer.
  virtual bool many_threads() const { return true; }
  /// The same ranks as another group, whose operations go beside those of this one, in another thread. An operation of
  /// all ranks.
  virtual std::shared_ptr<ProcessGroup> duplicate() = 0;
  /// Those of these ranks as a group, in this order. An operation of all ranks, each of which names the ranks of the
  /// part that it is in.
  virtual std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>& ranks) = 0;
  /// What notes the operations; null: nothing does.
  virtual std::shared_ptr<FlightRecorder> recorder() const { return nullptr; }
  /// The last operations, as FlightRecorder::csv has them; "": they are not recorded.
  virtual std::string last_operations() const { return ""; }
  /// The time that operations have taken so far, seconds: of the thread that has made the group, which has waited for
  /// them.
  virtual double seconds_in_operations() const { return 0; }
  /// The same of other threads, in duplicates and parts of the group too.
  virtual double seconds_behind() const { return 0; }
  /// The operation that is under way in another thread, and since when; "": none.
  virtual std::string under_way(double& /*seconds*/) const { return ""; }
  /// Returns when all ranks have called it.
  void barrier() { all_gather(std::string_view()); }
};

/// The group of one process.
std::shared_ptr<ProcessGroup> self_group();

/// Meets the other processes of the job by the backend that the place names, or the group of one. Throws Error(failure)
/// where they do not come in time, or one has another secret or another size.
std::shared_ptr<ProcessGroup> join_job(const Place& place);

}  // namespace neurim
