#include "neurim/distributed/scaling_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "neurim/base/error.h"

namespace neurim {

namespace {

constexpr double kTreeShare = 0.92;            // of a link's bandwidth, as NCCL has it for its trees
constexpr std::int64_t kMost = 1'000'000'000;  // of devices, samples and the like: products of two fit 64 bits
constexpr double kMostParameters = 1e18;

std::int64_t divided_up(std::int64_t count, std::int64_t parts) { return (count + parts - 1) / parts; }

/// Bytes a second of the slowest link that a sum passes.
double slowest_bandwidth(const RankGroup& group) {
  double bandwidth = std::numeric_limits<double>::infinity();
  if (group.nodes < group.ranks) bandwidth = group.link.bandwidth;
  if (group.nodes > 1) bandwidth = std::min(bandwidth, group.network.bandwidth);
  return bandwidth;
}

/// The ranks of neighbouring devices of which each `stride`-th one belongs to the group.
RankGroup placed(const Fabric& fabric, std::int64_t ranks, std::int64_t stride) {
  const std::int64_t reach = ranks * stride;
  RankGroup group{ranks, 1, fabric.link, fabric.network};
  if (reach <= fabric.node_devices) return group;
  group.nodes = std::min(ranks, divided_up(reach, fabric.node_devices));
  group.network.bandwidth /= static_cast<double>(std::min(stride, fabric.node_devices));
  return group;
}

std::int64_t micro_batches_of(const SimulatedTraining& training, std::int64_t batch) {
  if (training.micro_batches > 0) return training.micro_batches;
  return training.pipeline > 1 ? batch : 1;
}

std::int64_t samples_of_micro_batch(const ScalingPrediction& at) { return at.batch / at.micro_batches; }

/// How many micro-batches' time a device computes or waits in the pipeline.
double slots_of(const SimulatedTraining& training, std::int64_t micro_batches) {
  return static_cast<double>(micro_batches) +
         static_cast<double>(training.pipeline - 1) / static_cast<double>(training.virtual_stages);
}

void check_count(const char* name, std::int64_t count) {
  require(count >= 1 && count <= kMost, name, " is ", count, "; it is from 1 to ", kMost);
}

void check_training(const SimulatedTraining& training) {
  require(training.parameters >= 1 && training.parameters <= kMostParameters, "params is ", training.parameters,
          "; give how many trainable numbers the model has, such as params=25.6e6");
  check_count("pipeline", training.pipeline), check_count("tensor", training.tensor);
  check_count("virtual_stages", training.virtual_stages), check_count("tensor_sums", training.tensor_sums);
  require(training.zero >= 0 && training.zero <= 2, "zero is ", training.zero, "; it is 0, 1 or 2");
  require(training.micro_batches >= 0, "microbatches is ", training.micro_batches, "; it is 1 or more");
  require(training.bucket_bytes >= 1, "bucket_mb is ", training.bucket_bytes / 1e6, "; a bucket has 1 byte or more");
  require(training.jitter >= 0, "jitter is ", training.jitter, "; it is 0 or more");
  require(training.compute.backward >= 0 && training.compute.backward <= 1, "the backward pass has a share of ",
          training.compute.backward, " of a step; it is from 0 to 1");
  for (const auto& [name, bytes] :
       std::initializer_list<std::pair<const char*, double>>{{"weight_bytes", training.weight_bytes},
                                                             {"bytes of a gradient", training.gradient_bytes},
                                                             {"state_bytes", training.state_bytes},
                                                             {"activation_mb", training.activation_bytes},
                                                             {"boundary_mb", training.boundary_bytes},
                                                             {"tensor_mb", training.tensor_bytes}})
    require(bytes >= 0, name, ": ", bytes, " bytes; it is 0 or more");
}

void check_link(const Fabric& fabric, const LinkCosts& link, const char* where, const char* bandwidth,
                const char* latency) {
  require(link.bandwidth > 0 && link.latency >= 0, "machine ", fabric.name, ": a link ", where, " has ",
          link.bandwidth / 1e9, " GB/s and ", link.latency * 1e6, " us; give ", bandwidth, " above 0 and ", latency,
          " of 0 or more");
}

void check_size(const Fabric& fabric, const SimulatedTraining& training, std::int64_t devices, std::int64_t batch) {
  check_count("node_devices", fabric.node_devices), check_count("batch", batch);
  require(fabric.memory >= 0, "memory_gb is ", fabric.memory / 1e9, "; it is 0 or more");
  require(fabric.nodes == 0 || devices <= fabric.nodes * fabric.node_devices, "devices is ", devices, "; machine ",
          fabric.name, " has ", fabric.nodes * fabric.node_devices, " at most: ", plural(fabric.nodes, "node"), " of ",
          fabric.node_devices);
  const std::int64_t micro_batches = micro_batches_of(training, batch);
  require(batch % micro_batches == 0, "batch is ", batch, "; it is a multiple of microbatches = ", micro_batches);
  if (fabric.node_devices > 1 && devices > 1) check_link(fabric, fabric.link, "in a node", "node_gbs", "node_us");
  if (devices > fabric.node_devices) check_link(fabric, fabric.network, "between nodes", "network_gbs", "network_us");
}

MemoryUse memory_of(const SimulatedTraining& training, const ScalingPrediction& at) {
  const double numbers = training.parameters / static_cast<double>(training.pipeline * training.tensor);
  const double copies = static_cast<double>(at.copies);
  // A stage keeps as many micro-batches as there are stages, where each goes back as soon as it can.
  const std::int64_t kept = training.pipeline > 1 ? std::min(training.pipeline, at.micro_batches) : 1;
  return {.weights = numbers * training.weight_bytes,
          .gradients = numbers * training.gradient_bytes / (training.zero >= 2 ? copies : 1),
          .state = numbers * training.state_bytes / (training.zero >= 1 ? copies : 1),
          .activations = training.activation_bytes * static_cast<double>(samples_of_micro_batch(at) * kept)};
}

/// Sets what sums of gradients take, and what of it the backward pass of the last micro-batch does not hide.
void add_gradient_sums(ScalingPrediction& at, const RankGroup& group, const SimulatedTraining& training,
                       double backward) {
  const double bytes = training.parameters * training.gradient_bytes /
                       static_cast<double>(training.pipeline * training.tensor);
  const double buckets = std::max(1.0, std::ceil(bytes / training.bucket_bytes));
  const SumCost bucket = sum_cost(bytes / buckets, group);
  at.algorithm = bucket.algorithm;
  at.gradient_sums = buckets * bucket.seconds;
  // Buckets are there one after the other, evenly over the backward pass. Either the sums keep up, and that of the last
  // bucket is left, or they follow each other without a gap from the first bucket on.
  const double hidden = training.overlap ? (buckets - 1) / buckets * backward : 0;
  at.exposed = std::max(training.overlap ? bucket.seconds : 0.0, at.gradient_sums - hidden);
}

/// Seconds of messages between stages that nothing hides.
double exposed_transfers(const Fabric& fabric, const SimulatedTraining& training, const ScalingPrediction& at) {
  if (training.pipeline == 1) return 0;
  LinkCosts link = fabric.link;
  if (at.nodes > 1) {
    link = fabric.network;  // which the devices of a node share
    link.bandwidth /= static_cast<double>(fabric.node_devices);
  }
  const double samples = static_cast<double>(samples_of_micro_batch(at));
  // The first micro-batch goes forward through all stages and the last one back. Others are sent beside computing.
  const std::int64_t messages = 2 * (training.pipeline - 1);
  return static_cast<double>(messages) * message_seconds(training.boundary_bytes * samples, link);
}

}  // namespace

std::string_view name(SumAlgorithm algorithm) {
  constexpr std::string_view kNames[] = {"none", "ring", "tree"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

double ring_seconds(double bytes, const RankGroup& group) {
  if (group.ranks == 1) return 0;
  const double messages = 2.0 * static_cast<double>(group.ranks - 1);
  const double between = 2.0 * static_cast<double>(group.nodes - 1);
  return (messages - between) * group.link.latency + between * group.network.latency +
         messages / static_cast<double>(group.ranks) * bytes / slowest_bandwidth(group);
}

double tree_seconds(double bytes, const RankGroup& group) {
  if (group.ranks == 1) return 0;
  const std::int64_t of_node = divided_up(group.ranks, group.nodes);
  const int depth = std::bit_width(static_cast<std::uint64_t>(group.nodes - 1));  // log2 of the nodes, rounded up
  return 2 * (static_cast<double>(of_node - 1) * group.link.latency + depth * group.network.latency) +
         2 * bytes / (kTreeShare * slowest_bandwidth(group));
}

SumCost sum_cost(double bytes, const RankGroup& group) {
  require(group.ranks >= 1 && group.nodes >= 1 && group.nodes <= group.ranks, "a sum of ", group.ranks, " ranks on ",
          group.nodes, " nodes: there are 1 or more, and on each node one of them at least");
  if (group.ranks == 1) return {};
  const double ring = ring_seconds(bytes, group), tree = tree_seconds(bytes, group);
  return tree < ring ? SumCost{tree, SumAlgorithm::tree} : SumCost{ring, SumAlgorithm::ring};
}

double message_seconds(double bytes, const LinkCosts& link) { return link.latency + bytes / link.bandwidth; }

double expected_maximum(std::int64_t count) {
  require(count >= 1, "the largest of ", count, " numbers: there is 1 or more");
  // The x above which a normal number is with this probability, by halving: 0.5 erfc(x / sqrt 2) falls with x.
  const double above = 0.625 / (static_cast<double>(count) + 0.25);
  double low = 0, high = 40;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(middle / std::sqrt(2.0)) > above ? low : high) = middle;
  }
  return count == 1 ? 0 : high;
}

std::int64_t copies_of(const SimulatedTraining& training, std::int64_t devices) {
  check_training(training);
  check_count("devices", devices);
  const std::int64_t of_copy = training.pipeline * training.tensor;
  require(devices % of_copy == 0, "devices is ", devices,
          "; it is a multiple of pipeline x tensor = ", training.pipeline, " x ", training.tensor, " = ", of_copy);
  return devices / of_copy;
}

RankGroup gradient_group(const Fabric& fabric, const SimulatedTraining& training, std::int64_t devices) {
  return placed(fabric, copies_of(training, devices), training.tensor);
}

ScalingPrediction predict(const Fabric& fabric, const SimulatedTraining& training, std::int64_t devices,
                          std::int64_t batch) {
  const std::int64_t copies = copies_of(training, devices);
  check_size(fabric, training, devices, batch);
  ScalingPrediction at{.devices = devices,
                       .nodes = divided_up(devices, fabric.node_devices),
                       .copies = copies,
                       .batch = batch,
                       .micro_batches = micro_batches_of(training, batch)};
  const double samples = static_cast<double>(samples_of_micro_batch(at)), count = static_cast<double>(at.micro_batches);
  const double slots = slots_of(training, at.micro_batches), of_micro_batch = training.compute.seconds(samples);
  require(training.compute.fixed >= 0 && training.compute.per_sample >= 0 && of_micro_batch > 0,
          "a device computes a batch of ", samples, " in ", of_micro_batch * 1e3,
          " ms; give sample_ms above 0 with fixed_ms of 0 or more, or step_ms, or measured");
  at.compute = count * of_micro_batch;
  at.waiting = training.jitter * expected_maximum(devices) * at.compute;
  const double sums = static_cast<double>(training.tensor_sums);
  const double of_team = training.tensor_bytes > 0 ? sums * sum_cost(training.tensor_bytes * samples / sums,
                                                                     placed(fabric, training.tensor, 1))
                                                                .seconds
                                                   : 0;
  at.team_sums = count * of_team;
  at.bubble = (slots - count) * (of_micro_batch + of_team);
  at.transfers = exposed_transfers(fabric, training, at);
  const double backward = training.compute.backward * of_micro_batch;
  if (at.copies > 1) add_gradient_sums(at, gradient_group(fabric, training, devices), training, backward);
  at.step = at.compute + at.bubble + at.waiting + at.team_sums + at.transfers + at.exposed;
  at.memory = memory_of(training, at);
  at.fits = fabric.memory == 0 || at.memory.total() <= fabric.memory;
  return at;
}

ComputeCosts fitted_compute(const Fabric& fabric, const SimulatedTraining& training,
                            std::span<const MeasuredStep> steps) {
  require(!steps.empty(), "measured: there is no step to fit computing to");
  SimulatedTraining fitted = training;
  fitted.compute.fixed = 0;
  const MeasuredStep& first = steps.front();
  for (const MeasuredStep& step : steps)
    require(step.seconds > 0 && step.batch >= 1, "measured: a step of ", step.batch, " samples took ",
            step.seconds * 1e3, " ms; both are above 0");
  fitted.compute.per_sample = first.seconds / static_cast<double>(first.batch);
  // What the sums leave exposed depends on the backward pass that hides them, so that the fit is repeated.
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    // Least squares of (a x + b y - z), where a is the fixed part, b that of a sample, and x, y and z what a step has
    // of them by its time.
    double xx = 0, xy = 0, yy = 0, xz = 0, yz = 0;
    for (const MeasuredStep& step : steps) {
      const ScalingPrediction at = predict(fabric, fitted, step.devices, step.batch);
      const double samples = static_cast<double>(samples_of_micro_batch(at));
      const double slots = slots_of(training, at.micro_batches);
      const double others = at.step - slots * fitted.compute.seconds(samples);
      require(others < step.seconds, "measured: a step of ", step.seconds * 1e3, " ms on ",
              plural(step.devices, "device"), "; sums, messages and waiting are predicted to take ", others * 1e3,
              " ms alone; check params, gradient_bits and the machine's links");
      const double x = slots / step.seconds, y = x * samples, z = 1 - others / step.seconds;
      xx += x * x, xy += x * y, yy += y * y, xz += x * z, yz += y * z;
    }
    constexpr double kSame = 1e-9;  // of steps of one micro-batch size
    const double determinant = xx * yy - xy * xy;
    const bool apart = determinant > kSame * xx * yy;
    const double fixed = apart ? std::max(0.0, (xz * yy - yz * xy) / determinant) : 0;
    fitted.compute.fixed = fixed;
    fitted.compute.per_sample = std::max(0.0, fixed > 0 ? (xx * yz - xy * xz) / determinant : yz / yy);
  }
  require(fitted.compute.per_sample > 0,
          "measured: steps of more samples are no longer than steps of fewer; give steps of batches that differ more");
  return fitted.compute;
}

}  // namespace neurim
