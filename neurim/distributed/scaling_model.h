// Predicts how a training scales over many devices. The formulas and their check: docs/guides/scaling.md
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "neurim/distributed/machines.h"

namespace neurim {

/// How ranks sum numbers.
enum class SumAlgorithm : std::uint8_t { none, ring, tree };
std::string_view name(SumAlgorithm algorithm);  ///< "none", "ring", "tree"

/// Ranks that sum numbers, and the links between them. Ranks of a node are neighbours.
struct RankGroup {
  std::int64_t ranks = 1, nodes = 1;  ///< ranks in all; nodes that they are on
  LinkCosts link;                     ///< of a rank to another one of its node
  LinkCosts network;                  ///< of the group's ranks of a node, together, to another node
};

/// The time of a sum.
struct SumCost {
  double seconds = 0;                           ///< of one sum
  SumAlgorithm algorithm = SumAlgorithm::none;  ///< the faster one
};

/// Seconds of an all-reduce of so many bytes in a ring: 2 (n - 1) messages one after the other, of which 2 (nodes - 1)
/// are between nodes, and 2 (n - 1) / n times the bytes over the slowest link. The form is NCCL's
/// (src/graph/tuning.cc). (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
/// 2009.)
double ring_seconds(double bytes, const RankGroup& group);

/// Seconds of an all-reduce in two binary trees over the nodes, with a chain in each node: messages up and down the
/// tree, and twice the bytes over the slowest link, of whose bandwidth trees reach 92 %, as in NCCL. (Sanders, Speck
/// and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009.)
double tree_seconds(double bytes, const RankGroup& group);

/// The faster of ring and tree. A group of one rank takes no time.
SumCost sum_cost(double bytes, const RankGroup& group);

/// Seconds of a message of so many bytes.
double message_seconds(double bytes, const LinkCosts& link);

/// The mean of the largest of n standard normal numbers, by Blom's approximation: the quantile of
/// (n - 0.375) / (n + 0.25). (Blom, "Statistical estimates and transformed beta-variables", 1958.) It is at most 5 %
/// too large at n = 2, and closer above.
double expected_maximum(std::int64_t count);

/// What one device computes. With a pipeline or a tensor-parallel team it is the device's own share, of the slowest
/// stage.
struct ComputeCosts {
  double fixed = 0;             ///< seconds of a micro-batch of any size, forward and backward
  double per_sample = 0;        ///< seconds more for each of its samples
  double backward = 2.0 / 3.0;  ///< the share of both that is the backward pass

  /// Seconds of a micro-batch of so many samples.
  double seconds(double samples) const { return fixed + per_sample * samples; }
};

/// A training that is to be simulated. Bytes of parameters are of one number.
struct SimulatedTraining {
  double parameters = 0;            ///< trainable numbers of the whole model
  ComputeCosts compute;             ///< of one device
  double jitter = 0;                ///< the std of a device's computing time by its mean, independent between devices
  double weight_bytes = 4;          ///< of a parameter on a device
  double gradient_bytes = 4;        ///< of a gradient, in memory and on its way
  double state_bytes = 8;           ///< of the optimizer's state of a parameter
  double activation_bytes = 0;      ///< of a sample, kept on a device for the backward pass
  double bucket_bytes = 16e6;       ///< of gradients that are summed at once
  bool overlap = true;              ///< whether buckets are summed beside the backward pass
  std::int64_t pipeline = 1;        ///< stages of the model
  std::int64_t virtual_stages = 1;  ///< parts of the model that each stage's device has in turn
  std::int64_t tensor = 1;          ///< devices that compute a stage together
  std::int64_t micro_batches = 0;   ///< of a copy's batch; 0: one without a pipeline, else one for each sample
  double boundary_bytes = 0;        ///< of a sample that a stage's device sends to the next stage's
  double tensor_bytes = 0;          ///< of a sample that a tensor-parallel team sums, forward and backward
  std::int64_t tensor_sums = 1;     ///< sums that these bytes are cut into
  /// ZeRO's stage: 1 shares the optimizer's state in memory, 2 the gradients too. A reduce-scatter and an all-gather
  /// then send what an all-reduce sends.
  std::int64_t zero = 0;
};

/// Memory of one device, bytes.
struct MemoryUse {
  double weights = 0;      ///< of its part of the model
  double gradients = 0;    ///< of these
  double state = 0;        ///< of the optimizer
  double activations = 0;  ///< of micro-batches whose backward pass is to come
  /// All of it.
  double total() const { return weights + gradients + state + activations; }
};

/// A predicted step. The parts of its time add up to `step`, all in seconds.
struct ScalingPrediction {
  std::int64_t devices = 1, nodes = 1;  ///< of the training
  std::int64_t copies = 1;              ///< of the model, which share each step's samples: the data-parallel ways
  std::int64_t batch = 1;               ///< samples of a copy in a step
  std::int64_t micro_batches = 1;       ///< that they are cut into
  double step = 0;                      ///< seconds of a step
  double compute = 0;                   ///< of these: a device computes
  double bubble = 0;                    ///< waits for other stages of the pipeline to begin or end
  double waiting = 0;                   ///< waits for the slowest device
  double team_sums = 0;                 ///< sums activations in its tensor-parallel team
  double transfers = 0;                 ///< sends activations between stages, as far as nothing hides it
  double exposed = 0;                   ///< sums gradients, as far as no backward pass hides it
  double gradient_sums = 0;             ///< the whole time of the sums of gradients, hidden or not
  SumAlgorithm algorithm = SumAlgorithm::none;  ///< of these sums
  MemoryUse memory;                             ///< of one device
  bool fits = true;                             ///< whether the device has as much; true where that is unknown

  /// Samples of all copies by the step's time.
  double samples_per_second() const { return static_cast<double>(copies * batch) / step; }
  /// The share of the step for sums and messages that nothing hides.
  double communication() const { return (team_sums + transfers + exposed) / step; }
  /// The share of the step that a device computes: its samples a second by those of a device that has the same samples
  /// for itself.
  double efficiency() const { return compute / step; }
};

/// How many copies of the model train on so many devices. Throws Error(usage) where they are no multiple of a copy's
/// pipeline x tensor devices, or an option of the training is out of range.
std::int64_t copies_of(const SimulatedTraining& training, std::int64_t devices);

/// The ranks that sum gradients of a part of the model, where the devices of a tensor-parallel team are neighbours, and
/// then the copies of a stage. Teams of several devices share a node's network.
RankGroup gradient_group(const Fabric& fabric, const SimulatedTraining& training, std::int64_t devices);

/// Predicts a step on so many devices, where each copy of the model has a batch of so many samples. Throws Error(usage)
/// where the machine has fewer devices, lacks a link that is needed, or numbers do not divide each other.
ScalingPrediction predict(const Fabric& fabric, const SimulatedTraining& training, std::int64_t devices,
                          std::int64_t batch);

/// A step that was measured.
struct MeasuredStep {
  std::int64_t devices = 1;  ///< of the training
  std::int64_t batch = 1;    ///< samples of a copy of the model
  double seconds = 0;        ///< of a step
};

/// What a device computes, by measured steps of this training on this machine: what the model predicts for
/// communication, bubbles and waiting is taken off, and the rest is fitted by least squares of relative errors. Steps
/// of one micro-batch size alone give no fixed part. Throws Error(usage) where the steps are shorter than what is taken
/// off.
ComputeCosts fitted_compute(const Fabric& fabric, const SimulatedTraining& training,
                            std::span<const MeasuredStep> steps);

}  // namespace neurim
