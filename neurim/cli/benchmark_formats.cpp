#include "neurim/cli/benchmark_formats.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "neurim/base/process.h"
#include "neurim/cli/benchmark_data.h"
#include "neurim/cli/drawn_batch.h"
#include "neurim/cli/measure.h"
#include "neurim/infer/parity.h"
#include "neurim/infer/session.h"
#include "neurim/neurim.h"
#include "neurim/train/export_checkpoint.h"

namespace neurim::cli {

namespace {

/// A folder that goes with the object.
class OwnFolder {
 public:
  OwnFolder() : path_(fs::temp_directory_path() / text("neurim-formats-", ::getpid())) { make_folder(path_); }
  ~OwnFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

/// Runs an ONNX file as it is told on stdin: "run IN.npy OUT.npy", or "time IN.npy SECONDS", which gives the seconds of
/// each call.
constexpr const char* kPeer = R"(
import json, sys, time
import numpy
engine, model, threads, precision = sys.argv[1:]
if engine == "ort":
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(threads)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name, version = session.get_inputs()[0].name, onnxruntime.__version__
    run = lambda x: session.run(None, {name: x})[0]
else:
    import openvino
    settings = {"INFERENCE_NUM_THREADS": int(threads), "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": precision}
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    version = openvino.__version__.split("-")[0]
    run = lambda x: request.infer({0: x})[0]
print(json.dumps({"version": version}), flush=True)
for line in sys.stdin:
    what, given, wanted = line.rstrip("\n").split("\t")
    x = numpy.load(given)
    if what == "run":
        numpy.save(wanted, numpy.ascontiguousarray(run(x), dtype=numpy.float32))
        print("{}", flush=True)
        continue
    seconds, end = [], time.perf_counter() + float(wanted)
    while not seconds or time.perf_counter() < end:
        begin = time.perf_counter()
        run(x)
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": seconds}), flush=True)
)";

/// One format and what runs it.
struct Format {
  std::string name, engine;                                         ///< "ort", "ONNX Runtime 1.31.1"
  std::uintmax_t bytes = 0;                                         ///< of its files
  std::function<Tensor(const Tensor&)> run;                         ///< images to logits
  std::function<std::vector<double>(const Tensor&, double)> timed;  ///< the seconds of calls for so many seconds

  std::int64_t same = 0, right = 0;  ///< images with the class of the first format, and with that of their label
  std::vector<double> rates, calls;  ///< images a second of each round; seconds of each call
};

Format own(const std::string& name, const std::string& engine, std::uintmax_t bytes, const InferenceSession& session) {
  return {.name = name,
          .engine = engine,
          .bytes = bytes,
          .run = [session](const Tensor& x) { return session.run(Tensors{x})[0]; },
          .timed = [session](const Tensor& x,
                             double seconds) { return times_of([&] { session.run(Tensors{x}); }, seconds); }};
}

/// Another runtime; throws Error(resource) with what it said where it does not answer.
Format peer(const std::string& name, const fs::path& file, std::uintmax_t bytes, const std::string& python,
            DType precision, const fs::path& folder) {
  const fs::path errors = folder / (name + ".log");
  const std::string hint = precision == DType::bf16 ? "bf16" : precision == DType::f16 ? "f16" : "f32";
  const auto process = std::make_shared<Process>(
      std::vector<std::string>{python, "-c", kPeer, name, file.string(), text(threads()), hint}, errors.string());
  const auto answered = [=](const std::string& line) {
    if (nlohmann::json::accept(line)) return nlohmann::json::parse(line);
    std::string last, said = fs::exists(errors) ? read_text(errors) : "";
    while (!said.empty() && said.back() == '\n') said.pop_back();
    last = said.substr(said.rfind('\n') + 1);
    fail(Fault::resource, name, ": ", python, " does not run it: ", last.empty() ? "it ended" : last);
  };
  const std::string version = answered(process->line()).at("version");
  const auto input = [=](const Tensor& x) {
    write_npy(folder / "x.npy", x);
    return (folder / "x.npy").string();
  };
  return {.name = name,
          .engine = text(name == "ort" ? "ONNX Runtime " : "OpenVINO ", version),
          .bytes = bytes,
          .run =
              [=](const Tensor& x) {
                const std::string out = (folder / "y.npy").string();
                answered(process->ask(text("run\t", input(x), '\t', out)));
                return read_npy(out);
              },
          .timed = [=](const Tensor& x, double seconds) -> std::vector<double> {
            return answered(process->ask(text("time\t", input(x), '\t', seconds))).at("seconds");
          }};
}

std::size_t likeliest(std::span<const double> row) {
  return static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

/// Counts the classes of a batch, of which `count` rows are images.
void compare(std::vector<Format>& formats, const Tensor& x, std::span<const std::int64_t> labels, std::int64_t count) {
  std::vector<std::size_t> first;
  for (Format& format : formats) {
    const std::vector<double> all = format.run(x).values<double>();
    const std::size_t classes = all.size() / static_cast<std::size_t>(std::int64_t{x.size(0)});
    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
      const std::size_t named = likeliest(std::span(all).subspan(row * classes, classes));
      if (&format == &formats[0]) first.push_back(named);
      format.same += named == first[row];
      if (!labels.empty()) format.right += static_cast<std::int64_t>(named) == labels[row];
    }
  }
}

/// Images of the data, or drawn ones; how many, and whether they have labels.
struct Compared {
  std::int64_t images = 0;
  bool labelled = false;
  std::string source;
};

Tensor drawn_images(const Type& type) {
  return Tensor::from(type.shape, drawn_numbers(static_cast<std::size_t>(type.shape.numel())));
}

Compared compare_all(std::vector<Format>& formats, const FormatsBenchmark& o, const Checkpoint& checkpoint,
                     Console& console) {
  const Preprocess& preprocess = checkpoint.config.preprocess;
  std::string note;
  const auto images = parity_images(checkpoint, o.data, note);
  if (!note.empty()) console.print(text("note: without accuracies, as of the data of training: ", note));
  if (!images) {
    constexpr std::int64_t count = 32;
    compare(formats, drawn_images(image_type(preprocess, count)), {}, count);
    return {count, false, text(count, " drawn images")};
  }
  constexpr int batch_size = 32;
  Loader loader(images->dataset, images->split, preprocess, {}, {.batch = batch_size});
  loader.start(0);
  Batch batch;
  Compared compared{0, checkpoint.config.task() == classify_task(), ""};
  while (compared.images < o.images && loader.next(batch)) {
    const std::int64_t count = std::min<std::int64_t>(batch.size, o.images - compared.images);
    compare(formats, Tensor::from(image_type(preprocess, batch.size), batch.images.data()), batch.labels, count);
    compared.images += count;
  }
  compared.source = text(plural(compared.images, "image"), " of the split ", images->split, " of ", images->name);
  return compared;
}

/// All in turns, so that what else the machine does falls on each.
void time_all(std::vector<Format>& formats, const FormatsBenchmark& o, const Tensor& x, Console& console) {
  for (Format& format : formats) format.timed(x, std::min(1.0, o.seconds / 2));
  for (std::int64_t round = 0; round < o.rounds; ++round)
    for (Format& format : formats) {
      const std::vector<double> times = format.timed(x, o.seconds);
      format.rates.push_back(rate_of(times, o.batch));
      format.calls.insert(format.calls.end(), times.begin(), times.end());
      console.progress(
          text("  round ", round + 1, '/', o.rounds, "  ", format.name, "  ", fixed(format.rates.back(), 1), " img/s"));
    }
}

void print(std::vector<Format>& formats, const Compared& compared, const FormatsBenchmark& o, Console& console) {
  console.print(text("batch ", o.batch, ", ", threads(), " threads; classes on ", compared.source));
  std::array<char, 200> row;
  std::snprintf(row.data(), row.size(), "%-9s %-20s %9s %11s %11s %9s %9s %9s %11s", "format", "runs in", "accuracy",
                "same class", "img/s", "p50, ms", "p90, ms", "p99, ms", "size, KiB");
  console.print(row.data());
  for (Format& format : formats) {
    std::sort(format.calls.begin(), format.calls.end());
    const auto milliseconds = [&](double share) { return 1e3 * sorted_at(format.calls, share); };
    const double images = static_cast<double>(compared.images);
    const double accuracy = static_cast<double>(format.right) / images,
                 same = static_cast<double>(format.same) / images;
    const auto kib = static_cast<std::int64_t>(format.bytes >> 10);
    std::snprintf(row.data(), row.size(), "%-9s %-20s %9s %11s %11.1f %9.3f %9.3f %9.3f %11s", format.name.c_str(),
                  format.engine.c_str(), compared.labelled ? text(fixed(100 * accuracy, 2), " %").c_str() : "-",
                  text(fixed(100 * same, 2), " %").c_str(), median(format.rates), milliseconds(0.5), milliseconds(0.9),
                  milliseconds(0.99), kib > 0 ? thousands(kib).c_str() : "-");
    console.print(row.data());
    JsonObject event{{"event", "format"}, {"format", format.name}, {"runs_in", format.engine}};
    if (compared.labelled) event.add("accuracy", accuracy);
    event.add("same_class", same);
    event.add("images_per_second", median(format.rates));
    event.add("samples", format.rates);
    event.add("latency_ms",
              JsonObject{{"p50", milliseconds(0.5)}, {"p90", milliseconds(0.9)}, {"p99", milliseconds(0.99)}});
    event.add("bytes", format.bytes);
    console.event(event);
  }
}

}  // namespace

int benchmark_formats(const FormatsBenchmark& o, const Checkpoint& checkpoint, const CommandLine& line,
                      Console& console) {
  const PlanOptions options = line.plan_options();
  const OwnFolder folder;
  const fs::path file = folder.path() / "model.onnx";
  const OnnxExport exported = export_checkpoint(checkpoint, file, {});
  std::vector<Format> formats;
  std::vector<std::string> missing;
  for (const std::string& name : o.formats) {
    if (name == "native") {
      const std::uintmax_t bytes = checkpoint.path.empty() ? 0 : fs::file_size(checkpoint.path);
      formats.push_back(own(name, text("Neurim ", version()), bytes, InferenceSession(checkpoint, options)));
    } else if (name == "onnx") {
      formats.push_back(own(name, text("Neurim ", version()), exported.size(), InferenceSession::open(file, options)));
    } else {
      try {
        formats.push_back(peer(name, file, exported.size(), o.python, options.compute_dtype, folder.path()));
      } catch (const Error& error) {
        if (error.fault() != Fault::resource) throw;
        missing.push_back(name);
        console.print(text("left out: ", error.what(), "; python= names a Python that has it"));
      }
    }
  }
  if (formats.empty()) fail(Fault::resource, "none of the formats can be run");
  const Compared compared = compare_all(formats, o, checkpoint, console);
  time_all(formats, o, drawn_images(image_type(checkpoint.config.preprocess, o.batch)), console);
  print(formats, compared, o, console);
  console.event({{"event", "summary"},
                 {"model", checkpoint.config.model},
                 {"batch", o.batch},
                 {"threads", threads()},
                 {"images", compared.images},
                 {"compared_on", compared.source},
                 {"left_out", missing}});
  return 0;
}

}  // namespace neurim::cli
