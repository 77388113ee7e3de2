// How well processes have shared a training.
#pragma once
#include <string>
#include <vector>

#include "neurim/base/json.h"
#include "neurim/train/job.h"

namespace neurim {

/// Where this rank's time of training went, seconds.
struct RankTimes {
  double all = 0;      ///< of training
  double spoken = 0;   ///< in operations with other ranks
  double waited = 0;   ///< for operations in other threads
  double behind = 0;   ///< that operations in other threads took
  double samples = 0;  ///< of all ranks

  RankTimes operator+(const RankTimes& other) const;
  RankTimes operator-(const RankTimes& other) const;
};

/// The memory of this rank's process, MiB; 0: it has other ranks too.
struct RankMemory {
  double planned = 0;  ///< before steps, with what their plans take
  double most = 0;     ///< that it had when steps were done
};

/// Where the time of each rank went.
struct ScalingReport {
  double seconds = 0;                 ///< of training, on the slowest rank
  double samples = 0;                 ///< of all ranks
  std::vector<double> communication;  ///< seconds in operations with other ranks, and waiting for them, by ranks
  std::vector<double> computing;      ///< the others
  std::vector<RankMemory> memory;     ///< of the ranks
  double beside = 0;                  ///< of the time of operations in other threads the share that no rank waited for
  std::vector<std::string> hosts;

  double samples_per_second() const;
  double share_of_communication() const;  ///< the mean over the ranks
  /// The time that ranks compute over all of it: what N processes give in place of N times one.
  double efficiency() const { return 1 - share_of_communication(); }
  std::size_t slowest() const;  ///< the rank that computes longest
  double imbalance() const;     ///< its computing over the median's

  std::string line() const;  ///< for people
  JsonObject event() const;  ///< for programs
};

/// Collects the times and memory of all ranks, each of which calls it.
ScalingReport scaling_of(const Job& job, const RankTimes& own, const RankMemory& memory);

}  // namespace neurim
