#include <algorithm>

#include "neurim/cli/benchmark_data.h"
#include "neurim/cli/benchmark_formats.h"
#include "neurim/cli/benchmark_scenario.h"
#include "neurim/cli/drawn_batch.h"
#include "neurim/cli/input_options.h"
#include "neurim/cli/measure.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/verbs.h"
#include "neurim/hardware/machine.h"
#include "neurim/neurim.h"

namespace neurim::cli {

namespace {

/// A model with a plan of one batch size on random images. A call is one training step or one inference.
class Case {
 public:
  /// The model is on the device; the checkpoint outlives the case.
  Case(const Checkpoint& checkpoint, const std::string& mode, const Type& images, Device device,
       const PlanOptions& options)
      : model_(checkpoint.model) {
    const Types types = batch_types(images.shape[0], images.shape[1], images.shape[2], images.shape[3]);
    if (mode == "train") {
      optimizer_ = std::make_unique<SGD>(named_parameters(model_), SGD::Config{.lr = 1e-3, .momentum = 0.9});
      if (options.compute_dtype == DType::f16) optimizer_->scale_losses();
      plan_ = plan(training_step(model_, *optimizer_, {}), types, training_options(device, options));
    } else {
      plan_ = inference_plan(model_, images, options);
    }
    draw_batch(plan_, model_.num_classes);
  }
  Case(const Case&) = delete;

  void run() const { plan_.run(plan_.inputs(), plan_.outputs()); }
  double rounded_share() const { return neurim::rounded_share(plan_.rows()); }

 private:
  const Model& model_;
  std::unique_ptr<Optimizer> optimizer_;
  Plan plan_;
};

struct BenchmarkOptions {
  std::string model, arch, mode = "infer", scenario, formats, python = "python3", data, augment = "rrc,hflip",
                           decode = "exact", loader = "neurim";
  std::optional<std::int64_t> batch_wanted, threads_wanted, seed;
  std::int64_t rounds = 5;
  InputOptions input;
  std::optional<double> seconds_wanted, target_qps;
  double target_latency = 15, max_bad = DataBenchmark().max_bad;
  std::int64_t samples = 256, min_queries = 100;
  bool serving = false, deterministic = false, accuracy = false;

  bool of_data() const { return mode == "data"; }
  std::int64_t batch() const {
    return batch_wanted.value_or(of_data() ? 64 : scenario.empty() || scenario == "single-stream" ? 1 : 8);
  }
  double seconds() const { return seconds_wanted.value_or(scenario.empty() ? 2 : 60); }

  void visit(CommandLine& line) {
    line.options.topic("most used");
    line.options("model", model, "run folder, weights or function file, model file, or known name", {"m"});
    line.options("arch", arch, kArchOfWeights);
    line.options("mode", mode, "train, infer or data");
    line.options("batch", batch_wanted,
                 "images a call; auto: 1, with mode=data 64, with a scenario 8, the most that are computed together",
                 {"batch_size", "b"});
    line.options("imgsz", input.imgsz,
                 "size of the input, pixels: one number, or height x width; auto: the model's own, or 224",
                 {"img_size", "input_size"});
    line.options("seconds", seconds_wanted, "length of a round; auto: 2, with a scenario 60");
    line.options("rounds", rounds, "rounds to measure; their median is printed");
    line.options("formats", formats,
                 "compare the model as it is with its ONNX file in several runtimes: any of native,onnx,ort,openvino");
    line.options("python", python, "formats: a Python that has onnxruntime and openvino");
    line.options.topic("load as MLPerf Inference has it");
    line.options("scenario", scenario,
                 "single-stream (one image after the other), multi-stream (batch images after the others), server "
                 "(images at random times) or offline (all at once)");
    line.options("target_qps", target_qps, "server: images a second; auto: the most that keep to target_latency");
    line.options("target_latency", target_latency, "server: milliseconds within which 99 % have to be answered");
    line.options("min_queries", min_queries, "the least number of queries, of offline of images");
    line.options("samples", samples, "images in memory that queries draw from");
    line.options("accuracy", accuracy, "answer every image of the data once instead, and print how many are right");
    line.options.topic("mode=data");
    line.options(
        "data", data,
        "mode=data: folder of images, whose training split is loaded; formats and scenario: images to compute, "
        "by default the validation split of training");
    line.options("augment", augment, "mode=data: augmentations, such as rrc(0.35,1),hflip(0.5)");
    line.options("decode", decode,
                 "mode=data: exact, or scaled (JPEGs that are shrunk to half and less are decoded at 1/2, 1/4 or 1/8)");
    line.options("max_bad", max_bad, "mode=data: unreadable images to tolerate: a share of all below 1, else a count");
    line.options("loader", loader, text("mode=data: ", join(loader_names(), ", "), " (a plug-in)"));
    line.options.topic("computing");
    line.options("threads", threads_wanted,
                 "threads that compute; mode=data: that load, 0 for the one that asks for batches");
    line.options("deterministic", deterministic,
                 "mode=train: the same weights, to the last bit, for any number of threads");
    line.options("serve", serving, "read requests 'go KEY SECONDS' and 'quit' on stdin, answer with JSON lines");
    line.options("seed", seed,
                 text(kSeedOfWeights, "; mode=data: of order and augmentations; auto: 0, with mode=data 42"));
    line.add_device();
    line.add_precision();
    line.add_tuning();
  }

  /// Throws Error(usage) for contradictory options.
  void check(const CommandLine& line) const {
    require(mode == "train" || mode == "infer" || of_data(), "mode: there is no '", mode,
            "'; known are train, infer, data");
    require(line.compute_dtype() == DType::f32 || !of_data(), "precision: is not for mode=data");
    require(!line.given("tuning") || !of_data(), "tuning: is not for mode=data");
    require(!deterministic || mode == "train", "deterministic: is for mode=train");
    require(rounds >= 1 && seconds() > 0, "rounds is ", rounds, " and seconds ", seconds(),
            "; at least one round of some length is needed");
    require(batch() >= 1, "batch is ", batch(), "; it is at least 1");
    require(formats.empty() || (mode == "infer" && !serving), "formats: is for mode=infer");
    for (const char* of_scenario : {"target_qps", "target_latency", "min_queries", "samples", "accuracy"})
      require(!scenario.empty() || !line.given(of_scenario), of_scenario, ": is for scenario");
    if (!scenario.empty()) {
      const Scenario chosen = scenario_named(scenario);
      require(mode == "infer" && !serving && formats.empty() && !line.given("rounds"),
              "scenario: is for mode=infer, without rounds, serve and formats");
      for (const char* of_server : {"target_qps", "target_latency"})
        require(chosen == Scenario::server || !line.given(of_server), of_server, ": is for scenario=server");
      require(chosen != Scenario::single_stream || batch_wanted.value_or(1) == 1,
              "batch: single-stream computes one image at a time");
      for (const char* of_load : {"seconds", "target_qps", "target_latency", "min_queries", "samples"})
        require(!accuracy || !line.given(of_load), of_load, ": has no effect with accuracy=true; leave it out");
      require(samples >= 1 && min_queries >= 1, "samples is ", samples, " and min_queries ", min_queries,
              "; each is at least 1");
      require(target_latency > 0 && target_qps.value_or(1) > 0, "target_latency and target_qps are above 0");
    }
    require(formats.empty() ? !line.given("python") : true, "python: is for formats");
    for (const std::string& format : wanted_formats())
      require(
          std::find(std::begin(kBenchmarkFormats), std::end(kBenchmarkFormats), format) != std::end(kBenchmarkFormats),
          "formats: there is no '", format, "'; known are ",
          join({std::begin(kBenchmarkFormats), std::end(kBenchmarkFormats)}, ", "));
  }

  std::vector<std::string> wanted_formats() const { return formats.empty() ? Words{} : split(formats, ','); }

  ScenarioBenchmark scenario_benchmark(const Preprocess& preprocess) const {
    return {.load = {.scenario = scenario_named(scenario),
                     .library = samples,
                     .seconds = seconds(),
                     .min_queries = min_queries,
                     .batch = batch(),
                     .latency_bound = target_latency / 1e3,
                     .seed = static_cast<std::uint64_t>(seed.value_or(0))},
            .rate = target_qps,
            .preprocess = preprocess,
            .data = data,
            .accuracy = accuracy};
  }

  DataBenchmark data_benchmark() const {
    return {.data = data,
            .augment = augment,
            .decode = decode,
            .loader = loader,
            .batch = batch(),
            .imgsz = input.imgsz.value_or(224),
            .threads = threads_wanted == 0 ? 0 : threads(),
            .rounds = rounds,
            .seconds = seconds(),
            .max_bad = max_bad,
            .seed = seed.value_or(42)};
  }
};

/// Images a second of each round, and the sorted seconds of all calls.
struct Measured {
  std::vector<double> rates, calls;
};

Measured measure(const Case& subject, const BenchmarkOptions& o, Console& console) {
  const auto call = [&] { subject.run(); };
  times_of(call, std::min(1.0, o.seconds() / 2));
  Measured measured;
  for (std::int64_t round = 0; round < o.rounds; ++round) {
    const std::vector<double> times = times_of(call, o.seconds());
    measured.rates.push_back(rate_of(times, o.batch()));
    measured.calls.insert(measured.calls.end(), times.begin(), times.end());
    console.progress(text("  round ", round + 1, '/', o.rounds, "  ", fixed(measured.rates.back(), 1), " img/s"));
  }
  std::sort(measured.calls.begin(), measured.calls.end());
  return measured;
}

void print(const Measured& measured, const Case& subject, const std::string& model, const BenchmarkOptions& o,
           const CommandLine& line, Console& console) {
  const double rate = median(measured.rates);
  const auto milliseconds = [&](double share) { return sorted_at(measured.calls, share) * 1e3; };
  const std::string precision(name(line.compute_dtype()));
  console.print(
      text(model, ' ', o.mode, " batch ", o.batch(), ": ", fixed(rate, 1), " img/s, ", fixed(milliseconds(0.5), 3),
           " ms a call (p90 ", fixed(milliseconds(0.9), 3), ", p99 ", fixed(milliseconds(0.99), 3), "), ", threads(),
           " threads, peak ", fixed(peak_rss_mib(), 0), " MiB",
           line.compute_dtype() != DType::f32
               ? text(", ", precision, " in ", fixed(100 * subject.rounded_share(), 1), " % of the multiply-adds")
               : ""));
  console.event(
      {{"event", "summary"},
       {"model", model},
       {"mode", o.mode},
       {"batch", o.batch()},
       {"images_per_second", rate},
       {"samples", measured.rates},
       {"latency_ms", JsonObject{{"p50", milliseconds(0.5)}, {"p90", milliseconds(0.9)}, {"p99", milliseconds(0.99)}}},
       {"peak_rss_mib", peak_rss_mib()},
       {"threads", threads()},
       {"precision", precision}});
}

}  // namespace

int verb_benchmark(const Words& words) {
  CommandLine line({"benchmark",
                    "measures training steps or inference on drawn images, or how fast images are loaded",
                    "model",
                    {"neurim benchmark model=resnet50 mode=train batch=16 imgsz=224 threads=2",
                     "neurim benchmark model=resnet18 mode=infer batch=1 seconds=10 --json",
                     "neurim benchmark mode=data data=photos imgsz=224 augment=rrc,hflip batch=64 --json"}});
  BenchmarkOptions o;
  o.visit(line);
  if (!line.parse(words)) return 0;
  o.check(line);

  initialize();
  if (o.threads_wanted && !(o.of_data() && o.threads_wanted == 0)) set_threads(*o.threads_wanted);
  if (o.of_data()) {
    Console console(line.console());
    return benchmark_data(o.data_benchmark(), line, console);
  }
  const Checkpoint checkpoint = open_model(o.model, o.arch, o.input.imgsz, o.seed.value_or(0));
  const std::string& model = checkpoint.config.model;
  place(checkpoint.model, line.device());
  refuse_sequence(checkpoint, "benchmark");
  if (o.input.imgsz) check_size(checkpoint.model, *o.input.imgsz);
  const Type images = image_type(o.input.applied_to(checkpoint.config.preprocess), o.batch());
  Console console(line.console());
  if (!o.formats.empty() && !line.dry_run())  // which has plans of its own
    return benchmark_formats({.formats = o.wanted_formats(),
                              .data = o.data,
                              .python = o.python,
                              .batch = o.batch(),
                              .rounds = o.rounds,
                              .seconds = o.seconds()},
                             checkpoint, line, console);
  if (!o.scenario.empty() && !line.dry_run())
    return benchmark_scenario(o.scenario_benchmark(o.input.applied_to(checkpoint.config.preprocess)), checkpoint, line,
                              console);
  const std::string precision(name(line.compute_dtype()));
  PlanOptions options = line.plan_options();
  options.deterministic = o.deterministic;
  const Case subject(checkpoint, o.mode, images, line.device(), options);
  if (line.dry_run())
    return line.end_dry_run(
        console,
        o.serving ? text("answer requests on ", images)
        : !o.scenario.empty()
            ? text("put the load of ", o.scenario, " on ", model, " for ", o.seconds(), " s: ", images)
            : text("measure ", o.rounds, " rounds of ", o.seconds(), " s: ", model, ' ', o.mode, ", ", images),
        {{"model", model},
         {"mode", o.mode},
         {"batch", o.batch()},
         {"precision", precision},
         {"rounds", o.rounds},
         {"seconds", o.seconds()}});
  if (o.serving) {
    serve({{"suite", o.mode},
           {"case", model},
           {"peer", "neurim"},
           {"version", version()},
           {"precision", precision},
           {"threads", threads()}},
          o.batch(), [&] { subject.run(); });
    return 0;
  }
  print(measure(subject, o, console), subject, model, o, line, console);
  return 0;
}

}  // namespace neurim::cli
