// What operations of a group cost, measured.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "neurim/distributed/process_group.h"

namespace neurim {

/// What a sum of so many bytes over all ranks took.
struct GroupCost {
  std::size_t bytes = 0;
  double seconds = 0;          ///< the median over the repetitions, each of them that of the slowest rank
  double least = 0, most = 0;  ///< of the repetitions
  int repetitions = 0;

  /// Bytes a second that the caller sees: those of its numbers by the time.
  double bandwidth() const { return static_cast<double>(bytes) / seconds; }
  /// Bytes a second on each rank's link: 2 (n - 1) / n times that.
  double link_bandwidth(int ranks) const { return bandwidth() * 2 * (ranks - 1) / ranks; }
};

/// A link as costs tell it: the time of a message is latency + bytes / bandwidth.
struct LinkCosts {
  double latency = 0;    ///< seconds
  double bandwidth = 0;  ///< bytes a second
};

/// Sums f32 numbers of so many bytes over the ranks, for so many seconds a size. All ranks call it and get the same.
std::vector<GroupCost> measured_sums(ProcessGroup& group, std::span<const std::size_t> sizes, double seconds);

/// The link that explains the costs of sums in which each rank sends 2 (n - 1) messages of an n-th, or n - 1 whole ones
/// of up to kSentWhole bytes: the one with the smallest sum of squares of relative errors. None where no link does.
std::optional<LinkCosts> fitted_link(std::span<const GroupCost> costs, int ranks);

}  // namespace neurim
