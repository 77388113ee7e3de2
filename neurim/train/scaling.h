// How well processes have shared a training.
#pragma once
#include <string>
#include <vector>

#include "neurim/base/json.h"
#include "neurim/train/job.h"

namespace neurim {

/// Where the time of each rank went.
struct ScalingReport {
  double seconds = 0;                 ///< of training, on the slowest rank
  double samples = 0;                 ///< of all ranks
  std::vector<double> communication;  ///< seconds in operations with other ranks, and waiting for them, by ranks
  std::vector<double> computing;      ///< the others
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

/// Collects this rank's seconds of training, and those of them that went to operations. All ranks call it.
ScalingReport scaling_of(const Job& job, double seconds, double communication, double samples);

}  // namespace neurim
