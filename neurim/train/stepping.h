// How batches become steps of the optimizer, in one process or in several.
#pragma once
#include <functional>
#include <optional>

#include "neurim/graph/trace.h"
#include "neurim/train/train_options.h"
#include "neurim/train/training_task.h"

namespace neurim {

/// A batch that is to be trained on: the one that the task has loaded.
struct StepRequest {
  std::int64_t step = 0;  ///< of the run, from 0 on
  double lr = 0;
  bool steps = true;  ///< false: gradients are added up for a step to come
  bool stop = false;  ///< this process asks to end the run
};

/// What steps came to over the samples of all ranks.
struct StepSums {
  double loss = 0, metric = 0, samples = 0;  ///< sums over the samples: of the loss, and of the task's train_metric
  bool stop = false;                         ///< a rank asks to end the run
};

/// What steps are made of; it outlives them.
struct StepParts {
  const TrainOptions& options;
  const Job& job;
  TrainingTask& task;
  const Model& model;
  Optimizer& optimizer;
  Tensor random;  ///< the key of random ops
  PlanOptions plans;
  std::function<void(const std::string& line)> tell;  ///< prints a line for the user
};

/// The sums of all ranks.
StepSums summed(const StepSums& own, const Job& job);

/// The network with its loss, for inputs of these types, without a step.
Graph forward_graph(const StepParts& of, const Types& types);

/// A step with the gradients that were added up, where there are no samples to add.
class FollowPlan {
 public:
  FollowPlan(Optimizer& optimizer, const PlanOptions& plans, std::size_t last_part = 0);
  void run(const Job& job, std::int64_t step);                           ///< of the run
  std::size_t instance_bytes() const { return plan_.instance_bytes(); }  ///< of its plan

 private:
  Compiled plan_;
};

/// Calls what runs a plan of step `step`. Where other ranks are lost in it, the error is theirs.
void guarded_step(const Job& job, std::int64_t step, const std::function<void()>& call);

/// Makes steps. Errors of other ranks name the rank, the operation and the step.
class Stepping {
 public:
  virtual ~Stepping() = default;
  /// Trains on a batch. What is known then: its sums; with bounded staleness those of earlier batches, or none yet.
  virtual std::vector<StepSums> run(const StepRequest& request) = 0;
  /// Ends what is still on its way, so that all ranks have the same weights. Its sums.
  virtual std::vector<StepSums> finish() { return {}; }
  /// Whether the run can end here, if a rank has asked for it: all ranks say the same after the same batch.
  virtual bool can_stop() const { return true; }
  /// Rank 0 has the optimizer's whole state between the two, to save it. All ranks call them.
  virtual void gather_state() {}
  virtual void spread_state() {}
  /// The memory that steps take beside weights and the optimizer's state: of plans, and of what waits between them.
  /// Known once there were steps.
  virtual std::size_t planned_bytes() const = 0;
  /// Seconds that this thread has waited for what others do in the background.
  virtual double waited() const { return 0; }
  /// With bounded staleness: what ranks have read since it was last asked for, a line each as in kReads. All ranks call
  /// it.
  virtual std::string reads() { return ""; }
};

/// The columns of Stepping::reads: at which clock a rank has read weights, how many clocks' sums of all ranks they had,
/// and how many later steps of its own.
inline constexpr const char* kReads = "rank,clock,known,own\n";

/// As the options say: see ParallelOptions::sync.
std::unique_ptr<Stepping> stepping_of(const StepParts& parts);

}  // namespace neurim
