// States of a model, such as a batch norm's statistics, where batches are taken in parts.
#pragma once
#include "neurim/train/job.h"

namespace neurim {

/// Each part of a batch begins with the states from before the batch; those after it are the means over all parts, on
/// whichever rank they are. So they do not depend on how parts are spread over ranks.
class PartStates {
 public:
  explicit PartStates(const Model& model);  ///< of all its f32 states
  void begin();                             ///< a batch
  void end_part();                          ///< after each part that has samples
  /// After the last part of this rank, which has so many of them; each rank calls it.
  void finish(const Job& job, std::size_t parts);

 private:
  Tensors states_;
  std::vector<std::vector<float>> before_;
  std::vector<std::vector<float>> of_parts_;  // the states of each part, one after the other
};

}  // namespace neurim
