#include "neurim/cli/benchmark_scenario.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "neurim/cli/drawn_batch.h"
#include "neurim/cli/measure.h"
#include "neurim/infer/parity.h"
#include "neurim/neurim.h"

namespace neurim::cli {

namespace {

/// Images as the network takes them, in memory: they are loaded before a run, as MLPerf asks.
struct SampleLibrary {
  std::vector<float> values;
  std::string source;
  std::int64_t images = 0;
};

SampleLibrary library_of(const ScenarioBenchmark& o, const std::optional<ParityImages>& images) {
  if (!images)
    return {drawn_numbers(static_cast<std::size_t>(o.load.library) * o.preprocess.size().values()),
            plural(o.load.library, "drawn image"), o.load.library};
  SampleLibrary library;
  Loader loader(images->dataset, images->split, o.preprocess, {}, {.batch = 32});
  loader.start(0);
  for (Batch batch; library.images < o.load.library && loader.next(batch); library.images += batch.size)
    library.values.insert(library.values.end(), batch.images.begin(), batch.images.end());
  library.images = std::min(library.images, o.load.library);
  library.source = text(plural(library.images, "image"), " of the split ", images->split, " of ", images->name);
  return library;
}

/// A model that answers samples of a library, up to `batch` at once.
class SystemUnderTest {
 public:
  SystemUnderTest(const Model& model, const Preprocess& preprocess, const SampleLibrary& library, std::int64_t batch,
                  const PlanOptions& options)
      : library_(library), image_(preprocess.size().values()) {
    for (std::int64_t size = 1;; size = std::min(2 * size, batch)) {
      plans_.emplace(size, inference_plan(model, image_type(preprocess, size), options));
      if (size == batch) break;
    }
    pixels_.resize(static_cast<std::size_t>(batch) * image_);
  }

  /// By the plan of the next size, of which the last rows may be for nothing. The logits of all rows.
  const Tensor& operator()(std::span<const std::int64_t> samples) {
    const Plan& plan = plans_.lower_bound(std::ssize(samples))->second;
    for (std::size_t i = 0; i < samples.size(); ++i)
      std::copy_n(library_.values.begin() + samples[i] * static_cast<std::ptrdiff_t>(image_), image_,
                  pixels_.begin() + static_cast<std::ptrdiff_t>(i * image_));
    plan.inputs()[0].write(pixels_.data());
    plan.run(plan.inputs(), plan.outputs());
    return plan.outputs()[0];
  }

 private:
  const SampleLibrary& library_;
  std::size_t image_;
  std::map<std::int64_t, Plan> plans_;
  std::vector<float> pixels_;
};

/// What accuracy=true finds: each image that can be read is answered once.
struct Counted {
  std::int64_t images = 0, right = 0;
};

Counted count_right(SystemUnderTest& system, SampleLibrary& library, const ParityImages& images,
                    const Preprocess& preprocess, std::int64_t most) {
  Loader loader(images.dataset, images.split, preprocess, {}, {.batch = 32});
  loader.start(0);
  Counted counted;
  std::set<std::int64_t> seen;  // a sample stands in for one that cannot be read
  for (Batch batch; loader.next(batch);) {
    library.values.assign(batch.images.begin(), batch.images.end());
    std::vector<std::int64_t> fresh;
    for (std::int64_t i = 0; i < batch.size; ++i)
      if (seen.insert(batch.indices[static_cast<std::size_t>(i)]).second) fresh.push_back(i);
    for (std::size_t first = 0; first < fresh.size(); first += static_cast<std::size_t>(most)) {
      const auto samples = std::span(fresh).subspan(first,
                                                    std::min(static_cast<std::size_t>(most), fresh.size() - first));
      const Tensor& logits = system(samples);
      const std::vector<double> all = logits.values<double>();
      const std::int64_t classes = logits.size(1);
      for (std::size_t i = 0; i < samples.size(); ++i) {
        const auto row = all.begin() + static_cast<std::int64_t>(i) * classes;
        counted.right += std::max_element(row, row + classes) - row ==
                         batch.labels[static_cast<std::size_t>(samples[i])];
      }
    }
    counted.images += std::ssize(fresh);
  }
  return counted;
}

JsonObject scenario_summary(const ScenarioBenchmark& o, const Checkpoint& checkpoint, const CommandLine& line,
                            const SampleLibrary& library) {
  return {{"event", "summary"},
          {"model", checkpoint.config.model},
          {"mode", "infer"},
          {"scenario", name(o.load.scenario)},
          {"precision", name(line.compute_dtype())},
          {"threads", threads()},
          {"images", library.source}};
}

void print_load(const ScenarioBenchmark& o, const LoadResult& result, JsonObject summary, const std::string& model,
                Console& console) {
  const auto milliseconds = [&](double share) { return sorted_at(result.latencies, share) * 1e3; };
  const double share = o.load.scenario == Scenario::single_stream ? 0.9 : 0.99,
               bound = percentile_bound(result.latencies, share) * 1e3;
  std::string said = text(model, ' ', name(o.load.scenario), ": ", fixed(result.samples_per_second, 1), " img/s, ",
                          plural(result.samples, "image"), " in ", fixed(result.seconds, 1), " s");
  if (o.load.scenario == Scenario::server)
    said += text(", asked ", fixed(result.rate, 1), " a second: ", result.valid ? "valid" : "not valid",
                 ", 99 % within ", fixed(milliseconds(0.99), 2), " ms of ", fixed(o.load.latency_bound * 1e3, 2));
  if (o.load.scenario != Scenario::offline)
    said += text("; latency p50 ", fixed(milliseconds(0.5), 3), " ms, p90 ", fixed(milliseconds(0.9), 3), ", p99 ",
                 fixed(milliseconds(0.99), 3), ", p99.9 ", fixed(milliseconds(0.999), 3),
                 std::isinf(bound)
                     ? ""
                     : text("; p", fixed(100 * share, 0), " is below ", fixed(bound, 3), " with 99 % confidence"));
  console.print(said);
  summary.add("images_per_second", result.samples_per_second);
  summary.add("queries", result.queries);
  summary.add("samples", result.samples);
  summary.add("seconds", result.seconds);
  summary.add("valid", result.valid);
  if (o.load.scenario == Scenario::server) {
    summary.add("target_qps", result.rate);
    summary.add("latency_bound_ms", o.load.latency_bound * 1e3);
  }
  summary.add("latency_ms", JsonObject{{"p50", milliseconds(0.5)},
                                       {"p90", milliseconds(0.9)},
                                       {"p99", milliseconds(0.99)},
                                       {"p99.9", milliseconds(0.999)}});
  console.event(summary);
}

}  // namespace

int benchmark_scenario(const ScenarioBenchmark& o, const Checkpoint& checkpoint, const CommandLine& line,
                       Console& console) {
  std::string note;
  const auto images = parity_images(checkpoint, o.data, note);
  if (!note.empty()) console.print(text("note: of drawn images, as of the data of training: ", note));
  require(!o.accuracy || (images && checkpoint.config.task() == classify_task()),
          "accuracy: needs images with one class each; give data=");
  const std::int64_t most = o.load.scenario == Scenario::single_stream ? 1 : o.load.batch;
  SampleLibrary library;
  if (!o.accuracy) library = library_of(o, images);
  SystemUnderTest system(checkpoint.model, o.preprocess, library, most, line.plan_options());
  if (o.accuracy) {
    const Counted counted = count_right(system, library, *images, o.preprocess, most);
    const double accuracy = static_cast<double>(counted.right) / static_cast<double>(counted.images);
    library.source = text(plural(counted.images, "image"), " of the split ", images->split, " of ", images->name);
    console.print(text(checkpoint.config.model, ' ', name(o.load.scenario), ": accuracy ", fixed(100 * accuracy, 2),
                       " % of ", library.source));
    JsonObject summary = scenario_summary(o, checkpoint, line, library);
    summary.add("samples", counted.images);
    summary.add("top1", accuracy);
    console.event(summary);
    return 0;
  }
  JsonObject summary = scenario_summary(o, checkpoint, line, library);
  LoadOptions load = o.load;
  load.library = library.images;
  const auto answer = [&](std::span<const std::int64_t> samples) { system(samples); };
  const std::vector<std::int64_t> warm = drawn_samples(load, most);
  const double offline_rate = rate_of(times_of([&] { answer(warm); }, std::min(1.0, load.seconds / 2)), most);
  LoadResult result;
  if (load.scenario == Scenario::server && !o.rate) {
    console.progress("  looking for the highest rate");
    result = find_server_rate(load, answer, offline_rate);
  } else {
    load.rate = o.rate.value_or(offline_rate);
    result = put_load(load, answer);
  }
  print_load(o, result, std::move(summary), checkpoint.config.model, console);
  return result.valid ? 0 : static_cast<int>(Fault::gate);
}

}  // namespace neurim::cli
