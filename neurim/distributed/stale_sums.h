// Sums over ranks that may run ahead of each other by a bounded number of steps.
#pragma once
#include <deque>
#include <optional>
#include <vector>

#include "neurim/distributed/async_group.h"

namespace neurim {

/// Stale-synchronous parallel (Ho et al., "More effective distributed ML via a stale synchronous parallel parameter
/// server", NIPS'13): each rank has a clock, which ticks with every put. The sums of a clock are known when all ranks
/// have put for it. A rank at clock c has taken all sums of clocks below c - bound before it goes on; with a bound of 0
/// that is what all ranks do at once.
class StaleSums {
 public:
  /// `bound` is not negative. All ranks have the same.
  StaleSums(std::shared_ptr<ProcessGroup> group, std::int64_t bound) : bound_(bound), group_(std::move(group)) {}

  std::int64_t clock() const { return clock_; }  ///< puts of this rank
  std::int64_t taken() const { return taken_; }  ///< clocks whose sums this rank has taken
  double waited() const { return waited_; }      ///< seconds for sums that were due
  std::int64_t bound() const { return bound_; }  ///< of their difference where a rank goes on

  /// Gives this rank's numbers for its clock, which ticks. All ranks give equally many. What is due is taken before.
  void put(std::vector<float> values);
  /// The sums of the next clock in order: waits for them where the bound asks for it or `all`; nothing where they need
  /// not be taken yet. Throws Error(failure) where a rank is lost.
  std::optional<std::vector<float>> take(bool all = false);

 private:
  struct OnItsWay {
    std::unique_ptr<std::vector<float>> values;
    AsyncGroup::Work work;
  };
  const std::int64_t bound_;
  std::int64_t clock_ = 0, taken_ = 0;
  double waited_ = 0;
  std::deque<OnItsWay> sums_;
  AsyncGroup group_;  // last: its thread writes into the sums
};

}  // namespace neurim
