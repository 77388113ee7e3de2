#include <charconv>
#include <cmath>

#include "neurim/cli/verbs.h"
#include "neurim/distributed/scaling_model.h"
#include "neurim/train/console.h"
#include "neurim/train/environment.h"

namespace neurim::cli {

namespace {

constexpr double kGiga = 1e9, kMega = 1e6, kMilli = 1e-3, kMicro = 1e-6;
constexpr const char* kOwn = "own";

/// The options, in the units that people give.
struct Asked {
  std::string machine, measured;
  std::vector<double> devices;
  std::optional<double> params, fixed_ms, sample_ms, step_ms, node_gbs, node_us, network_gbs, network_us, memory_gb;
  std::optional<std::int64_t> batch, global_batch, micro_batches, node_devices;
  std::int64_t gradient_bits = 32;
  double bucket_mb = 16, activation_mb = 0, boundary_mb = 0, tensor_mb = 0;
  bool list = false;
  SimulatedTraining training;

  bool has_own_links() const { return node_devices || node_gbs || node_us || network_gbs || network_us || memory_gb; }
};

void add_options(Options& options, Asked& asked) {
  SimulatedTraining& training = asked.training;
  options("machine", asked.machine,
          "which machine; without one the known machines are listed; own: that of node_gbs …");
  options("list", asked.list, "list the known machines");
  options("devices", asked.devices, "numbers of devices, with commas");
  options("params", asked.params, "trainable numbers of the model, such as 25.6e6");
  options("batch", asked.batch, "samples of a step on each device; with pipeline or tensor on each copy of the model");
  options("global_batch", asked.global_batch, "samples of a step on all devices together, in place of batch");
  options.topic("computing of one device");
  options("fixed_ms", asked.fixed_ms, "ms of a step that do not depend on the batch; by default 0");
  options("sample_ms", asked.sample_ms, "ms more for each sample, forward and backward");
  options("step_ms", asked.step_ms, "in place of both: ms of a step of `batch` samples on one device");
  options("measured", asked.measured,
          "in place of these: measured steps, DEVICES:BATCH:MS with commas, two of different batches or one");
  options("jitter", training.jitter, "std of a device's time by its mean; a step waits for the slowest device");
  options.topic("sharing");
  options("overlap", training.overlap, "gradients are summed beside the backward pass");
  options("gradient_bits", asked.gradient_bits, "of a gradient: 16 or 32");
  options("bucket_mb", asked.bucket_mb, "MB of gradients that are summed at once");
  options("zero", training.zero, "1: devices share the optimizer's state, 2: the gradients too");
  options("pipeline", training.pipeline, "stages that the model is cut into; times are then those of a stage");
  options("microbatches", asked.micro_batches, "of a copy's batch; by default one, in a pipeline one for each sample");
  options("virtual_stages", training.virtual_stages, "parts of the model that each device of a pipeline has in turn");
  options("boundary_mb", asked.boundary_mb, "MB of a sample that a device sends to the next stage");
  options("tensor", training.tensor, "devices that compute a stage together");
  options("tensor_mb", asked.tensor_mb,
          "MB of a sample that these sum, forward and backward; 0: the times contain the sums");
  options("tensor_sums", training.tensor_sums, "sums that tensor_mb is cut into");
  options.topic("memory");
  options("weight_bytes", training.weight_bytes, "of a parameter");
  options("state_bytes", training.state_bytes, "of the optimizer's state of a parameter: 4 of momentum, 8 of Adam");
  options("activation_mb", asked.activation_mb, "MB of a sample that a device keeps for the backward pass");
  options.topic("links, in place of the machine's");
  options("node_devices", asked.node_devices, "devices in a node");
  options("node_gbs", asked.node_gbs, "GB/s of each device in a node, as `neurim collectives` prints them");
  options("node_us", asked.node_us, "us of a message in a node");
  options("network_gbs", asked.network_gbs, "GB/s of a node's network, all adapters together");
  options("network_us", asked.network_us, "us of a message between nodes");
  options("memory_gb", asked.memory_gb, "GB of a device");
}

Fabric fabric_of(const Asked& asked) {
  require(
      !asked.machine.empty() || asked.has_own_links(),
      "machine is missing; `neurim simulate` lists the known ones; of your own give node_devices, node_gbs, node_us, "
      "network_gbs and network_us");
  const bool own = asked.machine.empty() || asked.machine == kOwn;
  Fabric fabric = own ? Fabric{.name = kOwn, .source = "the command's options"} : machine_named(asked.machine);
  if (asked.node_devices) fabric.node_devices = *asked.node_devices;
  if (asked.node_gbs) fabric.link.bandwidth = *asked.node_gbs * kGiga;
  if (asked.node_us) fabric.link.latency = *asked.node_us * kMicro;
  if (asked.network_gbs) fabric.network.bandwidth = *asked.network_gbs * kGiga;
  if (asked.network_us) fabric.network.latency = *asked.network_us * kMicro;
  if (asked.memory_gb) fabric.memory = *asked.memory_gb * kGiga;
  if (!own && asked.has_own_links()) fabric.about += ", with the links of the options";
  if (own) fabric.about = text(plural(fabric.node_devices, "device"), " a node, by the options");
  return fabric;
}

std::vector<std::int64_t> counts_of(const Asked& asked) {
  constexpr double kMost = 1e9;
  require(!asked.devices.empty(), "devices is missing; give numbers of devices, such as devices=8,64,512");
  std::vector<std::int64_t> counts;
  for (const double count : asked.devices) {
    require(count >= 1 && count <= kMost && count == std::floor(count), "devices has ", count,
            "; give whole numbers from 1 to ", kMost);
    counts.push_back(static_cast<std::int64_t>(count));
  }
  return counts;
}

/// The samples of a copy of the model where so many devices train.
std::int64_t batch_of(const Asked& asked, const SimulatedTraining& training, std::int64_t devices) {
  require(asked.batch.has_value() != asked.global_batch.has_value(),
          "give batch, the samples of a step on each device, or global_batch, those of all devices, and not both");
  if (asked.batch) return *asked.batch;
  const std::int64_t copies = copies_of(training, devices);
  require(*asked.global_batch >= copies && *asked.global_batch % copies == 0, "global_batch is ", *asked.global_batch,
          "; on ", plural(devices, "device"), " it is a multiple of ", copies, ", the copies of the model");
  return *asked.global_batch / copies;
}

template <class Number>
Number number_of(const std::string& part, const std::string& step) {
  Number number{};
  const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  require(error == std::errc() && stop == part.data() + part.size(), "measured: '", step,
          "' is not DEVICES:BATCH:MS, such as 8:400:57.0");
  return number;
}

std::vector<MeasuredStep> measured_steps(const std::string& words) {
  std::vector<MeasuredStep> steps;
  for (const std::string& step : split(words, ',')) {
    const std::vector<std::string> parts = split(trimmed(step), ':');
    require(parts.size() == 3, "measured: '", step, "' is not DEVICES:BATCH:MS, such as 8:400:57.0");
    steps.push_back({number_of<std::int64_t>(parts[0], step), number_of<std::int64_t>(parts[1], step),
                     number_of<double>(parts[2], step) * kMilli});
  }
  return steps;
}

void set_compute(SimulatedTraining& training, const Asked& asked, const Fabric& fabric) {
  const int ways = (asked.sample_ms || asked.fixed_ms) + asked.step_ms.has_value() + !asked.measured.empty();
  require(ways == 1,
          "give what one device computes in one way: sample_ms with fixed_ms, or step_ms with batch, or measured");
  if (!asked.measured.empty()) {
    training.compute = fitted_compute(fabric, training, measured_steps(asked.measured));
  } else if (asked.step_ms) {
    require(asked.batch && *asked.batch >= 1 && *asked.step_ms > 0, "step_ms is ", *asked.step_ms,
            "; it is above 0, with batch, the samples of that step");
    training.compute.per_sample = *asked.step_ms * kMilli / static_cast<double>(*asked.batch);
  } else {
    training.compute.fixed = asked.fixed_ms.value_or(0) * kMilli;
    training.compute.per_sample = asked.sample_ms.value_or(0) * kMilli;
  }
}

SimulatedTraining training_of(const Asked& asked, const Fabric& fabric) {
  require(asked.params.has_value(),
          "params is missing; give how many trainable numbers the model has, such as params=25.6e6");
  require(asked.gradient_bits == 16 || asked.gradient_bits == 32, "gradient_bits is ", asked.gradient_bits,
          "; it is 16 or 32");
  require(!asked.micro_batches || *asked.micro_batches >= 1, "microbatches is ", asked.micro_batches.value_or(0),
          "; it is 1 or more");
  SimulatedTraining training = asked.training;
  training.parameters = *asked.params;
  training.gradient_bytes = static_cast<double>(asked.gradient_bits) / 8;
  training.bucket_bytes = asked.bucket_mb * kMega;
  training.activation_bytes = asked.activation_mb * kMega;
  training.boundary_bytes = asked.boundary_mb * kMega;
  training.tensor_bytes = asked.tensor_mb * kMega;
  training.micro_batches = asked.micro_batches.value_or(0);
  set_compute(training, asked, fabric);
  return training;
}

std::string link_line(const LinkCosts& link) {
  return text(significant(link.bandwidth / kGiga), " GB/s, ", significant(link.latency / kMicro), " us");
}

int list_machines(Console& console) {
  constexpr std::size_t kColumn = 16;
  for (const Fabric& machine : described_machines()) {
    std::string row = machine.name;
    row.resize(std::max(kColumn, row.size() + 2), ' ');
    console.print(row + machine.about);
    std::string links = text(plural(machine.node_devices, "device"), " a node, ", plural(machine.nodes, "node"), ", ",
                             significant(machine.memory / kGiga), " GB each");
    if (machine.node_devices > 1) links += text("; in a node ", link_line(machine.link));
    if (machine.nodes > 1) links += text("; network ", link_line(machine.network));
    console.print(std::string(kColumn, ' ') + links);
    console.print(std::string(kColumn, ' ') + "source: " + machine.source);
    console.event({{"event", "machine"},
                   {"name", machine.name},
                   {"about", machine.about},
                   {"node_devices", machine.node_devices},
                   {"nodes", machine.nodes},
                   {"memory_bytes", machine.memory},
                   {"node_bytes_per_second", machine.link.bandwidth},
                   {"node_latency_seconds", machine.link.latency},
                   {"network_bytes_per_second", machine.network.bandwidth},
                   {"network_latency_seconds", machine.network.latency},
                   {"source", machine.source}});
  }
  console.event({{"event", "summary"}, {"machines", described_machines().size()}});
  return 0;
}

void print_table(Console& console, const std::vector<ScalingPrediction>& predictions, const Fabric& fabric) {
  console.print(cell("devices", 9) + cell("batch", 8) + cell("step ms", 12) + cell("samples/s", 13) +
                cell("efficiency %", 14) + cell("communication %", 17) + cell("sums ms", 10) + cell("by", 6) +
                cell("memory GB", 11));
  constexpr double kFew = 1000;
  bool fits = true;
  for (const ScalingPrediction& at : predictions) {
    console.print(cell(text(at.devices), 9) + cell(text(at.batch), 8) + cell(at.step / kMilli, 3, 12) +
                  cell(at.samples_per_second(), at.samples_per_second() < kFew ? 2 : 0, 13) +
                  cell(100 * at.efficiency(), 1, 14) + cell(100 * at.communication(), 1, 17) +
                  cell(at.gradient_sums / kMilli, 3, 10) + cell(std::string(name(at.algorithm)), 6) +
                  cell(at.memory.total() / kGiga, 2, 10) + (at.fits ? "" : "!"));
    fits = fits && at.fits;
  }
  if (!fits)
    console.print(text("! more than the ", significant(fabric.memory / kGiga),
                       " GB of a device: use a smaller batch, "
                       "zero, pipeline or tensor"));
}

JsonObject event_of(const ScalingPrediction& at) {
  return {{"event", "prediction"},
          {"devices", at.devices},
          {"nodes", at.nodes},
          {"copies", at.copies},
          {"batch", at.batch},
          {"global_batch", at.batch * at.copies},
          {"micro_batches", at.micro_batches},
          {"step_seconds", at.step},
          {"samples_per_second", at.samples_per_second()},
          {"efficiency", at.efficiency()},
          {"communication", at.communication()},
          {"compute_seconds", at.compute},
          {"bubble_seconds", at.bubble},
          {"waiting_seconds", at.waiting},
          {"tensor_sum_seconds", at.team_sums},
          {"transfer_seconds", at.transfers},
          {"exposed_gradient_sum_seconds", at.exposed},
          {"gradient_sum_seconds", at.gradient_sums},
          {"algorithm", name(at.algorithm)},
          {"memory_bytes", at.memory.total()},
          {"weight_memory_bytes", at.memory.weights},
          {"gradient_memory_bytes", at.memory.gradients},
          {"state_memory_bytes", at.memory.state},
          {"activation_memory_bytes", at.memory.activations},
          {"fits", at.fits}};
}

}  // namespace

int verb_simulate(const Words& words) {
  CommandLine line({"simulate",
                    "predicts how a training scales over many devices of a described machine",
                    "",
                    {"neurim simulate machine=dgx-a100 devices=64,1024,4096 params=25.6e6 batch=35 fixed_ms=4.3 "
                     "sample_ms=0.284",
                     "neurim simulate machine=eos-dfw devices=2528 params=25.6e6 batch=16 gradient_bits=16 "
                     "measured=8:400:55.8,64:50:10.2",
                     "neurim simulate node_devices=4 node_gbs=20 node_us=5 network_gbs=12 network_us=3 devices=4,8,16 "
                     "params=1e8 global_batch=256 sample_ms=2"}});
  Asked asked;
  add_options(line.options, asked);
  if (!line.parse(words)) return 0;
  Console console(line.console());
  if (asked.list || (asked.machine.empty() && !asked.has_own_links() && asked.devices.empty()))
    return list_machines(console);
  const Fabric fabric = fabric_of(asked);
  const std::vector<std::int64_t> counts = counts_of(asked);
  const SimulatedTraining training = training_of(asked, fabric);
  std::vector<ScalingPrediction> predictions;
  for (const std::int64_t devices : counts)
    predictions.push_back(predict(fabric, training, devices, batch_of(asked, training, devices)));
  console.print(text("neurim ", version(), "  simulate  ", fabric.name, ": ", fabric.about));
  console.print(text("a device computes ", fixed(training.compute.fixed / kMilli, 3), " ms and ",
                     significant(training.compute.per_sample / kMilli), " ms for each sample",
                     asked.measured.empty() ? "" : ", by the measured steps"));
  print_table(console, predictions, fabric);
  for (const ScalingPrediction& at : predictions) console.event(event_of(at));
  JsonObject summary{{"event", "summary"},
                     {"machine", fabric.name},
                     {"predictions", predictions.size()},
                     {"fixed_seconds", training.compute.fixed},
                     {"sample_seconds", training.compute.per_sample}};
  const ScalingPrediction &first = predictions.front(), &last = predictions.back();
  if (first.devices != last.devices) {
    const double gain = last.samples_per_second() / first.samples_per_second();
    const double ideal = static_cast<double>(last.devices) / static_cast<double>(first.devices);
    console.print(text("from ", first.devices, " to ", last.devices, " devices: ", significant(gain),
                       " times the samples a second, ", fixed(100 * gain / ideal, 1), " % of ", significant(ideal),
                       " times"));
    summary.add("speedup", gain), summary.add("ideal_speedup", ideal);
  }
  console.event(summary);
  return 0;
}

}  // namespace neurim::cli
