// The simulator of training on many devices: its formulas, and its predictions beside published steps.
#include "neurim/distributed/scaling_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/errors.h"

namespace neurim {
namespace {

constexpr double kGiga = 1e9;

Fabric fabric_of(std::int64_t node_devices) {
  return {.name = "test",
          .about = "",
          .node_devices = node_devices,
          .nodes = 0,
          .memory = 0,
          .link = {2e-6, 100 * kGiga},
          .network = {10e-6, 50 * kGiga},
          .source = ""};
}

SimulatedTraining training_of(double parameters, double per_sample) {
  return {.parameters = parameters, .compute = {.fixed = 0.001, .per_sample = per_sample}};
}

double parts_of(const ScalingPrediction& at) {
  return at.compute + at.bubble + at.waiting + at.team_sums + at.transfers + at.exposed;
}

TEST(ScalingModel, OneDeviceHasNoCommunication) {
  const ScalingPrediction at = predict(fabric_of(8), training_of(1e6, 0.002), 1, 10);
  EXPECT_DOUBLE_EQ(at.step, 0.021);
  EXPECT_DOUBLE_EQ(at.samples_per_second(), 10 / 0.021);
  EXPECT_EQ(at.communication(), 0);
  EXPECT_EQ(at.efficiency(), 1);
  EXPECT_EQ(name(at.algorithm), "none");
  EXPECT_DOUBLE_EQ(at.memory.total(), 1e6 * (4 + 4 + 8));
}

TEST(ScalingModel, RingsAndTreesHaveClosedForms) {
  const LinkCosts link{2e-6, 100 * kGiga}, network{10e-6, 50 * kGiga};
  EXPECT_DOUBLE_EQ(ring_seconds(1e6, {8, 1, link, network}), 14 * 2e-6 + 14.0 / 8 * 1e6 / (100 * kGiga));
  EXPECT_DOUBLE_EQ(ring_seconds(1e6, {32, 4, link, network}), 56 * 2e-6 + 6 * 10e-6 + 62.0 / 32 * 1e6 / (50 * kGiga));
  EXPECT_DOUBLE_EQ(tree_seconds(1e6, {32, 4, link, network}),
                   2 * (7 * 2e-6 + 2 * 10e-6) + 2 * 1e6 / (0.92 * 50 * kGiga));
  // With one rank on a node the link in it counts for nothing.
  EXPECT_DOUBLE_EQ(ring_seconds(1e6, {4, 4, {}, network}), 6 * 10e-6 + 1.5 * 1e6 / (50 * kGiga));
  EXPECT_EQ(sum_cost(1e6, {1, 1, link, network}).seconds, 0);
  EXPECT_DOUBLE_EQ(message_seconds(1e6, network), 10e-6 + 2e-5);
}

TEST(ScalingModel, TheFasterAlgorithmIsTaken) {
  const LinkCosts link{2e-6, 100 * kGiga}, network{10e-6, 50 * kGiga};
  const SumCost small = sum_cost(1e4, {1024, 128, link, network}), large = sum_cost(1e9, {8, 1, link, network});
  EXPECT_EQ(small.algorithm, SumAlgorithm::tree);
  EXPECT_LT(10 * small.seconds, ring_seconds(1e4, {1024, 128, link, network}));
  EXPECT_EQ(large.algorithm, SumAlgorithm::ring);
  EXPECT_LT(large.seconds, tree_seconds(1e9, {8, 1, link, network}));
}

TEST(ScalingModel, OverlapHidesSums) {
  SimulatedTraining training = training_of(1e8, 0.01);
  training.bucket_bytes = 40e6;
  const ScalingPrediction beside = predict(fabric_of(8), training, 16, 16);
  training.overlap = false;
  const ScalingPrediction after = predict(fabric_of(8), training, 16, 16);
  EXPECT_DOUBLE_EQ(after.exposed, after.gradient_sums);
  EXPECT_DOUBLE_EQ(after.gradient_sums, beside.gradient_sums);
  EXPECT_DOUBLE_EQ(beside.exposed, beside.gradient_sums / 10);  // the last bucket's sum alone is left
  EXPECT_DOUBLE_EQ(after.step - beside.step, 0.9 * after.gradient_sums);
  // Sums that are longer than the backward pass follow each other from the first bucket on.
  training.overlap = true;
  training.compute = {.fixed = 0.0, .per_sample = 1e-5};
  const ScalingPrediction busy = predict(fabric_of(8), training, 16, 16);
  EXPECT_DOUBLE_EQ(busy.exposed, busy.gradient_sums - 0.9 * 2 / 3 * 16e-5);
  for (const ScalingPrediction& at : {beside, after, busy}) EXPECT_DOUBLE_EQ(at.step, parts_of(at));
}

TEST(ScalingModel, PipelinesHaveBubbles) {
  SimulatedTraining training = training_of(1e6, 0.002);
  training.pipeline = 4;
  training.micro_batches = 8;
  ScalingPrediction at = predict(fabric_of(8), training, 4, 16);
  EXPECT_DOUBLE_EQ(at.compute, 8 * 0.005);
  EXPECT_DOUBLE_EQ(at.bubble / at.compute, 3.0 / 8);
  EXPECT_DOUBLE_EQ(at.transfers, 6 * 2e-6);
  EXPECT_EQ(at.exposed, 0);  // one copy
  training.virtual_stages = 3;
  at = predict(fabric_of(8), training, 4, 16);
  EXPECT_DOUBLE_EQ(at.bubble / at.compute, 3.0 / (8 * 3));
  training.boundary_bytes = 1e6;
  at = predict(fabric_of(2), training, 4, 16);  // a node's network is shared by its two devices
  EXPECT_DOUBLE_EQ(at.transfers, 6 * (10e-6 + 2e6 / (25 * kGiga)));
  training.micro_batches = 0;
  EXPECT_EQ(predict(fabric_of(8), training, 4, 16).micro_batches, 16);
  EXPECT_DOUBLE_EQ(at.step, parts_of(at));
}

TEST(ScalingModel, TeamsShareANodesNetwork) {
  SimulatedTraining training = training_of(1e9, 0.002);
  training.tensor = 4;
  training.pipeline = 2;
  const RankGroup group = gradient_group(fabric_of(8), training, 64);
  EXPECT_EQ(group.ranks, 8);
  EXPECT_EQ(group.nodes, 4);
  EXPECT_DOUBLE_EQ(group.network.bandwidth, 50 * kGiga / 4);
  EXPECT_EQ(gradient_group(fabric_of(8), training, 16).nodes, 1);
  training.tensor = 16;  // a team has two nodes, and each copy has others
  training.pipeline = 1;
  EXPECT_EQ(gradient_group(fabric_of(8), training, 64).nodes, 4);
  EXPECT_DOUBLE_EQ(gradient_group(fabric_of(8), training, 64).network.bandwidth, 50 * kGiga / 8);
  training.tensor = 8;
  training.tensor_bytes = 1e6;
  training.tensor_sums = 4;
  const ScalingPrediction at = predict(fabric_of(8), training, 8, 2);
  EXPECT_DOUBLE_EQ(at.team_sums, 4 * ring_seconds(0.5e6, {8, 1, {2e-6, 100 * kGiga}, {}}));
  EXPECT_DOUBLE_EQ(at.step, parts_of(at));
}

TEST(ScalingModel, ZeroSharesMemory) {
  SimulatedTraining training = training_of(1e9, 0.002);
  training.activation_bytes = 1e7;
  Fabric fabric = fabric_of(8);
  fabric.memory = 16 * kGiga;
  const ScalingPrediction whole = predict(fabric, training, 16, 4);
  EXPECT_DOUBLE_EQ(whole.memory.total(), 16e9 + 4e7);
  EXPECT_FALSE(whole.fits);
  training.zero = 1;
  EXPECT_DOUBLE_EQ(predict(fabric, training, 16, 4).memory.total(), 8e9 + 0.5e9 + 4e7);
  training.zero = 2;
  const ScalingPrediction shared = predict(fabric, training, 16, 4);
  EXPECT_DOUBLE_EQ(shared.memory.total(), 4e9 + 0.25e9 + 0.5e9 + 4e7);
  EXPECT_TRUE(shared.fits);
  training.pipeline = 4;  // a quarter of the model, and as many micro-batches in flight as there are stages
  EXPECT_DOUBLE_EQ(predict(fabric, training, 16, 8).memory.total(), 1e9 + 0.25e9 + 0.5e9 + 4 * 1e7);
}

TEST(ScalingModel, AStepWaitsForTheSlowest) {
  EXPECT_EQ(expected_maximum(1), 0);
  EXPECT_NEAR(expected_maximum(2), 1 / std::sqrt(std::acos(-1.0)), 0.03);
  EXPECT_NEAR(expected_maximum(10), 1.5388, 0.02);  // Tippett's table
  EXPECT_NEAR(expected_maximum(1000), 3.2414, 0.02);
  SimulatedTraining training = training_of(1e6, 0.002);
  training.jitter = 0.05;
  const ScalingPrediction at = predict(fabric_of(8), training, 64, 10);
  EXPECT_DOUBLE_EQ(at.waiting, 0.05 * expected_maximum(64) * at.compute);
}

TEST(ScalingModel, ComputingIsFittedToMeasuredSteps) {
  SimulatedTraining training = training_of(1e8, 0.003);
  training.compute.fixed = 0.004;
  training.jitter = 0.01;
  const Fabric fabric = fabric_of(4);
  std::vector<MeasuredStep> steps;
  for (const auto& [devices, batch] : {std::pair{4, 64}, {16, 8}, {64, 2}})
    steps.push_back({devices, batch, predict(fabric, training, devices, batch).step});
  const ComputeCosts fitted = fitted_compute(fabric, training, steps);
  EXPECT_NEAR(fitted.fixed, 0.004, 1e-8);
  EXPECT_NEAR(fitted.per_sample, 0.003, 1e-9);
  const ComputeCosts of_one = fitted_compute(fabric, training, std::vector{steps[0]});
  EXPECT_EQ(of_one.fixed, 0);
  EXPECT_NEAR(of_one.per_sample, 0.003 + 0.004 / 64, 1e-8);
}

TEST(ScalingModel, WrongCallsAreRefused) {
  const Fabric fabric = fabric_of(8);
  SimulatedTraining training = training_of(1e6, 0.002);
  expect_words(usage_error([] { machine_named("dgx-h10"); }), {"did you mean 'dgx-h100'", "karolina-gpu", "own"});
  expect_words(usage_error([&] { predict(machine_named("dgx-h100"), training, 9, 1); }), {"devices is 9", "8 at most"});
  expect_words(usage_error([&] { predict(fabric, training, 0, 1); }), {"devices is 0"});
  expect_words(usage_error([&] { predict(fabric, training, 8, 0); }), {"batch is 0"});
  training.pipeline = 3;
  expect_words(usage_error([&] { predict(fabric, training, 8, 1); }), {"devices is 8", "pipeline x tensor = 3 x 1"});
  training = training_of(0, 0.002);
  expect_words(usage_error([&] { predict(fabric, training, 8, 1); }), {"params is 0"});
  training = training_of(1e6, -1);
  expect_words(usage_error([&] { predict(fabric, training, 8, 1); }), {"sample_ms"});
  training = training_of(1e6, 0.002);
  training.zero = 3;
  expect_words(usage_error([&] { predict(fabric, training, 8, 1); }), {"zero is 3"});
  training = training_of(1e6, 0.002);
  Fabric alone = fabric;
  alone.network = {};
  expect_words(usage_error([&] { predict(alone, training, 9, 1); }), {"between nodes", "network_gbs"});
  EXPECT_EQ(predict(alone, training, 8, 1).nodes, 1);
  training.micro_batches = 3;
  expect_words(usage_error([&] { predict(fabric, training, 8, 4); }), {"batch is 4", "microbatches = 3"});
  training = training_of(1e9, 0.002);
  expect_words(usage_error([&] { fitted_compute(fabric, training, std::vector<MeasuredStep>{{8, 1, 1e-6}}); }),
               {"measured", "params"});
  expect_words(usage_error([&] { fitted_compute(fabric, training, {}); }), {"measured"});
}

TEST(Machines, HaveSourcesAndLinks) {
  for (const Fabric& machine : described_machines()) {
    EXPECT_EQ(&machine_named(machine.name), &machine);
    EXPECT_FALSE(machine.about.empty() || machine.source.empty()) << machine.name;
    EXPECT_GT(machine.memory, 0);
    const std::int64_t all = machine.nodes * machine.node_devices;
    EXPECT_LT(predict(machine, training_of(1e6, 0.001), all, 32).efficiency(), 1) << machine.name;
  }
  for (const char* name : {"karolina-gpu", "barbora-gpu", "barbora-cpu"})
    expect_words(machine_named(name).source, {"assumption"});
  // Two nodes of 8 GPUs take 46 to 48 us for a sum of 1 KB: NCCL issue 1244, of H20 with the adapters of a DGX H100.
  const Fabric& h100 = machine_named("superpod-h100");
  EXPECT_NEAR(sum_cost(1024, gradient_group(h100, training_of(1e6, 0.001), 16)).seconds, 47e-6, 5e-6);
}

/// A step of MLPerf Training: the mean over whole epochs or blocks without evaluation, the median of the runs.
struct PublishedStep {
  std::int64_t devices, batch;  ///< GPUs; samples of a copy of the model
  double milliseconds;          ///< of a step, published
  double error = 0;             ///< of the prediction, %: what docs/guides/scaling.md has
};

/// Steps of one model, submitter and round.
struct PublishedFamily {
  const char *name, *source, *machine;
  SimulatedTraining training;
  std::vector<PublishedStep> calibrated, held_out;
};

// Results of MLPerf Training, github.com/mlcommons/training_results_vROUND, SUBMITTER/results/SYSTEM. The number of a
// model's parameters is no result: 25.6 M of ResNet-50, 38 M of RetinaNet, 336 M of BERT-large, 175 G of GPT-3.
std::vector<PublishedFamily> published() {
  // One group of fp16 gradients after the backward pass, as the configurations say.
  const SimulatedTraining resnet{.parameters = 25.6e6, .gradient_bytes = 2, .bucket_bytes = 64e6, .overlap = false};
  const SimulatedTraining retinanet{.parameters = 38e6, .gradient_bytes = 2, .bucket_bytes = 25e6};
  const SimulatedTraining bert{.parameters = 336e6, .gradient_bytes = 2, .bucket_bytes = 135e6};
  SimulatedTraining bert_after = bert;
  bert_after.overlap = false, bert_after.bucket_bytes = 672e6;
  // Micro-batches of one sequence; a boundary of 2048 x 12288 numbers of 16 bits is shared by the team of 4.
  const SimulatedTraining gpt{.parameters = 175e9,
                              .gradient_bytes = 2,
                              .bucket_bytes = 100e6,
                              .pipeline = 8,
                              .virtual_stages = 12,
                              .tensor = 4,
                              .boundary_bytes = 12.6e6,
                              .zero = 1};
  return {
      {"ResNet-50, A100",
       "v2.0, NVIDIA, dgxa100",
       "dgx-a100",
       resnet,
       {{8, 408, 120.746}, {64, 51, 19.455}},
       {{1024, 35, 15.184, -1.4}, {4216, 16, 10.650, -9.7}}},
      {"ResNet-50, A100",
       "v1.1, NVIDIA, dgxa100",
       "dgx-a100",
       resnet,
       {{8, 408, 123.783}, {64, 51, 19.577}},
       {{1024, 35, 15.562, -3.8}, {4320, 15, 11.390, -19.5}}},
      {"ResNet-50, A100",
       "v0.7, NVIDIA, dgxa100",
       "dgx-a100",
       resnet,
       {{8, 408, 144.763}, {16, 204, 87.348}},
       {{768, 45, 26.742, 59.4}}},
      {"ResNet-50, H100",
       "v3.0, NVIDIA, dgxh100; 3584: CoreWeave",
       "eos-dfw",
       resnet,
       {{8, 400, 57.015}, {64, 50, 10.846}},
       {{512, 40, 9.081, 5.4}, {768, 42, 9.394, 4.9}, {3584, 16, 5.617, 14.8}}},
      {"ResNet-50, H100",
       "v4.0, NVIDIA, eos",
       "eos-dfw",
       resnet,
       {{8, 400, 55.802}, {64, 50, 10.180}},
       {{2528, 16, 5.803, 0.6}}},
      {"RetinaNet, A100",
       "v2.0, NVIDIA, dgxa100",
       "dgx-a100",
       retinanet,
       {{8, 32, 262.275}, {64, 4, 42.172}},
       {{1280, 1, 22.812, -18.2}}},
      {"RetinaNet, A100",
       "v2.0, Azure, ND96amsr_A100_v4",
       "dgx-a100",
       retinanet,
       {{8, 32, 267.536}, {64, 4, 43.591}},
       {{16, 16, 142.056, -1.7}}},
      {"RetinaNet, A100",
       "v2.1, NVIDIA, dgxa100",
       "dgx-a100",
       retinanet,
       {{64, 4, 40.243}, {1280, 1, 20.117}},
       {{2048, 1, 21.463, -6.3}}},
      {"RetinaNet, H100",
       "v3.0, NVIDIA, dgxh100",
       "eos-dfw",
       retinanet,
       {{8, 32, 115.561}, {64, 4, 20.110}},
       {{512, 2, 14.817, -10.0}, {768, 1, 10.441, -4.8}}},
      {"RetinaNet, H100",
       "v3.1, NVIDIA, eos",
       "eos-dfw",
       retinanet,
       {{8, 32, 112.191}, {64, 4, 18.998}},
       {{2048, 1, 10.568, -14.0}}},
      {"RetinaNet, H100",
       "v4.0, NVIDIA, eos",
       "eos-dfw",
       retinanet,
       {{8, 32, 110.483}, {64, 4, 18.909}},
       {{2528, 1, 9.822, -6.4}}},
      {"BERT-large, H100",
       "v3.0, NVIDIA, dgxh100; 3072: CoreWeave",
       "eos-dfw",
       bert,
       {{8, 48, 98.576}, {512, 3, 21.331}},
       {{768, 3, 22.843, -6.5}, {3072, 2, 19.423, 1.2}}},
      {"BERT-large, A100",
       "v2.0, NVIDIA, dgxa100",
       "dgx-a100",
       bert_after,
       {{1024, 2, 36.089}},
       {{4096, 2, 35.363, 2.1}}},
      {"GPT-3 175B, H100",
       "v3.1, NVIDIA, eos and eos-dfw",
       "eos-dfw",
       gpt,
       {{512, 128, 11053.9}},
       {{768, 128, 11075.4, -0.1},
        {4096, 16, 1608.4, 1.4},
        {6144, 16, 1615.2, 1.1},
        {8192, 16, 1619.1, 0.9},
        {10240, 8, 925.6, 3.7},
        {10752, 8, 929.6, 3.3}}},
      {"GPT-3 175B, H100",
       "v3.0, CoreWeave, hgxh100",
       "eos-dfw",
       gpt,
       {{768, 128, 12304.9}},
       {{1536, 64, 6339.7, -0.6}, {3584, 24, 2600.5, -2.4}}},
  };
}

SimulatedTraining calibrated(const PublishedFamily& family, const Fabric& machine) {
  std::vector<MeasuredStep> steps;
  for (const PublishedStep& step : family.calibrated)
    steps.push_back({step.devices, step.batch, step.milliseconds * 1e-3});
  SimulatedTraining training = family.training;
  training.compute = fitted_compute(machine, training, steps);
  return training;
}

/// The error of the prediction, %.
double error_of(const Fabric& machine, const SimulatedTraining& training, const PublishedStep& step) {
  return 100 * (predict(machine, training, step.devices, step.batch).step / (step.milliseconds * 1e-3) - 1);
}

TEST(PublishedSteps, ArePredicted) {
  int within = 0, held_out = 0;
  for (const PublishedFamily& family : published()) {
    const Fabric& machine = machine_named(family.machine);
    const SimulatedTraining training = calibrated(family, machine);
    for (const PublishedStep& step : family.calibrated) EXPECT_NEAR(error_of(machine, training, step), 0, 0.01);
    for (const PublishedStep& step : family.held_out) {
      const double error = error_of(machine, training, step);
      EXPECT_NEAR(error, step.error, 0.06) << family.name << ", " << family.source << ", " << step.devices << " GPUs";
      ++held_out, within += std::abs(error) < 9.9;
    }
  }
  EXPECT_EQ(within, 21);
  EXPECT_EQ(held_out, 27);
}

TEST(PublishedSteps, AreMissedWithoutCommunication) {
  const PublishedFamily gpt = published()[13];
  Fabric machine = machine_named(gpt.machine);
  machine.link = machine.network = {.latency = 0, .bandwidth = 1e30};
  EXPECT_LT(error_of(machine, calibrated(gpt, machine), gpt.held_out.back()), -20);
}

}  // namespace
}  // namespace neurim
